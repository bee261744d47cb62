package memcache

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDecode(t *testing.T) {
	for _, tt := range decodeTests {
		t.Run(tt.name, func(t *testing.T) {
			got, n := decodeString(tt.d, tt.in)
			if got != tt.want {
				t.Errorf("Decode(%q) = %s, want %s", tt.in, got, tt.want)
			}
			wantN := len(tt.in)
			if strings.HasPrefix(tt.want, "close") {
				wantN = 0
			}
			if n != wantN {
				t.Errorf("Decode(%q) consumed %d bytes, want %d", tt.in, n, wantN)
			}
			for i := range tt.in { // cut anywhere, a request is incomplete, and nothing is consumed
				got, n := decodeString(tt.d, tt.in[:i])
				if got != ErrIncomplete.Error() || n != 0 {
					t.Fatalf("Decode(%q) = %s, %d bytes, want %v", tt.in[:i], got, n, ErrIncomplete)
				}
			}
			const next = "get next\r\n" // what follows makes no difference
			if got, n := decodeString(tt.d, tt.in+next); got != tt.want || n != wantN {
				t.Errorf("Decode(%q) = %s, %d bytes, want %s, %d bytes",
					tt.in+next, got, n, tt.want, wantN)
			}
		})
	}
}

// TestDecodeStream decodes several requests of one connection, the way a server does, as written
// and one byte at a time.
func TestDecodeStream(t *testing.T) {
	for _, tt := range streamTests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.Join(tt.want, "\n")
			whole := []byte(tt.in)
			if got := transcript(Decoder{MaxItem: 64}, whole); got != want {
				t.Errorf("Decode(%q):\ngot\n%s\nwant\n%s", tt.in, got, want)
			}
			var pieces [][]byte
			for i := range whole {
				pieces = append(pieces, whole[i:i+1])
			}
			if got := transcript(Decoder{MaxItem: 64}, pieces...); got != want {
				t.Errorf("Decode(%q), one byte at a time:\ngot\n%s\nwant\n%s", tt.in, got, want)
			}
		})
	}
}

// TestDecodeNeed checks that a set says how many bytes it needs as soon as its line is whole, and
// that this many do.
func TestDecodeNeed(t *testing.T) {
	const line, in = "set q 0 0 5\r\n", "set q 0 0 5\r\nhello\r\n"
	for i := range len(in) + 1 {
		var req Request
		_, err := Decoder{}.Decode([]byte(in[:i]), &req)
		want := 0
		if len(line) <= i && i < len(in) {
			want = len(in)
		}
		if req.Need != want || (err == ErrIncomplete) != (i < len(in)) {
			t.Errorf("Decode(%q): Need = %d, error %v, want Need %d", in[:i], req.Need, err, want)
		}
	}
}

// TestDecodeReset checks that nothing of one request shows in the next: any request of the tables, and then one of each
// shape.
func TestDecodeReset(t *testing.T) {
	var first []string
	for _, tt := range decodeTests {
		first = append(first, tt.in)
	}
	for _, tt := range streamTests {
		first = append(first, tt.in)
	}
	for _, in := range first {
		for _, next := range []string{
			"get q\r\n", "get q/close\r\n", "set q 0 0 1\r\nx\r\n", "set q 0 0 1\r\n", "set q 0 0 999999999\r\n", "quit\r\n", "stats\r\n",
			"", "?\r\n",
		} {
			var used, fresh Request
			Decoder{}.Decode([]byte(in), &used)
			Decoder{}.Decode([]byte(next), &used)
			Decoder{}.Decode([]byte(next), &fresh)
			if got, want := fmt.Sprintf("%+v", used), fmt.Sprintf("%+v", fresh); got != want {
				t.Errorf("Decode(%q) behind %q = %s, want %s", next, in, got, want)
			}
		}
	}
}

func TestProtocolError(t *testing.T) {
	_, err := Decoder{}.Decode([]byte("die in a fire\r\n"), new(Request))
	var refused *ProtocolError
	if !errors.As(err, &refused) {
		t.Fatalf("Decode of an unknown command = %v, want a *ProtocolError", err)
	}
	if got, want := err.Error(), "memcache: unknown command"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

// TestScanName compares scanName with a search for each byte by itself.
func TestScanName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bytesOf := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte(" /!.-a\xa0\xaf\x80\x7f")))
		b := rapid.SliceOfN(bytesOf, 0, 40).Draw(t, "b")
		end := bytes.IndexAny(b, " /")
		if end < 0 {
			end = len(b)
		}
		ascii := !slices.ContainsFunc(b[:end], func(c byte) bool { return c >= 0x80 })
		if gotEnd, gotASCII := scanName(b); gotEnd != end || gotASCII != ascii {
			t.Errorf("scanName(%q) = %d, %v, want %d, %v", b, gotEnd, gotASCII, end, ascii)
		}
	})
}

