package thrift

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"
	"pgregory.net/rapid"
)

// These tests compare this package with the Apache library for Go: what one writes the other reads.

// drawRequest draws a call. Arguments that the method does not have are zero.
func drawRequest(t *rapid.T) Request {
	method := Method(rapid.IntRange(int(MethodPut), int(MethodUpgrade)).Draw(t, "method"))
	req := Request{
		Call: Call{Method: method, Seq: rapid.Int32().Draw(t, "seq")},
		Name: []byte(method.String()),
	}
	if req.Upgraded = rapid.Bool().Draw(t, "upgraded"); req.Upgraded {
		if rapid.Bool().Draw(t, "named") {
			req.ClientID = drawBytes(t, "client")
		}
	}
	if method.hasQueue() {
		req.Queue = drawBytes(t, "queue")
	}
	switch method {
	case MethodPut:
		req.Items = drawList(t, "item")
		req.ExpiryMillis = rapid.Int32().Draw(t, "expiry")
		req.DelayMillis = rapid.Int64().Draw(t, "delay")
		req.Keys = drawList(t, "key")
		req.OnDuplicate = rapid.Int32().Draw(t, "duplicate")
	case MethodBrowse:
		req.From = rapid.Int64().Draw(t, "from")
		req.Limit = rapid.Int32().Draw(t, "limit")
		req.Hidden = rapid.Bool().Draw(t, "hidden")
		req.Which = drawWhich(t)
	case MethodRemove:
		req.Which = drawWhich(t)
	case MethodGetAny:
		req.Queues = drawList(t, "queue")
		req.WaitMillis = rapid.Int32().Draw(t, "wait")
		req.AutoAbortMillis = rapid.Int32().Draw(t, "abort")
		for _, w := range rapid.SliceOfN(rapid.Int32(), 0, 3).Draw(t, "weights") {
			req.Weights.data = appendI32(req.Weights.data, w)
		}
	case MethodGet:
		req.MaxItems = rapid.Int32().Draw(t, "max")
		req.WaitMillis = rapid.Int32().Draw(t, "wait")
		req.AutoAbortMillis = rapid.Int32().Draw(t, "abort")
	case MethodTouch:
		req.ID = rapid.Int64().Draw(t, "id")
		req.AutoAbortMillis = rapid.Int32().Draw(t, "abort")
		req.Which = drawWhich(t)
		req.ExpiryMillis = rapid.Int32().Draw(t, "expiry")
	case MethodConfirm, MethodAbort, MethodRelease, MethodReject:
		if method == MethodAbort || method == MethodRelease {
			req.DelayMillis = rapid.Int64().Draw(t, "delay")
		}
		for _, id := range rapid.SliceOfN(rapid.Int64(), 0, 5).Draw(t, "ids") {
			req.IDs.data = appendI64(req.IDs.data, id)
		}
	case MethodAuthenticate:
		req.User, req.Password = drawBytes(t, "user"), drawBytes(t, "password")
	case MethodSetStatus:
		req.Status = Status(rapid.Int32Range(1, 3).Draw(t, "status"))
	}
	return req
}

// drawList draws a list of strings.
func drawList(t *rapid.T, label string) (list Items) {
	for range rapid.IntRange(0, 5).Draw(t, label+"s") {
		list.count++
		list.data = appendString(list.data, drawBytes(t, label))
	}
	return list
}

// drawWhich draws what names an item.
func drawWhich(t *rapid.T) (w Which) {
	w.ID = rapid.Int64().Draw(t, "item id")
	w.Key = drawBytes(t, "key")
	return w
}

func drawBytes(t *rapid.T, label string) []byte {
	return append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, label)...)
}

// requestFields returns the arguments of a call.
func requestFields(req *Request) (fields []fieldValue) {
	add := func(id int16, v value) { fields = append(fields, fieldValue{id, v}) }
	if req.Method.hasQueue() {
		add(1, stringValue(req.Queue))
	}
	var list []value
	switch req.Method {
	case MethodPut:
		add(2, stringsValue(req.Items))
		add(3, i32Value(req.ExpiryMillis))
		add(4, i64Value(req.DelayMillis))
		add(5, stringsValue(req.Keys))
		add(6, i32Value(req.OnDuplicate))
	case MethodBrowse:
		add(2, i64Value(req.From))
		add(3, i32Value(req.Limit))
		add(4, boolValue(req.Hidden))
		addWhich(add, 5, req.Which)
	case MethodRemove:
		addWhich(add, 2, req.Which)
	case MethodGetAny:
		add(1, stringsValue(req.Queues))
		add(2, i32Value(req.WaitMillis))
		add(3, i32Value(req.AutoAbortMillis))
		for i := range req.Weights.Len() {
			list = append(list, i32Value(req.Weights.At(i)))
		}
		add(4, listValue(apache.LIST, apache.I32, list))
	case MethodGet:
		add(2, i32Value(req.MaxItems))
		add(3, i32Value(req.WaitMillis))
		add(4, i32Value(req.AutoAbortMillis))
	case MethodTouch:
		add(2, i64Value(req.ID))
		add(3, i32Value(req.AutoAbortMillis))
		addWhich(add, 4, req.Which)
		add(6, i32Value(req.ExpiryMillis))
	case MethodConfirm, MethodAbort, MethodRelease, MethodReject:
		for id := range req.IDs.All() {
			list = append(list, i64Value(id))
		}
		add(2, listValue(apache.SET, apache.I64, list))
		if req.Method == MethodAbort || req.Method == MethodRelease {
			add(3, i64Value(req.DelayMillis))
		}
	case MethodAuthenticate:
		add(1, stringValue(req.User))
		add(2, stringValue(req.Password))
	case MethodSetStatus:
		add(1, i32Value(int32(req.Status)))
	}
	return fields
}

