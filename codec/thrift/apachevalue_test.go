package thrift

import (
	"context"
	"errors"
	"fmt"

	apache "github.com/apache/thrift/lib/go/thrift"
	"pgregory.net/rapid"
)

// value is a value of any type, which the Apache library reads and writes.
type value struct {
	kind      apache.TType
	num       int64   // BOOL, BYTE, I16, I32, I64
	double    float64 // DOUBLE
	bytes     []byte  // STRING
	fields    []fieldValue
	key, elem apache.TType // types in MAP, LIST and SET
	list      []value      // LIST and SET; keys and values of MAP in turn
}

// fieldValue is a field of a struct.
type fieldValue struct {
	id int16
	value
}

func i32Value(v int32) value { return value{kind: apache.I32, num: int64(v)} }
func i64Value(v int64) value { return value{kind: apache.I64, num: v} }
func boolValue(b bool) value {
	v := value{kind: apache.BOOL}
	if b {
		v.num = 1
	}
	return v
}
func stringValue(b []byte) value { return value{kind: apache.STRING, bytes: b} }

func structValue(fields ...fieldValue) value {
	return value{kind: apache.STRUCT, fields: fields}
}

func listValue(kind, elem apache.TType, list []value) value {
	return value{kind: kind, elem: elem, list: list}
}

// newApache returns a protocol of the Apache library that reads and writes frames in the buffer.
func newApache(strict bool, frame []byte) (*apache.TBinaryProtocol, *apache.TMemoryBuffer) {
	buffer := apache.NewTMemoryBuffer()
	buffer.Write(frame)
	conf := &apache.TConfiguration{TBinaryStrictRead: new(bool), TBinaryStrictWrite: &strict}
	return apache.NewTBinaryProtocolConf(apache.NewTFramedTransportConf(buffer, conf), conf), buffer
}

var errValueType = errors.New("not a type")

// readValue reads a value of type kind.
func readValue(p *apache.TBinaryProtocol, kind apache.TType) (v value, err error) {
	ctx := context.Background()
	v.kind = kind
	switch kind {
	case apache.BOOL, apache.BYTE:
		var b int8
		b, err = p.ReadByte(ctx)
		v.num = int64(b)
	case apache.I16:
		var i int16
		i, err = p.ReadI16(ctx)
		v.num = int64(i)
	case apache.I32:
		var i int32
		i, err = p.ReadI32(ctx)
		v.num = int64(i)
	case apache.I64:
		v.num, err = p.ReadI64(ctx)
	case apache.DOUBLE:
		v.double, err = p.ReadDouble(ctx)
	case apache.STRING:
		v.bytes, err = p.ReadBinary(ctx)
	case apache.STRUCT:
		v.fields, err = readFields(p)
	case apache.MAP:
		var n int
		if v.key, v.elem, n, err = p.ReadMapBegin(ctx); err == nil {
			v.list, err = readList(p, n, v.key, v.elem)
		}
	case apache.SET, apache.LIST:
		var n int
		if v.elem, n, err = p.ReadListBegin(ctx); err == nil {
			v.list, err = readList(p, n, v.elem)
		}
	default:
		err = errValueType
	}
	return v, err
}

func readFields(p *apache.TBinaryProtocol) (fields []fieldValue, err error) {
	for {
		_, kind, id, err := p.ReadFieldBegin(context.Background())
		if err != nil || kind == apache.STOP {
			return fields, err
		}
		v, err := readValue(p, kind)
		if err != nil {
			return nil, err
		}
		fields = append(fields, fieldValue{id, v})
	}
}

func readList(p *apache.TBinaryProtocol, n int, kinds ...apache.TType) (list []value, err error) {
	for range n {
		for _, kind := range kinds {
			v, err := readValue(p, kind)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
	}
	return list, nil
}

// writeValue writes a value. Memory does not fail: errors are checked where the frame is flushed.
func writeValue(p *apache.TBinaryProtocol, v value) {
	ctx := context.Background()
	switch v.kind {
	case apache.BOOL:
		p.WriteBool(ctx, v.num != 0)
	case apache.BYTE:
		p.WriteByte(ctx, int8(v.num))
	case apache.I16:
		p.WriteI16(ctx, int16(v.num))
	case apache.I32:
		p.WriteI32(ctx, int32(v.num))
	case apache.I64:
		p.WriteI64(ctx, v.num)
	case apache.DOUBLE:
		p.WriteDouble(ctx, v.double)
	case apache.STRING:
		p.WriteBinary(ctx, v.bytes)
	case apache.STRUCT:
		for _, f := range v.fields {
			p.WriteFieldBegin(ctx, "", f.kind, f.id)
			writeValue(p, f.value)
		}
		p.WriteFieldStop(ctx)
	case apache.MAP:
		p.WriteMapBegin(ctx, v.key, v.elem, len(v.list)/2)
	case apache.SET:
		p.WriteSetBegin(ctx, v.elem, len(v.list))
	case apache.LIST:
		p.WriteListBegin(ctx, v.elem, len(v.list))
	default:
		panic(fmt.Sprint("type ", v.kind))
	}
	for _, element := range v.list {
		writeValue(p, element)
	}
}

var valueKinds = []apache.TType{
	apache.BOOL, apache.BYTE, apache.I16, apache.I32, apache.I64, apache.DOUBLE, apache.STRING,
	apache.STRUCT, apache.MAP, apache.SET, apache.LIST,
}

// drawValue draws a value of a type, with collections and structs nested up to depth.
func drawValue(t *rapid.T, kind apache.TType, depth int) value {
	v := value{
		kind:   kind,
		num:    rapid.Int64().Draw(t, "num"),
		double: rapid.Float64().Draw(t, "double"),
		bytes:  rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "bytes"),
	}
	kinds := valueKinds
	if depth == 0 {
		kinds = valueKinds[:7]
	}
	pick := rapid.SampledFrom(kinds)
	size := rapid.IntRange(0, 3).Draw(t, "size")
	switch kind {
	case apache.STRUCT:
		for range size {
			f := drawValue(t, pick.Draw(t, "field"), depth-1)
			v.fields = append(v.fields, fieldValue{rapid.Int16().Draw(t, "id"), f})
		}
	case apache.MAP:
		v.key, v.elem = pick.Draw(t, "key"), pick.Draw(t, "elem")
		for range size {
			v.list = append(v.list, drawValue(t, v.key, depth-1), drawValue(t, v.elem, depth-1))
		}
	case apache.SET, apache.LIST:
		v.elem = pick.Draw(t, "elem")
		for range size {
			v.list = append(v.list, drawValue(t, v.elem, depth-1))
		}
	}
	return v
}

// mixFields draws an order for the fields of a struct, with others in between that are not known.
func mixFields(t *rapid.T, fields []fieldValue, known func(fieldValue) bool) value {
	more := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fieldValue {
		kind := rapid.SampledFrom(valueKinds).Draw(t, "kind")
		return fieldValue{int16(rapid.IntRange(-1, 8).Draw(t, "id")), drawValue(t, kind, 2)}
	}), 0, 3).Draw(t, "unknown fields")
	for _, f := range more {
		if !known(f) {
			fields = append(fields, f)
		}
	}
	return structValue(rapid.Permutation(fields).Draw(t, "fields")...)
}
