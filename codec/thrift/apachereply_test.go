package thrift

import (
	"context"
	"errors"
	"testing"

	apache "github.com/apache/thrift/lib/go/thrift"
	"pgregory.net/rapid"
)

// drawReply draws a reply and the connection it comes on.
func drawReply(t *rapid.T) (r Reply, upgraded bool) {
	r.Method = Method(rapid.IntRange(int(MethodPut), int(MethodAuthenticate)).Draw(t, "method"))
	r.Name = []byte(r.Method.String())
	r.Seq = rapid.Int32().Draw(t, "seq")
	upgraded = rapid.Bool().Draw(t, "upgraded")
	if r.Failed = rapid.Bool().Draw(t, "failed"); r.Failed {
		r.Exception = ExceptionType(rapid.Int32Range(2, 10).Draw(t, "exception"))
		r.Message = append([]byte("x"), drawBytes(t, "message")...) // an empty one gets replaced
		return r, upgraded
	}
	switch r.Method {
	case MethodPut, MethodConfirm, MethodAbort, MethodRelease, MethodReject, MethodRemove:
		r.Count = rapid.Int32().Draw(t, "count")
	case MethodTouch:
		r.Due = rapid.Int64().Draw(t, "due")
	case MethodCurrentStatus:
		r.Status = Status(rapid.Int32().Draw(t, "status"))
	case MethodGetVersion:
		r.Version = drawBytes(t, "version")
	case MethodBrowse:
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			r.Listed.count++
			i64 := func(label string) int64 { return rapid.Int64Range(1, 1<<62).Draw(t, label) }
			r.Listed.data = AppendListed(r.Listed.data, &Listed{
				ID: i64("id"), Data: drawBytes(t, "item"), Key: append(drawBytes(t, "key"), 'k'),
				Deliveries: rapid.Int32().Draw(t, "deliveries"), Added: i64("added"), Expires: i64("expires"),
				Due: i64("due"), From: append(drawBytes(t, "from"), 'f'), Why: drawBytes(t, "why"),
			})
		}
	case MethodGet, MethodGetAny:
		for range rapid.IntRange(0, 5).Draw(t, "items") {
			r.Items.count++
			id := rapid.Int64().Draw(t, "id")
			deliveries := rapid.Int32Range(1, 5).Draw(t, "deliveries")
			r.Items.data = AppendItem(r.Items.data, &Item{
				Data: drawBytes(t, "item"), ID: id, Deliveries: deliveries,
				Key: append(drawBytes(t, "key"), 'k'), Queue: append(drawBytes(t, "queue"), 'q'),
			})
		}
	case MethodPeek:
		if r.Info.HasHead = rapid.Bool().Draw(t, "head"); r.Info.HasHead {
			r.Info.HeadItem = drawBytes(t, "item")
		}
		r.Info.Items = rapid.Int64().Draw(t, "items")
		r.Info.Bytes = rapid.Int64().Draw(t, "bytes")
		r.Info.JournalBytes = rapid.Int64().Draw(t, "journal")
		r.Info.AgeMillis = rapid.Int64().Draw(t, "age")
		r.Info.Waiters = rapid.Int32().Draw(t, "waiters")
		r.Info.OpenReads = rapid.Int32().Draw(t, "open")
	}
	return r, upgraded
}