// addWhich adds what names an item.
func addWhich(add func(int16, value), id int16, w Which) {
	add(id, i64Value(w.ID))
	add(id+1, stringValue(w.Key))
}

// stringsValue returns a list of strings.
func stringsValue(items Items) value {
	var list []value
	for item := range items.All() {
		list = append(list, stringValue(item))
	}
	return listValue(apache.LIST, apache.STRING, list)
}

// knownField reports whether fields have one of the id and type of f, and so could not keep it
// apart.
func knownField(fields []fieldValue) func(fieldValue) bool {
	return func(f fieldValue) bool {
		for _, known := range fields {
			if known.id == f.id && known.kind == f.kind {
				return true
			}
		}
		return false
	}
}

// TestDecodeApache decodes calls written by the Apache library: with either header, with fields in
// any order, and with fields of the future.
func TestDecodeApache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawRequest(t)
		ctx := context.Background()
		p, buffer := newApache(rapid.Bool().Draw(t, "strict"), nil)
		if req.Upgraded {
			header := []fieldValue{{1, i64Value(1)}, {2, i64Value(2)}}
			if req.ClientID != nil {
				name := []fieldValue{{1, stringValue(req.ClientID)}}
				header = append(header, fieldValue{6, mixFields(t, name, knownField(name))})
			}
			known := knownField([]fieldValue{{6, structValue()}})
			writeValue(p, mixFields(t, header, known))
		}
		p.WriteMessageBegin(ctx, string(req.Name), apache.CALL, req.Seq)
		fields := requestFields(&req)
		writeValue(p, mixFields(t, fields, knownField(fields)))
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		frame := buffer.Bytes()
		got, n := decodeString(Decoder{Upgraded: req.Upgraded}, frame)
		if want := requestString(&req); got != want || n != len(frame) {
			t.Fatalf("Decode(%x)\n= %s, %d bytes, want\n%s", frame, got, n, want)
		}
	})
}

// TestClientApache reads calls of Client with the Apache library.
func TestClientApache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := drawRequest(t)
		frame := Client{Upgraded: req.Upgraded, ClientID: req.ClientID}.AppendRequest(nil, &req)
		got, err := apacheRequest(frame, req.Upgraded)
		if err != nil {
			t.Fatalf("the Apache library refuses %x: %v", frame, err)
		}
		if got, want := requestString(got), requestString(&req); got != want {
			t.Fatalf("the Apache library reads %x as\n%s, want\n%s", frame, got, want)
		}
	})
}

// apacheRequest reads a call with the Apache library, as code generated from the IDL does.
func apacheRequest(frame []byte, upgraded bool) (*Request, error) {
	p, _ := newApache(true, frame)
	req := &Request{Call: Call{Upgraded: upgraded}}
	if upgraded {
		header, err := readFields(p)
		if err != nil {
			return nil, err
		}
		if id, ok := lastField(header, 6, apache.STRUCT); ok {
			if name, ok := lastField(id.fields, 1, apache.STRING); ok {
				req.ClientID = append([]byte{}, name.bytes...)
			}
		}
	}
	name, kind, seq, err := p.ReadMessageBegin(context.Background())
	if err != nil {
		return nil, err
	}
	if kind != apache.CALL && kind != apache.ONEWAY {
		return nil, fmt.Errorf("message of type %d", kind)
	}
	req.Name, req.Method, req.Seq = []byte(name), lookupMethod([]byte(name)), seq
	args, err := readFields(p)
	if err != nil {
		return nil, err
	}
	return req, setArgs(req, args)
}

