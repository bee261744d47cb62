package burrow

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// Version 1.1 of the protocol: JSON in and out, milliseconds, receipts. Its requests are [Request]s as well; what
// they send besides is in a form, which one of the Decode functions reads. These allocate.

// OpenAPI is the description of version 1.1, served at /openapi.json.
//
//go:embed openapi.json
var OpenAPI []byte

// Bounds of what one request of version 1.1 asks for.
const (
	MostMessages = 1000              // of a batch, a list, or receipts
	MostReceived = 100               // messages of one receive
	MostRedriven = 10000             // messages of one redrive
	maxMillis    = 1_000_000_000_000 // about thirty years
	maxSmallForm = 64 << 10          // bytes of a form without messages
)

// modernRoutes has the routes of version 1.1, by the components behind the version. A component in braces is any.
var modernRoutes = []struct {
	path string
	ops  [Options]Op // by method
}{
	{"", [Options]Op{Get: OpAccounts}},
	{"/{account}", [Options]Op{Get: OpQueues}},
	{"/{account}/{queue}", [Options]Op{Get: OpStats, Delete: OpDeleteQueue}},
	{"/{account}/{queue}/messages", [Options]Op{Get: OpBrowse, Post: OpPutBatch}},
	{"/{account}/{queue}/messages/{id}", [Options]Op{Get: OpLook, Delete: OpRemove}},
	{"/{account}/{queue}/receive", [Options]Op{Post: OpReceive}},
	{"/{account}/{queue}/receipts", [Options]Op{Post: OpSettle}},
	{"/{account}/{queue}/receipts/{receipt}", [Options]Op{Post: OpExtend, Delete: OpAcknowledge}},
	{"/{account}/{queue}/redrive", [Options]Op{Post: OpRedrive}},
}

// statuses returns those of replies to an operation of version 1.1, in their order. Any may be refused with 400, 401,
// 403, 429 and 503.
func (op Op) statuses() []int {
	switch op {
	case OpStats, OpLook:
		return []int{200, 400, 401, 403, 404, 429, 503}
	case OpDeleteQueue:
		return []int{204, 400, 401, 403, 429, 503}
	case OpPutBatch:
		return []int{201, 207, 400, 401, 403, 413, 429, 503, 507}
	case OpReceive: // a queue that it would make may be too many
		return []int{200, 400, 401, 403, 429, 503, 507}
	case OpRemove:
		return []int{204, 400, 401, 403, 404, 409, 429, 503}
	case OpExtend:
		return []int{200, 204, 400, 401, 403, 404, 429, 503}
	case OpAcknowledge:
		return []int{204, 400, 401, 403, 404, 429, 503}
	case OpRedrive:
		return []int{200, 207, 400, 401, 403, 409, 413, 429, 503, 507}
	}
	return []int{200, 400, 401, 403, 429, 503}
}

// IsModern reports whether the request is one of version 1.1, whatever else is wrong with it.
func (h *Head) IsModern() bool {
	path, _, _ := bytes.Cut(h.Target, question)
	return string(path) == openAPIPath || string(path) == modernPrefix || bytes.HasPrefix(path, []byte(modernPrefix+"/"))
}

const (
	modernPrefix = "/v1.1"
	openAPIPath  = "/openapi.json"
)

// parseModern finds the route of a path, whose components behind the version are names.
func (req *Request) parseModern(method Method, names [][]byte) error {
	for i := range modernRoutes {
		r := &modernRoutes[i]
		if !fits(r.path, names) {
			continue
		}
		if int(method) < len(r.ops) {
			req.Op = r.ops[method]
		}
		if req.Op == 0 {
			req.allow = allowed(r.ops)
			return errMethod
		}
		for i, to := range []*[]byte{&req.Account, &req.Queue, nil, &req.ID} {
			if i < len(names) && to != nil {
				*to = names[i]
			}
		}
		if req.Op == OpExtend || req.Op == OpAcknowledge {
			receipt, err := strconv.ParseUint(string(req.ID), 10, 64)
			if req.Receipt, req.ID = receipt, nil; err != nil || receipt == 0 {
				return errReceipt
			}
		}
		return nil
	}
	return errPath
}

// fits reports whether the components of a path are those of a route.
func fits(route string, names [][]byte) bool {
	for _, name := range names {
		part, rest, _ := strings.Cut(strings.TrimPrefix(route, "/"), "/")
		if part == "" || part[0] != '{' && part != string(name) {
			return false
		}
		if route = rest; route != "" {
			route = "/" + route
		}
	}
	return route == ""
}

// allowed returns what a 405 says of a route.
func allowed(ops [Options]Op) string {
	var words []string
	for m, op := range ops {
		if op != 0 {
			words = append(words, Method(m).String())
		}
	}
	return strings.Join(words, ", ")
}

// NewMessage is a message of a batch.
type NewMessage struct {
	ID     string  `json:"id"`          // "" for none
	Body   *string `json:"body"`        // this, or
	Base64 *[]byte `json:"body_base64"` // this
	TTL    int64   `json:"ttl_ms"`      // 0: for ever
	Delay  int64   `json:"delay_ms"`
}