// resultFields returns the result struct of a reply.
func resultFields(r *Reply) []fieldValue {
	switch r.Method {
	case MethodPut, MethodConfirm, MethodAbort, MethodRelease, MethodReject, MethodRemove:
		return []fieldValue{{0, i32Value(r.Count)}}
	case MethodTouch:
		return []fieldValue{{0, i64Value(r.Due)}}
	case MethodCurrentStatus:
		return []fieldValue{{0, i32Value(int32(r.Status))}}
	case MethodGetVersion:
		return []fieldValue{{0, stringValue(r.Version)}}
	case MethodBrowse:
		var list []value
		for it := range r.Listed.All() {
			list = append(list, structValue(
				fieldValue{1, i64Value(it.ID)}, fieldValue{2, stringValue(it.Data)}, fieldValue{3, stringValue(it.Key)},
				fieldValue{4, i32Value(it.Deliveries)}, fieldValue{5, i64Value(it.Added)},
				fieldValue{6, i64Value(it.Expires)}, fieldValue{7, i64Value(it.Due)},
				fieldValue{8, stringValue(it.From)}, fieldValue{9, stringValue(it.Why)}))
		}
		return []fieldValue{{0, listValue(apache.LIST, apache.STRUCT, list)}}
	case MethodGet, MethodGetAny:
		var list []value
		for it := range r.Items.All() {
			list = append(list, structValue(
				fieldValue{1, stringValue(it.Data)}, fieldValue{2, i64Value(it.ID)},
				fieldValue{3, i32Value(it.Deliveries)}, fieldValue{4, stringValue(it.Key)},
				fieldValue{5, stringValue(it.Queue)}))
		}
		return []fieldValue{{0, listValue(apache.LIST, apache.STRUCT, list)}}
	case MethodPeek:
		return []fieldValue{{0, structValue(infoFields(&r.Info)...)}}
	}
	return nil
}

func infoFields(info *QueueInfo) []fieldValue {
	fields := []fieldValue{
		{2, i64Value(info.Items)},
		{3, i64Value(info.Bytes)},
		{4, i64Value(info.JournalBytes)},
		{5, i64Value(info.AgeMillis)},
		{6, i32Value(info.Waiters)},
		{7, i32Value(info.OpenReads)},
	}
	if info.HasHead {
		fields = append(fields, fieldValue{1, stringValue(info.HeadItem)})
	}
	return fields
}

// TestDecodeReplyApache decodes replies and exceptions written by the Apache library, structs of
// the service with fields in any order and fields of the future.
func TestDecodeReplyApache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, upgraded := drawReply(t)
		ctx := context.Background()
		p, buffer := newApache(rapid.Bool().Draw(t, "strict"), nil)
		if upgraded {
			writeValue(p, mixFields(t, nil, knownField(nil)))
		}
		if r.Failed {
			p.WriteMessageBegin(ctx, string(r.Name), apache.EXCEPTION, r.Seq)
			err := apache.NewTApplicationException(int32(r.Exception), string(r.Message))
			if err := err.Write(ctx, p); err != nil {
				t.Fatal(err)
			}
		} else {
			p.WriteMessageBegin(ctx, string(r.Name), apache.REPLY, r.Seq)
			fields := resultFields(&r)
			for i, f := range fields {
				switch {
				case r.Method == MethodPeek:
					fields[i].value = mixFields(t, f.fields, knownField(infoFields(
						&QueueInfo{HasHead: true})))
				case r.Method == MethodGet, r.Method == MethodGetAny, r.Method == MethodBrowse:
					for j, it := range f.list {
						f.list[j] = mixFields(t, it.fields, knownField(it.fields))
					}
				}
			}
			writeValue(p, mixFields(t, fields, knownField(fields)))
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		frame := buffer.Bytes()
		got, n := decodeReplyString(Client{Upgraded: upgraded}, frame)
		if want := replyString(&r); got != want || n != len(frame) {
			t.Fatalf("DecodeReply(%x)\n= %s, %d bytes, want\n%s", frame, got, n, want)
		}
	})
}

// TestReplyApache reads replies of this package with the Apache library.
func TestReplyApache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, upgraded := drawReply(t)
		call := Call{Method: r.Method, Seq: r.Seq, Upgraded: upgraded}
		frame := appendReply(nil, call, &r)
		got, err := apacheReply(frame, upgraded)
		if err != nil {
			t.Fatalf("the Apache library refuses %x: %v", frame, err)
		}
		if got, want := replyString(got), replyString(&r); got != want {
			t.Fatalf("the Apache library reads %x as\n%s, want\n%s", frame, got, want)
		}
	})
}

