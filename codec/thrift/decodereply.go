package thrift

import "math"

// Reply is one decoded reply. DecodeReply overwrites all of it; the slices alias the bytes given to
// DecodeReply. Unless Failed is set, the method says which field holds the result.
type Reply struct {
	Method Method // as it came; 0 only for an exception
	Name   []byte // of the method
	Seq    int32  // sequence id of the call

	// Failed says that the call ended in an exception: Exception and Message.
	Failed    bool
	Exception ExceptionType
	Message   []byte // UTF-8

	Count   int32      // put, confirm, abort, release, reject, remove
	Due     int64      // touch: milliseconds since 1970; 0: not open, or not there
	Status  Status     // current_status
	Version []byte     // get_version
	Items   ItemList   // get, get_any
	Listed  ListedList // browse
	Info    QueueInfo  // peek

	// Need is set on ErrIncomplete once the length of the frame is known: the bytes needed in all,
	// from the start of src. It is 0 before.
	Need int
}

// DecodeReply parses one frame at the start of src and returns the bytes it occupied. It overwrites
// r, whose slices alias src.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of a frame. It returns ErrBadReply and 0 for anything but
// a reply of this service or an exception. It keeps no state and does not allocate. Let buffers grow with the bytes
// received, not with r.Need.
func (c Client) DecodeReply(src []byte, r *Reply) (n int, err error) {
	*r = Reply{}
	maxFrame := c.MaxFrame
	if maxFrame <= 0 {
		maxFrame = math.MaxInt32
	}
	n, failed := frameSize(src, maxFrame)
	if failed != nil {
		return 0, ErrBadReply
	}
	if n == 0 || len(src) < n {
		r.Need = n
		return 0, ErrIncomplete
	}
	in := cursor{rest: src[frameHeaderSize:n]}
	if c.Upgraded {
		in.skipStruct(0) // ResponseHeader
	}
	kind := in.message(&r.Name, &r.Seq)
	r.Method = lookupMethod(r.Name)
	ok := false
	switch {
	case kind == messageException:
		in.exception(r)
		ok = true
	case kind == messageReply && r.Method != 0:
		ok = in.result(r)
	}
	if !ok || in.failed != nil {
		return 0, ErrBadReply
	}
	return n, nil
}

// Fields of the struct TApplicationException.
const (
	messageField   = 1<<8 | typeString
	exceptionField = 2<<8 | typeI32
)

// exception reads a TApplicationException.
func (c *cursor) exception(r *Reply) {
	r.Failed = true
	for f := c.field(); f != 0; f = c.field() {
		switch f {
		case messageField:
			r.Message = c.string()
		case exceptionField:
			r.Exception = ExceptionType(c.i32())
		default:
			c.skip(byte(f), 1)
		}
	}
}
