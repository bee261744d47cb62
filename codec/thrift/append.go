package thrift

import (
	"encoding/binary"
	"fmt"
	"math"
)

// text is what a string is appended from.
type text interface{ ~string | ~[]byte }

// beginFrame appends room for the length of a frame. EndFrame fills it in.
func beginFrame(dst []byte) []byte { return append(dst, 0, 0, 0, 0) }

// endFrame notes the length of the frame that starts at offset start and ends with dst. It panics if that does not
// fit: the caller bounds what it puts into a frame.
func endFrame(dst []byte, start int) []byte {
	length := len(dst) - start - frameHeaderSize
	if length > math.MaxInt32 {
		panic(fmt.Sprintf("thrift: frame of %d bytes", length))
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(length))
	return dst
}

// appendMessage appends a strict message header.
func appendMessage[T text](dst []byte, kind byte, name T, seq int32) []byte {
	dst = binary.BigEndian.AppendUint32(dst, version1|uint32(kind))
	dst = appendString(dst, name)
	return appendI32(dst, seq)
}

func appendField(dst []byte, id int16, kind byte) []byte {
	return append(dst, kind, byte(id>>8), byte(id))
}

func appendStringField[T text](dst []byte, id int16, s T) []byte {
	return appendString(appendField(dst, id, typeString), s)
}

func appendI32Field(dst []byte, id int16, v int32) []byte {
	return appendI32(appendField(dst, id, typeI32), v)
}

func appendI64Field(dst []byte, id int16, v int64) []byte {
	return appendI64(appendField(dst, id, typeI64), v)
}

func appendString[T text](dst []byte, s T) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(s)))
	return append(dst, s...)
}

func appendI32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

func appendI64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }
