package text

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, tt := range decodeTests {
		t.Run(tt.name, func(t *testing.T) {
			got, n := decodeString(tt.d, tt.in)
			if got != tt.want {
				t.Errorf("Decode(%.80q) = %s, want %s", tt.in, got, tt.want)
			}
			wantN := len(tt.in)
			if strings.HasPrefix(tt.want, "close") {
				wantN = 0
			}
			if n != wantN {
				t.Errorf("Decode(%.80q) consumed %d bytes, want %d", tt.in, n, wantN)
			}
			in := []byte(tt.in)
			for i := range in { // cut anywhere, a line is incomplete, and nothing is consumed
				got, n := decodeBytes(tt.d, in[:i:i])
				if got != ErrIncomplete.Error() || n != 0 {
					t.Fatalf("Decode(%.80q) = %s, %d bytes, want %v",
						tt.in[:i], got, n, ErrIncomplete)
				}
			}
			const next = "get next\n" // what follows makes no difference
			if got, n := decodeString(tt.d, tt.in+next); got != tt.want || n != wantN {
				t.Errorf("Decode(%.80q) = %s, %d bytes, want %s, %d bytes",
					tt.in+next, got, n, tt.want, wantN)
			}
		})
	}
}

// TestDecodeReset checks that nothing of one request shows in the next.
func TestDecodeReset(t *testing.T) {
	req := Request{
		Op: OpPut, Queue: []byte("x"), Status: []byte("x"), Word: []byte("x"), ExpiryMillis: 1,
		WaitMillis: 1, Count: 1, HasExpiry: true, ItemsFollow: true,
	}
	if _, err := (Decoder{}).Decode([]byte("quit\n"), &req); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprintf("%+v", req), fmt.Sprintf("%+v", Request{Op: OpQuit}); got != want {
		t.Errorf("Decode into a used Request = %s, want %s", got, want)
	}
}

func TestProtocolError(t *testing.T) {
	_, err := Decoder{}.Decode([]byte("put\n"), new(Request))
	var refused *ProtocolError
	if !errors.As(err, &refused) {
		t.Fatalf("Decode of a put without queue = %v, want a *ProtocolError", err)
	}
	if got, want := err.Error(), "text: no queue name"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}

func TestExpiryTime(t *testing.T) {
	tests := []struct {
		line string
		now  int64
		want int64
	}{
		{"put q\n", 1000, 0},
		{"put q 0\n", 1000, 1000},
		{"put q 5\n", 1000, 1005},
		{"put q -5\n", 1000, 995},
		{"put q -5\n", 3, 1},
		{"put q 2147483647\n", 1 << 41, 1<<41 + 1<<31 - 1},
	}
	for _, tt := range tests {
		var req Request
		if _, err := (Decoder{}).Decode([]byte(tt.line), &req); err != nil {
			t.Fatalf("Decode(%q): %v", tt.line, err)
		}
		if got := req.ExpiryTime(tt.now); got != tt.want {
			t.Errorf("%q at %d expires at %d, want %d", tt.line, tt.now, got, tt.want)
		}
	}
}

func TestOpString(t *testing.T) {
	for op := OpPut; op <= OpRemove; op++ {
		if got := lookupOp([]byte(strings.ToUpper(op.String()))); got != op {
			t.Errorf("lookupOp(%s) = %v, want %v", strings.ToUpper(op.String()), got, op)
		}
	}
	for _, op := range []Op{0, OpRemove + 1, 255} {
		if got := op.String(); got != "unknown" {
			t.Errorf("Op(%d).String() = %q, want unknown", op, got)
		}
	}
}

// decodeString decodes the line at the start of in and returns it, or the error, as text.
func decodeString(d Decoder, in string) (string, int) { return decodeBytes(d, []byte(in)) }

func decodeBytes(d Decoder, in []byte) (string, int) {
	var req Request
	n, err := d.Decode(in, &req)
	return resultString(&req, err), n
}

// transcript decodes what arrives in pieces the way a server does, and returns what came of it, one
// line per request and item.
func transcript(d Decoder, pieces ...[]byte) string {
	var (
		lines  []string
		unread []byte // received, not consumed
		req    Request
		items  Items
		follow bool // items do
	)
	for _, piece := range pieces {
		unread = append(bytes.Clone(unread), piece...)
		for {
			var (
				n    int
				err  error
				item []byte
			)
			if follow {
				item, n, err = d.DecodeItem(unread, &items)
			} else {
				n, err = d.Decode(unread, &req)
			}
			if err == ErrIncomplete {
				break
			}
			switch {
			case !follow:
				lines = append(lines, resultString(&req, err))
				follow = req.ItemsFollow
			case err == ErrEndOfItems:
				lines = append(lines, "end")
				follow = false
			case err != nil:
				lines = append(lines, err.Error())
			case item != nil:
				lines = append(lines, fmt.Sprintf("item %q", item))
			}
			if refused, ok := err.(*ProtocolError); ok && refused.Fatal {
				return strings.Join(lines, "\n")
			}
			unread = unread[n:]
		}
	}
	if follow {
		lines = append(lines, "items left")
	}
	if len(unread) > 0 {
		lines = append(lines, fmt.Sprintf("%d bytes left", len(unread)))
	}
	return strings.Join(lines, "\n")
}

// resultString returns what Decode returned as text.
func resultString(req *Request, err error) string {
	refused, ok := err.(*ProtocolError)
	switch {
	case ok && refused.Fatal:
		return fmt.Sprintf("close %q: %s", refused.AppendReply(nil, req), refused.Reason)
	case ok:
		s := fmt.Sprintf("reply %q: %s", refused.AppendReply(nil, req), refused.Reason)
		if req.ItemsFollow {
			s += " items"
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
	field(req.Op <= OpDelete || req.Op >= OpTouch && req.Op < OpAuth || len(req.Queue) > 0, "%q", req.Queue)
	field(len(req.User) > 0, "user=%q", req.User)
	field(len(req.Password) > 0, "password=%q", req.Password)
	if len(req.Several) > 0 {
		for _, s := range req.Queues(nil) {
			field(true, "%s*%d", s.Queue, s.Weight)
		}
	}
	field(req.HasExpiry || req.ExpiryMillis != 0, "expiry=%d", req.ExpiryMillis)
	field(req.Op == OpMonitor || req.WaitMillis != 0, "wait=%d", req.WaitMillis)
	field(req.Op == OpConfirm && req.Receipt == 0 || req.Count != 0, "count=%d", req.Count)
	field(req.Receipt != 0, "receipt=%d", req.Receipt)
	field(len(req.Key) > 0, "key=%q", req.Key)
	field(req.New, "new")
	field(req.Replace, "replace")
	field(req.ID != 0, "id=%d", req.ID)
	field(req.Op == OpList, "from=%d", req.From)
	field(req.Limit != 0, "limit=%d", req.Limit)
	field(req.Hidden, "hidden")
	field(req.Meta, "meta")
	field(req.TouchMillis != 0, "expiry=%d", req.TouchMillis)
	field(req.HasLease || req.LeaseMillis != 0, "lease=%d", req.LeaseMillis)
	field(req.HasDelay || req.DelayMillis != 0, "delay=%d", req.DelayMillis)
	field(len(req.Status) > 0, "to=%q", req.Status)
	field(len(req.Word) > 0, "word=%q", req.Word)
	field(req.ItemsFollow, "items")
	return b.String()
}