// setArgs sets the arguments that the method has.
func setArgs(req *Request, args []fieldValue) error {
	i32 := func(id int16, to *int32) {
		if v, ok := lastField(args, id, apache.I32); ok {
			*to = int32(v.num)
		}
	}
	if req.Method.hasQueue() {
		if v, ok := lastField(args, 1, apache.STRING); ok {
			req.Queue = append([]byte{}, v.bytes...)
		}
	}
	switch req.Method {
	case MethodPut:
		i32(3, &req.ExpiryMillis)
		if v, ok := lastField(args, 4, apache.I64); ok {
			req.DelayMillis = v.num
		}
		i32(6, &req.OnDuplicate)
		return errors.Join(setStrings(&req.Items, args, 2), setStrings(&req.Keys, args, 5))
	case MethodBrowse:
		if v, ok := lastField(args, 2, apache.I64); ok {
			req.From = v.num
		}
		i32(3, &req.Limit)
		v, _ := lastField(args, 4, apache.BOOL)
		req.Hidden = v.num != 0
		setWhich(&req.Which, args, 5)
	case MethodRemove:
		setWhich(&req.Which, args, 2)
	case MethodGetAny:
		i32(2, &req.WaitMillis)
		i32(3, &req.AutoAbortMillis)
		weights, _ := lastField(args, 4, apache.LIST)
		for _, w := range weights.list {
			if w.kind != apache.I32 {
				return errElementType
			}
			req.Weights.data = appendI32(req.Weights.data, int32(w.num))
		}
		return setStrings(&req.Queues, args, 1)
	case MethodGet:
		i32(2, &req.MaxItems)
		i32(3, &req.WaitMillis)
		i32(4, &req.AutoAbortMillis)
	case MethodTouch:
		if v, ok := lastField(args, 2, apache.I64); ok {
			req.ID = v.num
		}
		i32(3, &req.AutoAbortMillis)
		i32(6, &req.ExpiryMillis)
		setWhich(&req.Which, args, 4)
	case MethodConfirm, MethodAbort, MethodRelease, MethodReject:
		if req.Method == MethodAbort {
			req.DelayMillis = NoDelay
		}
		if v, ok := lastField(args, 3, apache.I64); ok && (req.Method == MethodAbort || req.Method == MethodRelease) {
			req.DelayMillis = v.num
		}
		ids, _ := lastField(args, 2, apache.SET)
		for _, id := range ids.list {
			if id.kind != apache.I64 {
				return errElementType
			}
			req.IDs.data = appendI64(req.IDs.data, id.num)
		}
	case MethodAuthenticate:
		user, _ := lastField(args, 1, apache.STRING)
		password, _ := lastField(args, 2, apache.STRING)
		req.User, req.Password = user.bytes, password.bytes
	case MethodSetStatus:
		i32(1, (*int32)(&req.Status))
	}
	return nil
}

// setStrings sets a list of strings.
func setStrings(to *Items, args []fieldValue, id int16) error {
	list, _ := lastField(args, id, apache.LIST)
	for _, item := range list.list {
		if item.kind != apache.STRING {
			return errElementType
		}
		to.count++
		to.data = appendString(to.data, item.bytes)
	}
	return nil
}

// setWhich sets what names an item.
func setWhich(to *Which, args []fieldValue, id int16) {
	if v, ok := lastField(args, id, apache.I64); ok {
		to.ID = v.num
	}
	if v, ok := lastField(args, id+1, apache.STRING); ok {
		to.Key = append([]byte{}, v.bytes...)
	}
}

// lastField returns the last field of an id and type, as a reader that overwrites does.
func lastField(fields []fieldValue, id int16, kind apache.TType) (v value, ok bool) {
	for _, f := range fields {
		if f.id == id && f.kind == kind {
			v, ok = f.value, true
		}
	}
	return v, ok
}

// FuzzDecodeApache decodes arbitrary calls with this package and with the Apache library. What this
// package accepts the library must read as the same call; what it refuses the library must refuse
// too, unless the rule is ours.
func FuzzDecodeApache(f *testing.F) {
	for _, tt := range decodeTests {
		f.Add(unhex(f, tt.in), tt.d.Upgraded)
	}
	ours := []*ProtocolError{
		errMethodName, errMessageType, errElementType, errDepth, // stricter
		errUnknownMethod, errNoQueue, errStatus, // left to the service by the library
	}
	f.Fuzz(func(t *testing.T, body []byte, upgraded bool) {
		if len(body) == 0 {
			return
		}
		var req Request
		_, err := Decoder{Upgraded: upgraded}.Decode(frame(body), &req)
		theirs, theirErr := apacheRequest(frame(body), upgraded)
		if err != nil {
			for _, rule := range ours {
				if err == rule {
					return
				}
			}
			if theirErr == nil {
				t.Errorf("Decode(%x) = %v, but it is\n%s", frame(body), err, requestString(theirs))
			}
			return
		}
		if theirErr != nil {
			t.Fatalf("Decode(%x) = %s, but %v", frame(body), requestString(&req), theirErr)
		}
		if got, want := requestString(&req), requestString(theirs); got != want {
			t.Errorf("Decode(%x)\n= %s, but it is\n%s", frame(body), got, want)
		}
		if !bytes.Equal(req.Items.data, theirs.Items.data) {
			t.Errorf("Decode(%x): items %x, but they are %x",
				frame(body), req.Items.data, theirs.Items.data)
		}
	})
}
