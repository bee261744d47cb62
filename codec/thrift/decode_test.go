package thrift

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

func TestDecode(t *testing.T) {
	for _, tt := range decodeTests {
		t.Run(tt.name, func(t *testing.T) {
			checkCuts(t, tt.d, frame(unhex(t, tt.in)), tt.want)
		})
	}
}

// checkCuts checks what comes of a frame: whole, cut anywhere, and with another one behind it.
func checkCuts(t *testing.T, d Decoder, frame []byte, want string) {
	t.Helper()
	got, n := decodeString(d, frame)
	if got != want {
		t.Errorf("Decode(%.100x) = %s, want %s", frame, got, want)
	}
	wantN := len(frame)
	if strings.HasPrefix(want, "close") {
		wantN = 0
	}
	if n != wantN {
		t.Errorf("Decode(%.100x) consumed %d bytes, want %d", frame, n, wantN)
	}
	for i := range frame {
		if size := d.FrameSize(frame[:i]); i >= frameHeaderSize && size != len(frame) || i < frameHeaderSize && size != 0 {
			t.Fatalf("FrameSize(%.100x) = %d, want %d or 0", frame[:i], size, len(frame))
		}
		got, n := decodeString(d, frame[:i])
		wantCut := fmt.Sprintf("%v need=%d", ErrIncomplete, len(frame))
		if i < frameHeaderSize {
			wantCut = fmt.Sprintf("%v need=0", ErrIncomplete)
		}
		if got != wantCut || n != 0 {
			t.Fatalf("Decode(%.100x) = %s, %d bytes, want %s", frame[:i], got, n, wantCut)
		}
	}
	followed := append(bytes.Clone(frame), "\x00\x00\x00\x01x"...)
	if got, n := decodeString(d, followed); got != want || n != wantN {
		t.Errorf("Decode(%.100x) = %s, %d bytes, want %s, %d bytes",
			followed, got, n, want, wantN)
	}
}

// TestDecodeStream decodes several calls of one connection, the way a server does, as written and
// one byte at a time.
func TestDecodeStream(t *testing.T) {
	for _, tt := range streamTests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.Join(tt.want, "\n")
			whole := unhex(t, tt.in)
			if got := transcript(Decoder{}, whole); got != want {
				t.Errorf("Decode(%x):\ngot\n%s\nwant\n%s", whole, got, want)
			}
			var pieces [][]byte
			for i := range whole {
				pieces = append(pieces, whole[i:i+1])
			}
			if got := transcript(Decoder{}, pieces...); got != want {
				t.Errorf("Decode(%x), one byte at a time:\ngot\n%s\nwant\n%s", whole, got, want)
			}
		})
	}
}

// TestDecodeReset checks that nothing of one call shows in the next.
func TestDecodeReset(t *testing.T) {
	req := Request{
		Call: Call{Method: MethodPut, Seq: 1, Upgraded: true}, Name: []byte("x"),
		ClientID: []byte("x"), Queue: []byte("x"), Items: Items{1, []byte{0, 0, 0, 0}},
		IDs: IDs{make([]byte, 8)}, ExpiryMillis: 1, MaxItems: 1, WaitMillis: 1,
		AutoAbortMillis: 1, Status: 1, Need: 1,
	}
	frame := Client{}.AppendCall(nil, MethodGetVersion, 0, nil)
	if _, err := (Decoder{}).Decode(frame, &req); err != nil {
		t.Fatal(err)
	}
	want := Request{Call: Call{Method: MethodGetVersion}, Name: []byte("get_version")}
	if got, want := fmt.Sprintf("%+v", req), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("Decode into a used Request = %s, want %s", got, want)
	}
}

func TestProtocolError(t *testing.T) {
	_, err := Decoder{}.Decode([]byte("\xff\xff\xff\xff"), new(Request))
	var refused *ProtocolError
	if !errors.As(err, &refused) || !refused.Fatal {
		t.Fatalf("Decode of a negative length = %v, want a fatal *ProtocolError", err)
	}
	if got, want := err.Error(), "thrift: frame of no bytes, or of a negative number"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if reply := refused.AppendReply(nil, new(Request)); reply != nil {
		t.Errorf("a fatal error is answered with %x", reply)
	}
}