// Data returns the bytes of the message.
func (m *NewMessage) Data() []byte {
	if m.Base64 != nil {
		return *m.Base64
	}
	return []byte(*m.Body)
}

// DecodeBatch reads the form of OpPutBatch. Any error is a *ProtocolError that is not fatal.
func DecodeBatch(form []byte) ([]NewMessage, error) {
	var f struct {
		Messages newMessages `json:"messages"`
	}
	if err := decodeForm(form, len(form), &f); err != nil {
		return nil, err
	}
	garbled := garbledIn(form)
	if len(f.Messages) == 0 || len(f.Messages) > MostMessages {
		return nil, refusal("messages: not a list of 1 to 1000.")
	}
	for i := range f.Messages {
		m := &f.Messages[i]
		at := "messages[" + strconv.Itoa(i) + "]"
		switch {
		case (m.Body == nil) == (m.Base64 == nil):
			return nil, refusal(at + ": not one of body and body_base64.")
		case m.Body != nil && garbled(*m.Body):
			return nil, refusal(at + ".body: half of a surrogate pair is no character; send such bytes as body_base64.")
		case len(m.ID) > 250 || strings.HasPrefix(m.ID, string(ReservedPrefix)) || garbled(m.ID) ||
			strings.ContainsFunc(m.ID, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return nil, refusal(at + ".id: longer than 250 bytes, with a control character, or begins with @.")
		case !isMillis(m.TTL):
			return nil, refusal(at + ".ttl_ms: not a whole number of milliseconds from 0 to 1000000000000.")
		case !isMillis(m.Delay):
			return nil, refusal(at + ".delay_ms: not a whole number of milliseconds from 0 to 1000000000000.")
		}
	}
	return f.Messages, nil
}

// newMessages are those of a batch, and one more if there are too many: what follows is not decoded. A message takes
// many times as much memory as its shortest form.
type newMessages []NewMessage

// UnmarshalJSON implements json.Unmarshaler.
func (l *newMessages) UnmarshalJSON(list []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(list))
	d.DisallowUnknownFields()
	switch first, err := d.Token(); {
	case err != nil, first == nil:
		return err
	case first != json.Delim('['):
		return &json.UnmarshalTypeError{Value: "other than a list", Type: reflect.TypeFor[[]NewMessage](), Field: "messages"}
	}
	for len(*l) <= MostMessages && d.More() {
		var m NewMessage
		if err := d.Decode(&m); err != nil {
			var wrong *json.UnmarshalTypeError
			if errors.As(err, &wrong) {
				wrong.Field = strings.TrimSuffix("messages."+wrong.Field, ".")
			}
			return err
		}
		*l = append(*l, m)
	}
	return nil
}

// garbledIn returns a function that reports whether a text has a replacement character that the form it was decoded from
// does not have. It looks through the form once, if it has to.
func garbledIn(form []byte) func(text string) bool {
	sent := sync.OnceValue(func() bool {
		for rest := form; ; {
			at := bytes.Index(rest, []byte(`\u`))
			if at < 0 || len(rest)-at < len(`\ufffd`) {
				return bytes.Contains(form, []byte("\ufffd"))
			}
			rest = rest[at+len(`\u`):]
			if bytes.EqualFold(rest[:4], []byte("fffd")) {
				return true
			}
		}
	})
	return func(text string) bool { return strings.ContainsRune(text, utf8.RuneError) && !sent() }
}

func isMillis(n int64) bool { return n >= 0 && n <= maxMillis }

// Receive is the form of OpReceive.
type Receive struct {
	Limit int64 `json:"limit"`    // 1 if it was not sent
	Wait  int64 `json:"wait_ms"`  // 0: do not wait
	Lease int64 `json:"lease_ms"` // 0: that of the queue's options
}

// DecodeReceive reads the form of OpReceive, which may be empty. Any error is a *ProtocolError that is not fatal.
func DecodeReceive(form []byte) (Receive, error) {
	r := Receive{Limit: 1}
	if err := decodeForm(form, maxSmallForm, &r); err != nil {
		return r, err
	}
	switch {
	case r.Limit < 1 || r.Limit > MostReceived:
		return r, refusal("limit: not a whole number from 1 to 100.")
	case !isMillis(r.Wait):
		return r, refusal("wait_ms: not a whole number of milliseconds from 0 to 1000000000000.")
	case !isMillis(r.Lease):
		return r, refusal("lease_ms: not a whole number of milliseconds from 0 to 1000000000000.")
	}
	return r, nil
}

// Extend is the form of OpExtend: a new lease, or the end of one that gives the message back.
type Extend struct {
	Lease   int64 `json:"lease_ms"`
	Release bool  `json:"release"` // in its place, or after Delay
	Delay   int64 `json:"delay_ms"`
	Reject  bool  `json:"reject"` // to the dead letters
}