// apacheReply reads a reply with the Apache library, as code generated from the IDL does.
func apacheReply(frame []byte, upgraded bool) (*Reply, error) {
	ctx := context.Background()
	p, _ := newApache(true, frame)
	if upgraded {
		if _, err := readFields(p); err != nil {
			return nil, err
		}
	}
	name, kind, seq, err := p.ReadMessageBegin(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reply{Name: []byte(name), Method: lookupMethod([]byte(name)), Seq: seq}
	if kind == apache.EXCEPTION {
		exception := apache.NewTApplicationException(apache.UNKNOWN_APPLICATION_EXCEPTION, "")
		if err := exception.Read(ctx, p); err != nil {
			return nil, err
		}
		r.Failed = true
		r.Exception = ExceptionType(exception.TypeId())
		r.Message = []byte(exception.Error())
		return r, nil
	}
	result, err := readFields(p)
	if err != nil {
		return nil, err
	}
	return r, setResult(r, result)
}

// setResult sets the result of the method.
func setResult(r *Reply, fields []fieldValue) error {
	var want apache.TType
	switch r.Method {
	case MethodPut, MethodConfirm, MethodAbort, MethodCurrentStatus, MethodRelease, MethodReject, MethodRemove:
		want = apache.I32
	case MethodTouch:
		want = apache.I64
	case MethodGetVersion:
		want = apache.STRING
	case MethodGet, MethodGetAny, MethodBrowse:
		want = apache.LIST
	case MethodPeek:
		want = apache.STRUCT
	default:
		return nil
	}
	v, ok := lastField(fields, 0, want)
	if !ok {
		return errors.New("no result")
	}
	switch r.Method {
	case MethodTouch:
		r.Due = v.num
	case MethodCurrentStatus:
		r.Status = Status(v.num)
	case MethodGetVersion:
		r.Version = append([]byte{}, v.bytes...)
	case MethodBrowse:
		for _, it := range v.list {
			r.Listed.count++
			r.Listed.data = AppendListed(r.Listed.data, listedOf(it.fields))
		}
	case MethodGet, MethodGetAny:
		for _, it := range v.list {
			key, _ := lastField(it.fields, 4, apache.STRING)
			queue, _ := lastField(it.fields, 5, apache.STRING)
			data, _ := lastField(it.fields, 1, apache.STRING)
			id, _ := lastField(it.fields, 2, apache.I64)
			r.Items.count++
			deliveries := int32(1)
			if v, ok := lastField(it.fields, 3, apache.I32); ok {
				deliveries = int32(v.num)
			}
			r.Items.data = AppendItem(r.Items.data, &Item{
				Data: data.bytes, ID: id.num, Deliveries: deliveries, Key: key.bytes, Queue: queue.bytes,
			})
		}
	case MethodPeek:
		setInfo(&r.Info, v.fields)
	default:
		r.Count = int32(v.num)
	}
	return nil
}

// listedOf is an item that browse returns.
func listedOf(fields []fieldValue) *Listed {
	text := func(id int16) []byte {
		v, _ := lastField(fields, id, apache.STRING)
		return v.bytes
	}
	num := func(id int16) int64 {
		v, _ := lastField(fields, id, apache.I64)
		return v.num
	}
	deliveries, _ := lastField(fields, 4, apache.I32)
	return &Listed{
		ID: num(1), Data: text(2), Key: text(3), Deliveries: int32(deliveries.num), Added: num(5), Expires: num(6),
		Due: num(7), From: text(8), Why: text(9),
	}
}

func setInfo(info *QueueInfo, fields []fieldValue) {
	head, ok := lastField(fields, 1, apache.STRING)
	info.HasHead, info.HeadItem = ok, head.bytes
	i64 := func(id int16) int64 {
		v, _ := lastField(fields, id, apache.I64)
		return v.num
	}
	i32 := func(id int16) int32 {
		v, _ := lastField(fields, id, apache.I32)
		return int32(v.num)
	}
	info.Items, info.Bytes, info.JournalBytes, info.AgeMillis = i64(2), i64(3), i64(4), i64(5)
	info.Waiters, info.OpenReads = i32(6), i32(7)
}
