package thrift

// Frame layout. All integers are big-endian.
//
//	offset  size  field
//	0       4     length of the rest, in bytes; positive
//	4       h     after the upgrade only: RequestHeader or ResponseHeader struct
//	4+h     m     message header, strict or old
//	4+h+m   ...   struct: arguments of a call, result of a reply, or exception
//
// Message header, strict:                  old, accepted but never sent:
//
//	offset  size  field                     offset  size  field
//	0       3     80 01, then any byte      0       4     length of the name; not negative
//	3       1     message type              4       n     name
//	4       4     length of the name        4+n     1     message type
//	8       n     name                      5+n     4     sequence id
//	8+n     4     sequence id
//
// A struct is a sequence of fields and a zero byte. A field is a type byte, a 16-bit id, and a
// value:
//
//	bool, byte, i16, i32, i64, double   1, 1, 2, 4, 8, 8 bytes
//	string                              32-bit length, bytes
//	list, set                           element type byte, 32-bit count, values
//	map                                 key type byte, value type byte, 32-bit count, pairs
const (
	frameHeaderSize = 4 // bytes

	versionMask = 0xffff0000
	version1    = 0x80010000

	messageCall      = 1
	messageReply     = 2
	messageException = 3
	messageOneWay    = 4
)

// Types of fields and elements, as the wire has them.
const (
	typeStop   = 0
	typeBool   = 2
	typeByte   = 3
	typeDouble = 4
	typeI16    = 6
	typeI32    = 8
	typeI64    = 10
	typeString = 11
	typeStruct = 12
	typeMap    = 13
	typeSet    = 14
	typeList   = 15
)

// typeSize returns how many bytes a value of a type has at least, and whether it never has more.
// The size is 0 for what is not a type: no value is empty.
func typeSize(kind byte) (size int, fixed bool) {
	switch kind {
	case typeBool, typeByte:
		return 1, true
	case typeI16:
		return 2, true
	case typeI32:
		return 4, true
	case typeI64, typeDouble:
		return 8, true
	case typeString:
		return 4, false
	case typeStruct:
		return 1, false
	case typeMap:
		return 6, false
	case typeList, typeSet:
		return 5, false
	}
	return 0, false
}

// field packs the id and the type of a field, which a reader has to expect together.
func field(id int16, kind byte) uint32 { return uint32(uint16(id))<<8 | uint32(kind) }