// DecodeExtend reads the form of OpExtend. Any error is a *ProtocolError that is not fatal.
func DecodeExtend(form []byte) (Extend, error) {
	var x Extend
	if err := decodeForm(form, maxSmallForm, &x); err != nil {
		return x, err
	}
	asked := 0
	for _, is := range []bool{x.Lease != 0, x.Release, x.Reject} {
		if is {
			asked++
		}
	}
	switch {
	case asked != 1 || x.Delay != 0 && !x.Release:
		return x, refusal("Send lease_ms, or release with an optional delay_ms, or reject.")
	case !isMillis(x.Lease):
		return x, refusal("lease_ms: not a whole number of milliseconds from 0 to 1000000000000.")
	case !isMillis(x.Delay):
		return x, refusal("delay_ms: not a whole number of milliseconds from 0 to 1000000000000.")
	}
	return x, nil
}

// DecodeSettle reads the form of OpSettle: receipts whose messages are done. Any error is a *ProtocolError that is
// not fatal.
func DecodeSettle(form []byte) (receipts []uint64, err error) {
	var f struct {
		Acknowledge []string `json:"acknowledge"`
	}
	if err := decodeForm(form, maxSmallForm, &f); err != nil {
		return nil, err
	}
	if len(f.Acknowledge) == 0 || len(f.Acknowledge) > MostMessages {
		return nil, refusal("acknowledge: not a list of 1 to 1000 receipts.")
	}
	for _, text := range f.Acknowledge {
		receipt, err := strconv.ParseUint(text, 10, 64)
		if err != nil || receipt == 0 {
			return nil, errReceipt
		}
		receipts = append(receipts, receipt)
	}
	return receipts, nil
}

// Redrive is the form of OpRedrive.
type Redrive struct {
	To    string `json:"to"`    // a queue of the account; "": where each message was given up
	Limit int64  `json:"limit"` // 100 if it was not sent
}

// DecodeRedrive reads the form of OpRedrive, which may be empty. Any error is a *ProtocolError that is not fatal.
func DecodeRedrive(form []byte) (Redrive, error) {
	r := Redrive{Limit: 100}
	if err := decodeForm(form, maxSmallForm, &r); err != nil {
		return r, err
	}
	if r.Limit < 1 || r.Limit > MostRedriven {
		return r, refusal("limit: not a whole number from 1 to 10000.")
	}
	if strings.ContainsAny(r.To, "/\x00") || garbledIn(form)(r.To) {
		return r, refusal("to: not the name of a queue.")
	}
	return r, nil
}

// decodeForm reads a JSON object of up to most bytes into form, which says what members there may be. An empty one has
// none.
func decodeForm(src []byte, most int, form any) error {
	if len(src) > most {
		return refusal("The body has more than " + strconv.Itoa(most) + " bytes.")
	}
	if len(src) == 0 {
		src = []byte("{}")
	}
	if !utf8.Valid(src) {
		return refusal("The body is not UTF-8; send the bytes of a message as body_base64.")
	}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	err := d.Decode(form)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
		return refusal("The body has more than one JSON value.")
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return refusal(wrong.Field + ": has a JSON value of the wrong type, or a number that is not whole.")
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return refusal("The body has a member that is not known here: " + name + ".")
	}
	return refusal("The body is not a JSON object of the form that is described in /openapi.json.")
}

// Delivered is a message as clients of version 1.1 see it.
type Delivered struct {
	ID         []byte
	Body       []byte
	TTL        int64  // milliseconds left; 0: for ever
	Hidden     int64  // milliseconds for which it is hidden or leased still; 0: it is in line
	Deliveries int    // so far
	Receipt    uint64 // 0: it is not leased to the reader
}

// AppendDelivered appends a message as a JSON object.
func AppendDelivered(dst []byte, m Delivered) []byte {
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, m.ID)
	if utf8.Valid(m.Body) {
		dst = append(dst, `,"body":`...)
		dst = AppendString(dst, m.Body)
	} else {
		dst = append(dst, `,"body_base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, m.Body)
		dst = append(dst, '"')
	}
	for _, member := range []struct {
		name  string
		value int64
	}{{"ttl_ms", m.TTL}, {"hidden_ms", m.Hidden}, {"deliveries", int64(m.Deliveries)}} {
		if member.value != 0 || member.name == "deliveries" {
			dst = append(dst, `,"`...)
			dst = append(dst, member.name...)
			dst = append(dst, `":`...)
			dst = strconv.AppendInt(dst, member.value, 10)
		}
	}
	if m.Receipt != 0 {
		dst = append(dst, `,"receipt":"`...)
		dst = strconv.AppendUint(dst, m.Receipt, 10)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// AppendProblem appends why a request of version 1.1 was refused, as RFC 9457 has it.
func AppendProblem(dst []byte, status int, detail string) []byte {
	dst = append(dst, `{"type":"about:blank","title":"`...)
	dst = append(dst, statusText(status)...)
	dst = append(dst, `","status":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"detail":`...)
	dst = AppendString(dst, []byte(detail))
	return append(dst, '}')
}