// TestDecodeFrameLimit checks that a frame's length is judged before anything else has arrived.
func TestDecodeFrameLimit(t *testing.T) {
	tests := []struct {
		d    Decoder
		in   string
		want string
	}{
		{Decoder{}, "04 00 00 00", "thrift: incomplete need=67108868"},
		{Decoder{}, "04 00 00 01", "close: frame too long"},
		{Decoder{}, "7f ff ff ff", "close: frame too long"},
		{Decoder{}, "80 00 00 00", "close: frame of no bytes, or of a negative number"},
		{Decoder{}, "00 00 00 00", "close: frame of no bytes, or of a negative number"},
		{Decoder{MaxFrame: 17}, "00 00 00 11", "thrift: incomplete need=21"},
		{Decoder{MaxFrame: 17}, "00 00 00 12", "close: frame too long"},
	}
	for _, tt := range tests {
		if got, _ := decodeString(tt.d, unhex(t, tt.in)); got != tt.want {
			t.Errorf("%+v.Decode(%s) = %s, want %s", tt.d, tt.in, got, tt.want)
		}
	}
	for _, in := range []string{"get q\r\n", "GET / HTTP/1.1\r\n", "\r\nqu", "\x16\x03\x01\x00"} {
		if got, _ := decodeString(Decoder{}, []byte(in)); got != "close: frame too long" {
			t.Errorf("Decode(%q) = %s, want a fatal error", in, got)
		}
	}
}

func TestExpiryTime(t *testing.T) {
	tests := []struct {
		expiry    int32
		now, want int64
	}{
		{0, 1000, 0},
		{5, 1000, 1005},
		{-5, 1000, 995},
		{-5, 5, 1},
		{-2147483648, 5, 1},
		{2147483647, 1 << 41, 1<<41 + 1<<31 - 1},
	}
	for _, tt := range tests {
		if got := ExpiryTime(tt.expiry, tt.now); got != tt.want {
			t.Errorf("ExpiryTime(%d, %d) = %d, want %d", tt.expiry, tt.now, got, tt.want)
		}
	}
}

func TestMethodString(t *testing.T) {
	for m := MethodPut; m <= MethodUpgrade; m++ {
		if got := lookupMethod([]byte(m.String())); got != m {
			t.Errorf("lookupMethod(%s) = %v, want %v", m, got, m)
		}
	}
	for _, m := range []Method{0, MethodUpgrade + 1, 255} {
		if got := m.String(); got != "unknown" {
			t.Errorf("Method(%d).String() = %q, want unknown", m, got)
		}
	}
}

// decodeString decodes the frame at the start of in and returns the call, or the error, as text.
func decodeString(d Decoder, in []byte) (string, int) {
	var req Request
	n, err := d.Decode(in, &req)
	return resultString(&req, err), n
}

// transcript decodes what arrives in pieces the way a server does that accepts an upgrade, and
// returns what came of it, one line per call.
func transcript(d Decoder, pieces ...[]byte) string {
	var (
		lines  []string
		unread []byte // received, not consumed
		req    Request
	)
	for _, piece := range pieces {
		unread = append(bytes.Clone(unread), piece...)
		for {
			n, err := d.Decode(unread, &req)
			if err == ErrIncomplete {
				break
			}
			lines = append(lines, resultString(&req, err))
			if refused, ok := err.(*ProtocolError); ok && refused.Fatal {
				return strings.Join(lines, "\n")
			}
			d.Upgraded = d.Upgraded || req.Method == MethodUpgrade
			unread = unread[n:]
		}
	}
	if len(unread) > 0 {
		lines = append(lines, fmt.Sprintf("%d bytes left", len(unread)))
	}
	return strings.Join(lines, "\n")
}