func TestWords(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"a", []string{"a"}},
		{"a b", []string{"a", "b"}},
		{" a  b", []string{"", "a", "", "b"}},
	}
	for _, tt := range tests {
		var got []string
		for word := range Words([]byte(tt.in)) {
			got = append(got, string(word))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tt.want) {
			t.Errorf("Words(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
	for word := range Words([]byte("a b c")) {
		if string(word) == "b" {
			break
		}
	}
}

func TestOpString(t *testing.T) {
	for op := OpGet; op < opStore; op++ {
		if got := lookupOp([]byte(strings.ToUpper(op.String()))); got != op {
			t.Errorf("lookupOp(%s) = %v, want %v", strings.ToUpper(op.String()), got, op)
		}
	}
	for _, op := range []Op{0, opStore, 255} {
		if got := op.String(); got != "unknown" {
			t.Errorf("Op(%d).String() = %q, want unknown", op, got)
		}
	}
}

// decodeString decodes the request at the start of in and returns it, or the error, as text.
func decodeString(d Decoder, in string) (string, int) {
	var req Request
	n, err := d.Decode([]byte(in), &req)
	return resultString(&req, err), n
}

// transcript decodes what arrives in pieces the way a server does, and returns what came of it, one
// line per request.
func transcript(d Decoder, pieces ...[]byte) string {
	var (
		lines  []string
		unread []byte // received, not consumed
		skip   int64
		req    Request
	)
	for _, piece := range pieces {
		unread = append(bytes.Clone(unread), piece...)
		for {
			skipped := min(skip, int64(len(unread)))
			unread, skip = unread[skipped:], skip-skipped
			n, err := d.Decode(unread, &req)
			if err == ErrIncomplete {
				break
			}
			lines = append(lines, resultString(&req, err))
			if refused, ok := err.(*ProtocolError); ok && refused.Fatal {
				return strings.Join(lines, "\n")
			}
			unread = unread[n:]
			skip = req.Skip
		}
	}
	if skip > 0 {
		lines = append(lines, fmt.Sprintf("%d bytes to skip", skip))
	} else if len(unread) > 0 {
		lines = append(lines, fmt.Sprintf("%d bytes left", len(unread)))
	}
	return strings.Join(lines, "\n")
}

// resultString returns what Decode returned as text.
func resultString(req *Request, err error) string {
	refused, ok := err.(*ProtocolError)
	switch {
	case ok && refused.Fatal:
		return fmt.Sprintf("close %q: %s", refused.Reply, refused.Reason)
	case ok:
		s := fmt.Sprintf("reply %q: %s", refused.Reply, refused.Reason)
		if req.NoReply {
			s += " (noreply)"
		}
		return s
	case err == ErrTooLarge:
		s := fmt.Sprintf("too large %q skip=%d", req.Queue, req.Skip)
		if req.NoReply {
			s += " noreply"
		}
		return s
	case err != nil:
		return err.Error()
	}
	return requestString(req)
}

// requestString returns a request as text: the fields its command uses, and any other that is set.
func requestString(req *Request) string {
	var b strings.Builder
	b.WriteString(req.Op.String())
	field := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	hasQueue := req.Op <= OpFlush || req.Op == OpFlushExpired || req.Op == OpTouch
	field(hasQueue || len(req.Queue) > 0, "%q", req.Queue)
	field(req.Op == OpSet, "flags=%d expiry=%d", req.Flags, req.Expiry)
	field(req.Op == OpSet || len(req.Data) > 0, "data=%q", req.Data)
	if len(req.Several) > 0 {
		for _, s := range req.Queues(nil) {
			field(true, "%s*%d", s.Queue, s.Weight)
		}
	}
	field(req.WaitMillis != 0, "wait=%d", req.WaitMillis)
	field(req.Open, "open")
	field(req.Close, "close")
	field(req.Abort, "abort")
	field(req.Peek, "peek")
	field(req.CAS, "cas")
	field(req.HasLease, "lease=%d", req.LeaseMillis)
	field(req.Release, "release")
	field(req.Reject, "reject")
	field(req.Receipt != 0, "receipt=%d", req.Receipt)
	field(req.HasDelay, "delay=%d", req.DelayMillis)
	field(req.Meta, "meta")
	field(len(req.ItemKey) > 0, "key=%q", req.ItemKey)
	field(req.New, "new")
	field(req.Replace, "replace")
	field(req.ID != 0, "id=%d", req.ID)
	field(req.List, "from=%d", req.From)
	field(req.Limit != 0, "limit=%d", req.Limit)
	field(req.Hidden, "hidden")
	field(req.Op == OpMonitor || req.Op == OpTouch, "seconds=%d", req.Seconds)
	field(req.HasMaxItems, "max=%d", req.MaxItems)
	field(req.Op == OpConfirm, "count=%d", req.Count)
	field(len(req.Args) > 0, "args=%q", req.Args)
	field(req.NoReply, "noreply")
	field(req.BadEnd, "badend")
	field(req.Need != 0, "need=%d", req.Need)
	field(req.Skip != 0, "skip=%d", req.Skip)
	return b.String()
}
