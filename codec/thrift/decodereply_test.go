package thrift

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const badReply = "thrift: malformed reply"

func TestDecodeReply(t *testing.T) {
	for _, tt := range decodeReplyTests {
		t.Run(tt.name, func(t *testing.T) {
			checkReplyCuts(t, tt.c, frame(unhex(t, tt.in)), tt.want)
		})
	}
}

// checkReplyCuts checks what comes of a reply's frame: whole, cut anywhere, and with another one
// behind it.
func checkReplyCuts(t *testing.T, c Client, frame []byte, want string) {
	t.Helper()
	got, n := decodeReplyString(c, frame)
	if got != want {
		t.Errorf("DecodeReply(%x) = %s, want %s", frame, got, want)
	}
	wantN := len(frame)
	if want == badReply {
		wantN = 0
	}
	if n != wantN {
		t.Errorf("DecodeReply(%x) consumed %d bytes, want %d", frame, n, wantN)
	}
	for i := range frame {
		got, n := decodeReplyString(c, frame[:i])
		wantCut := fmt.Sprintf("%v need=%d", ErrIncomplete, len(frame))
		if i < frameHeaderSize {
			wantCut = fmt.Sprintf("%v need=0", ErrIncomplete)
		}
		if got != wantCut || n != 0 {
			t.Fatalf("DecodeReply(%x) = %s, %d bytes, want %s", frame[:i], got, n, wantCut)
		}
	}
	followed := append(bytes.Clone(frame), "\x00\x00\x00\x01x"...)
	if got, n := decodeReplyString(c, followed); got != want || n != wantN {
		t.Errorf("DecodeReply(%x) = %s, %d bytes, want %s, %d bytes",
			followed, got, n, want, wantN)
	}
}

// decodeReplyString decodes the reply at the start of in and returns it, or the error, as text.
func decodeReplyString(c Client, in []byte) (string, int) {
	var r Reply
	n, err := c.DecodeReply(in, &r)
	switch err {
	case nil:
		return replyString(&r), n
	case ErrIncomplete:
		return fmt.Sprintf("%v need=%d", err, r.Need), n
	}
	return err.Error(), n
}

// replyString returns a reply as text: the result of its method, and any other field that is set.
func replyString(r *Reply) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s seq=%d", r.Name, r.Seq)
	field := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	is := func(m Method) bool { return !r.Failed && r.Method == m }
	field(r.Failed, "exception %d %q", r.Exception, r.Message)
	isCount := is(MethodPut) || is(MethodConfirm) || is(MethodAbort) || is(MethodRelease) || is(MethodReject) ||
		is(MethodRemove)
	field(isCount || r.Count != 0, "count=%d", r.Count)
	field(is(MethodTouch) || r.Due != 0, "due=%d", r.Due)
	field(is(MethodCurrentStatus) || r.Status != 0, "status=%d", r.Status)
	field(is(MethodGetVersion) || r.Version != nil, "version=%q", r.Version)
	field(is(MethodGet) || is(MethodGetAny) || r.Items.Len() != 0, "items=%s", itemListString(r.Items))
	field(is(MethodBrowse) || r.Listed.Len() != 0, "listed=%s", listedString(r.Listed))
	field(is(MethodPeek) || r.Info.HasHead, "info=%s", infoString(&r.Info))
	field(r.Need != 0, "need=%d", r.Need)
	field(r.Method != 0 && string(r.Name) != r.Method.String(), "method=%v", r.Method)
	return b.String()
}

func itemListString(list ItemList) string {
	items := []string{}
	for it := range list.All() {
		text := fmt.Sprintf("%d:%q", it.ID, it.Data)
		if it.Deliveries != 1 {
			text += fmt.Sprintf(" x%d", it.Deliveries)
		}
		if it.Key != nil {
			text += fmt.Sprintf(" key %q", it.Key)
		}
		if it.Queue != nil {
			text += fmt.Sprintf(" of %q", it.Queue)
		}
		items = append(items, text)
	}
	return fmt.Sprint(items)
}

func listedString(list ListedList) string {
	items := []string{}
	for it := range list.All() {
		items = append(items, fmt.Sprintf("%d:%q key %q x%d added %d expires %d due %d from %q why %q", it.ID, it.Data,
			it.Key, it.Deliveries, it.Added, it.Expires, it.Due, it.From, it.Why))
	}
	return fmt.Sprint(items)
}

func infoString(info *QueueInfo) string {
	head := "none"
	if info.HasHead {
		head = fmt.Sprintf("%q", info.HeadItem)
	}
	return fmt.Sprintf("{head %s, %d items, %d bytes, journal %d, age %d, waiters %d, open %d}",
		head, info.Items, info.Bytes, info.JournalBytes, info.AgeMillis, info.Waiters,
		info.OpenReads)
}