// resultString returns what Decode returned as text; for a refusal, with the exception that a
// client would see.
func resultString(req *Request, err error) string {
	refused, ok := err.(*ProtocolError)
	switch {
	case ok && refused.Fatal:
		return "close: " + refused.Reason
	case ok:
		var r Reply
		frame := refused.AppendReply(nil, req)
		n, err := Client{Upgraded: req.Upgraded}.DecodeReply(frame, &r)
		if err != nil || n != len(frame) {
			return fmt.Sprintf("unreadable refusal %x: %v", frame, err)
		}
		return "refuse " + replyString(&r)
	case err == ErrIncomplete:
		return fmt.Sprintf("%v need=%d", err, req.Need)
	case err != nil:
		return err.Error()
	}
	return requestString(req)
}

// requestString returns a call as text: the fields its method uses, and any other that is set.
func requestString(req *Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v seq=%d", req.Method, req.Seq)
	field := func(show bool, format string, args ...any) {
		if show {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	isGet := req.Method == MethodGet || req.Method == MethodGetAny
	field(req.Method.hasQueue() || req.Queue != nil, "%q", req.Queue)
	field(req.Method == MethodPut || req.Items.Len() != 0, "items=%s", itemsString(req.Items))
	field(req.Method == MethodPut || req.ExpiryMillis != 0, "expiry=%d", req.ExpiryMillis)
	noDelay := int64(0)
	if req.Method == MethodAbort {
		noDelay = NoDelay
	}
	field(req.DelayMillis != noDelay, "delay=%d", req.DelayMillis)
	field(req.Method == MethodGet || req.MaxItems != 0, "max=%d", req.MaxItems)
	field(isGet || req.WaitMillis != 0, "wait=%d", req.WaitMillis)
	field(isGet || req.AutoAbortMillis != 0, "abort=%d", req.AutoAbortMillis)
	field(req.Keys.Len() != 0, "keys=%s", itemsString(req.Keys))
	field(req.OnDuplicate != 0, "duplicate=%d", req.OnDuplicate)
	field(req.Queues.Len() != 0, "queues=%s", itemsString(req.Queues))
	for i := range req.Weights.Len() {
		field(true, "weight=%d", req.Weights.At(i))
	}
	field(req.From != 0, "from=%d", req.From)
	field(req.Limit != 0, "limit=%d", req.Limit)
	field(req.Hidden, "hidden")
	field(req.Which.ID != 0, "item=%d", req.Which.ID)
	field(req.Which.Key != nil, "key=%q", req.Which.Key)
	field(req.ID != 0, "id=%d", req.ID)
	field(hasIDs(req.Method) || req.IDs.Len() != 0, "ids=%s", idsString(req.IDs))
	field(req.Method == MethodSetStatus || req.Status != 0, "status=%d", req.Status)
	isAuth := req.Method == MethodAuthenticate
	field(isAuth || req.User != nil, "user=%q", req.User)
	field(isAuth || req.Password != nil, "password=%q", req.Password)
	field(req.ClientID != nil, "client=%q", req.ClientID)
	field(req.Upgraded, "upgraded")
	field(req.Need != 0, "need=%d", req.Need)
	field(string(req.Name) != req.Method.String(), "name=%q", req.Name)
	return b.String()
}

func itemsString(items Items) string {
	list := []string{}
	for item := range items.All() {
		list = append(list, string(item))
	}
	return fmt.Sprintf("%q", list)
}

func idsString(ids IDs) string {
	list := []int64{}
	for id := range ids.All() {
		list = append(list, id)
	}
	return fmt.Sprint(list)
}

// frame puts a length before a body.
func frame(body []byte) []byte { return endFrame(append(beginFrame(nil), body...), 0) }

// within reports whether s is empty or lies inside src.
func within(s, src []byte) bool {
	if len(s) == 0 {
		return true
	}
	at := uintptr(unsafe.Pointer(&s[0])) - uintptr(unsafe.Pointer(unsafe.SliceData(src)))
	return at < uintptr(len(src)) && len(s) <= len(src)-int(at)
}

// hasIDs reports whether a method is about a set of reads.
func hasIDs(m Method) bool {
	return m == MethodConfirm || m == MethodAbort || m == MethodRelease || m == MethodReject
}
