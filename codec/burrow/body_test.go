package burrow

import (
	"errors"
	"strings"
	"testing"
)

// readBody reads a body from in, at most step bytes at a time. It returns the body, what is left of in, and the error
// that ended the body.
func readBody(b Body, in string, step int) (body, rest string, err error) {
	src := []byte(in)
	for seen := min(step, len(src)); ; {
		piece, n, err := b.Decode(src[:seen])
		body += string(piece)
		src, seen = src[n:], seen-n
		switch {
		case err == ErrIncomplete && seen < len(src):
			seen = min(seen+step, len(src))
		case err != nil:
			return body, string(src), err
		}
	}
}

// bodyTests also seed FuzzBody.
var bodyTests = []struct {
	name string
	head Head
	in   string
	want string
	err  error // nil: the end
}{
	{name: "none", in: "", want: ""},
	{name: "sized", head: Head{Length: 5}, in: "hello", want: "hello"},
	{name: "sized and cut", head: Head{Length: 5}, in: "hell", want: "hell", err: ErrIncomplete},
	{name: "chunk", head: Head{Chunked: true}, in: "5\r\nhello\r\n0\r\n\r\n", want: "hello"},
	{name: "chunks", head: Head{Chunked: true}, in: "00A\r\n0123456789\r\n1;x=\"y\"\r\na\r\n0;z\r\nA: b\r\n\r\n",
		want: "0123456789a"},
	{name: "empty chunks", head: Head{Chunked: true}, in: "0\r\n\r\n", want: ""},
	{name: "chunks up to the limit", head: Head{Chunked: true}, in: "8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n",
		want: "0123456701234567"},
	{name: "chunks beyond the limit", head: Head{Chunked: true}, in: "8\r\n01234567\r\n9\r\n", want: "01234567",
		err: errBodySize},
	{name: "chunk beyond 64 bits", head: Head{Chunked: true}, in: "fffffffffffffffffffff\r\n", err: errBodySize},
	{name: "chunk without size", head: Head{Chunked: true}, in: "\r\n", err: errChunk},
	{name: "chunk with a sign", head: Head{Chunked: true}, in: "-1\r\n", err: errChunk},
	{name: "chunk with a blank behind its size", head: Head{Chunked: true}, in: "5 ;x\r\n", err: errChunk},
	{name: "chunk of 0x5", head: Head{Chunked: true}, in: "0x5\r\n", err: errChunk},
	{name: "chunk with a bare LF", head: Head{Chunked: true}, in: "5\nhello\r\n", err: errChunk},
	{name: "chunk that is longer", head: Head{Chunked: true}, in: "4\r\nhello\r\n", want: "hell", err: errChunk},
	{name: "chunk that ends in LF", head: Head{Chunked: true}, in: "4\r\nhell\n", want: "hell", err: errChunk},
	{name: "chunk that ends in CR CR", head: Head{Chunked: true}, in: "4\r\nhell\r\r", want: "hell", err: errChunk},
	{name: "extension without end", head: Head{Chunked: true}, in: "4;" + strings.Repeat("x", MaxChunkLine), err: errChunk},
	{name: "extension with a control character", head: Head{Chunked: true}, in: "4;\x00\r\n", err: errChunk},
	{name: "trailer with a blank", head: Head{Chunked: true}, in: "0\r\nA : b\r\n", err: errHeaderName},
	{name: "trailer with a bare LF", head: Head{Chunked: true}, in: "0\r\nA: b\n", err: errLineEnd},
	{name: "trailer without end", head: Head{Chunked: true}, in: "0\r\nA: " + strings.Repeat("x", MaxChunkLine),
		err: errTrailers},
	{name: "many trailers", head: Head{Chunked: true}, in: "0\r\n" + strings.Repeat("A: b\r\n", 1+maxTrailers/6),
		err: errTrailers},
	{name: "chunks and cut", head: Head{Chunked: true}, in: "5\r\nhello\r\n0\r\n\r", want: "hello", err: ErrIncomplete},
}

// bodyDecoder has a limit that a short body can exceed.
var bodyDecoder = Decoder{MaxBody: 16}

func TestBody(t *testing.T) {
	for _, tt := range bodyTests {
		t.Run(tt.name, func(t *testing.T) {
			wantErr, next := tt.err, ""
			if wantErr == nil {
				wantErr, next = ErrEndOfBody, "GET / HTTP/1.1\r\n"
			}
			for _, step := range []int{1, 2, 3, 7, 1 << 20} {
				got, rest, err := readBody(bodyDecoder.Body(&tt.head), tt.in+next, step)
				if got != tt.want || !errors.Is(err, wantErr) {
					t.Errorf("body of %q, %d bytes at a time = %q, %v, want %q, %v", tt.in, step, got, err, tt.want, wantErr)
				}
				if err == ErrEndOfBody && rest != next {
					t.Errorf("body of %q, %d bytes at a time leaves %q, want %q", tt.in, step, rest, next)
				}
			}
		})
	}
}

func TestBodyLeft(t *testing.T) {
	b := bodyDecoder.Body(&Head{Length: 9})
	b.Decode([]byte("four"))
	if left, known := b.Left(); left != 5 || !known {
		t.Errorf("Left = %d, %v, want 5, true", left, known)
	}
	b = bodyDecoder.Body(&Head{Chunked: true})
	if left, known := b.Left(); known {
		t.Errorf("Left of chunks = %d, %v, want unknown", left, known)
	}
}

// TestFormInChunks tests that chunks do not make a form larger than it may be with a length.
func TestFormInChunks(t *testing.T) {
	for _, tt := range []struct {
		target, in string
		err        error
	}{
		{"/v1.0/a/q", "4000\r\n", ErrIncomplete}, {"/v1.0/a/q", "4001\r\n", errBodySize}, {"/v1.1/a/q/receive", "4001\r\n", ErrIncomplete},
	} {
		head := Head{Method: Post, Target: []byte(tt.target), Form: true, Chunked: true}
		if _, _, err := readBody(Decoder{}.Body(&head), tt.in, len(tt.in)); err != tt.err {
			t.Errorf("chunks of a POST to %s: %v, want %v", tt.target, err, tt.err)
		}
	}
}
