package thrift

import (
	"encoding/binary"
	"math"
)

const (
	// DefaultMaxFrame bounds what follows a frame's length, in bytes. It has room for a put of the
	// largest item, and any text taken for a length exceeds it.
	DefaultMaxFrame = 64 << 20

	// maxMethodName bounds the name of an unknown method, in bytes, as the reply holds it twice.
	maxMethodName = 255
)

// Decoder decodes calls. The zero Decoder has the default limit and expects no request headers.
type Decoder struct {
	MaxFrame int  // bytes of a frame behind its length; 0: DefaultMaxFrame
	Upgraded bool // frames begin with a RequestHeader: the connection has been upgraded
}

// Decode parses one frame at the start of src and returns the bytes it occupied. It overwrites req,
// whose slices alias src; copy what outlives this turn of the loop.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a frame. Then req.Need says how many bytes would do,
// once the frame's length is there. A length beyond MaxFrame is refused at once.
//
// Any other error is a *ProtocolError. If it is fatal, n is 0 and the stream ends here. Fatal are frames without a
// message in them, messages that are not calls, and arguments that break off.
//
// Otherwise n is the whole frame, req.Call and req.Name are set, AppendReply answers, and decoding goes on. This is so
// for unknown methods (MethodUpgrade is a known one) and for arguments that break the rules of the protocol. It is also
// so for a missing queue_name, and a status that cannot be set.
//
// Arguments that are missing are zero. Fields that are unknown or have another type than they should are skipped; of a
// field sent twice the last counts. Bytes behind the arguments are ignored.
//
// Decode keeps no state, does not allocate, and checks every length before using it.
func (d Decoder) Decode(src []byte, req *Request) (n int, err error) {
	*req = Request{}
	n, failed := frameSize(src, d.maxFrame())
	if failed != nil {
		return 0, failed
	}
	if n == 0 || len(src) < n {
		req.Need = n
		return 0, ErrIncomplete
	}
	if failed := d.decodeFrame(src[frameHeaderSize:n], req); failed != nil {
		if failed.Fatal {
			return 0, failed
		}
		return n, failed
	}
	return n, nil
}

// FrameSize returns how many bytes the frame at the start of src has, with its length. It is 0 if that
// is not whole or would be refused. It looks at nothing else, however large the frame is.
func (d Decoder) FrameSize(src []byte) int {
	n, _ := frameSize(src, d.maxFrame())
	return n
}

func (d Decoder) maxFrame() int {
	if d.MaxFrame <= 0 {
		return DefaultMaxFrame
	}
	return d.MaxFrame
}

// frameSize returns the size of the frame at the start of src with its length, or 0 if that is not
// whole.
func frameSize(src []byte, maxFrame int) (int, *ProtocolError) {
	if len(src) < frameHeaderSize {
		return 0, nil
	}
	length := binary.BigEndian.Uint32(src)
	if length == 0 || length > math.MaxInt32 {
		return 0, errFrameLength
	}
	if int(length) > min(maxFrame, math.MaxInt-frameHeaderSize) {
		return 0, errFrameLimit
	}
	return frameHeaderSize + int(length), nil
}

// decodeFrame decodes what follows the length of a frame. It returns nil or why the call is
// refused.
func (d Decoder) decodeFrame(frame []byte, req *Request) *ProtocolError {
	c := cursor{rest: frame}
	if d.Upgraded {
		req.ClientID = c.requestHeader()
	}
	kind := c.message(&req.Name, &req.Seq)
	switch {
	case c.failed == errVersion, c.failed == errMethodName:
		return c.failed
	case c.failed != nil:
		return errHeader
	case kind != messageCall && kind != messageOneWay:
		return errMessageType
	}
	req.Upgraded = d.Upgraded
	req.Method = lookupMethod(req.Name)
	c.args(req)
	switch {
	case c.failed != nil && (c.failed.Fatal || req.Method != 0):
		return c.failed
	case req.Method == 0:
		return errUnknownMethod
	case req.Queue == nil && req.Method.hasQueue():
		return errNoQueue
	case req.Method == MethodSetStatus && (req.Status < StatusQuiescent || req.Status > StatusUp):
		return errStatus
	}
	return nil
}

// message reads a message header, in either form, and returns the message type.
func (c *cursor) message(name *[]byte, seq *int32) (kind byte) {
	word := c.i32()
	strict := word < 0
	size := word
	if strict {
		if uint32(word)&versionMask != version1 {
			c.fail(errVersion)
		}
		kind = byte(word)
		size = c.i32()
	}
	switch {
	case size < 0:
		c.fail(errNegativeSize)
	case size > maxMethodName:
		c.fail(errMethodName)
	default:
		*name = c.take(int(size))
	}
	if !strict {
		kind = c.byte()
	}
	*seq = c.i32()
	return kind
}

// Fields of the structs RequestHeader and ClientId.
const (
	clientIDField   = 6<<8 | typeStruct
	clientNameField = 1<<8 | typeString
)

// requestHeader reads the struct before a message of an upgraded connection. It returns the name of
// the client, or nil.
func (c *cursor) requestHeader() (clientID []byte) {
	for f := c.field(); f != 0; f = c.field() {
		if f != clientIDField {
			c.skip(byte(f), 1)
			continue
		}
		clientID = nil
		for f := c.field(); f != 0; f = c.field() {
			if f == clientNameField {
				clientID = c.string()
			} else {
				c.skip(byte(f), 2)
			}
		}
	}
	return clientID
}
