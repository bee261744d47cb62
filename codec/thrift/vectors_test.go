package thrift

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"strings"
	"testing"
)

// vectors holds the frames of the protocol's test vectors, written out in hex. Exception messages,
// which the vectors leave open, are ours. Each frame follows a line that says what it is:
//
//	>   a call, exactly as Client encodes it        <   a reply
//	~   a call that clients may encode so           <<  a reply on an upgraded connection
//	~~  the same, on an upgraded connection
//
//go:embed testdata/vectors.txt
var vectors string

// vector is one frame of vectors.
type vector struct {
	name  string // of the test vector
	kind  string
	want  string // as resultString or replyResultString has it
	frame []byte
}

func (v vector) decoder() Decoder { return Decoder{Upgraded: len(v.kind) == 2} }
func (v vector) client() Client   { return Client{Upgraded: len(v.kind) == 2} }
func (v vector) isReply() bool    { return v.kind[0] == '<' }

func TestVectors(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.name, func(t *testing.T) {
			if v.isReply() {
				checkReplyCuts(t, v.client(), v.frame, v.want)
				checkReplyAgain(t, v)
				return
			}
			checkCuts(t, v.decoder(), v.frame, v.want)
			checkCallAgain(t, v)
		})
	}
}

// checkCallAgain encodes a call that was decoded from v.
func checkCallAgain(t *testing.T, v vector) {
	var req Request
	if _, err := v.decoder().Decode(v.frame, &req); err != nil {
		return
	}
	client := v.client()
	client.ClientID = req.ClientID
	encoded := client.AppendRequest(nil, &req)
	if v.kind == ">" && !bytes.Equal(encoded, v.frame) {
		t.Errorf("AppendRequest of %s = %x, want %x", v.want, encoded, v.frame)
	}
	if got, n := decodeString(v.decoder(), encoded); got != v.want || n != len(encoded) {
		t.Errorf("Decode(%x) = %s, want %s", encoded, got, v.want)
	}
}

// checkReplyAgain encodes a reply that was decoded from v.
func checkReplyAgain(t *testing.T, v vector) {
	var r Reply
	if _, err := v.client().DecodeReply(v.frame, &r); err != nil {
		t.Fatal(err)
	}
	call := Call{Method: r.Method, Seq: r.Seq, Upgraded: v.client().Upgraded}
	if got := appendReply(nil, call, &r); !bytes.Equal(got, v.frame) {
		t.Errorf("reply %s is encoded as %x, want %x", v.want, got, v.frame)
	}
}

// appendReply encodes a decoded reply with the function that a server would use.
func appendReply(dst []byte, call Call, r *Reply) []byte {
	switch {
	case r.Failed && r.Exception == ExceptionUnknownMethod:
		req := Request{Call: call, Name: r.Name}
		return AppendUnknownMethod(dst, &req)
	case r.Failed:
		return AppendException(dst, call, r.Exception, string(r.Message))
	}
	switch r.Method {
	case MethodPut, MethodConfirm, MethodAbort, MethodRelease, MethodReject, MethodRemove:
		return AppendCount(dst, call, r.Count)
	case MethodBrowse:
		start := len(dst)
		dst = BeginItems(dst, call)
		for it := range r.Listed.All() {
			dst = AppendListed(dst, &it)
		}
		return EndItems(dst, start, r.Listed.Len())
	case MethodGet, MethodGetAny:
		start := len(dst)
		dst = BeginItems(dst, call)
		for it := range r.Items.All() {
			dst = AppendItem(dst, &it)
		}
		return EndItems(dst, start, r.Items.Len())
	case MethodTouch:
		return AppendDeadline(dst, call, r.Due)
	case MethodPeek:
		return AppendQueueInfo(dst, call, &r.Info)
	case MethodCurrentStatus:
		return AppendStatus(dst, call, r.Status)
	case MethodGetVersion:
		return AppendVersion(dst, call, string(r.Version))
	case MethodUpgrade:
		return AppendUpgrade(dst, call)
	}
	return AppendVoid(dst, call)
}

// readVectors parses vectors.
func readVectors(t testing.TB) (list []vector) {
	t.Helper()
	name := ""
	for line := range strings.Lines(vectors) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "":
		case line[0] == 'H':
			name = line
		case line[0] == ' ':
			v := &list[len(list)-1]
			v.frame = append(v.frame, unhex(t, line)...)
		default:
			kind, want, _ := strings.Cut(line, " ")
			list = append(list, vector{name: name, kind: kind, want: want})
		}
	}
	return list
}

// unhex returns the bytes that s spells; what is in quotes stands for itself.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	var out []byte
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			out = append(out, part...)
			continue
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(part), ""))
		if err != nil {
			t.Fatalf("%q: %v", part, err)
		}
		out = append(out, b...)
	}
	return out
}
