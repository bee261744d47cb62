package thrift

import "errors"

var (
	// ErrIncomplete says that more bytes are needed; nothing was consumed.
	ErrIncomplete = errors.New("thrift: incomplete")

	// ErrBadReply says that what a server sent is not a reply of this service. The connection is of
	// no further use.
	ErrBadReply = errors.New("thrift: malformed reply")
)

// A ProtocolError says why a call was refused; AppendReply answers it. The values returned by
// Decode are shared: do not change them.
type ProtocolError struct {
	Fatal  bool          // close the connection without a reply, and decode nothing more from it
	Type   ExceptionType // of the exception to answer with, unless Fatal
	Reason string        // for logs
}

// Error returns the reason.
func (e *ProtocolError) Error() string { return "thrift: " + e.Reason }

// AppendReply appends the exception that answers the refused call, as Decode left req. It appends
// nothing if e is fatal.
func (e *ProtocolError) AppendReply(dst []byte, req *Request) []byte {
	switch {
	case e.Fatal:
		return dst
	case e.Type == ExceptionUnknownMethod:
		return AppendUnknownMethod(dst, req)
	case e == errStatus:
		return AppendInternalError(dst, req.Call, "Unknown status.")
	case e.Type == ExceptionInternal:
		return AppendInternalError(dst, req.Call, e.Reason)
	}
	return AppendException(dst, req.Call, e.Type, e.Reason)
}

func fatal(reason string) *ProtocolError {
	return &ProtocolError{Fatal: true, Reason: reason}
}

func refusal(kind ExceptionType, reason string) *ProtocolError {
	return &ProtocolError{Type: kind, Reason: reason}
}

// Errors that end the connection.
var (
	errFrameLength = fatal("frame of no bytes, or of a negative number")
	errFrameLimit  = fatal("frame too long")
	errHeader      = fatal("message header cannot be parsed")
	errVersion     = fatal("message of an unknown version")
	errMethodName  = fatal("method name too long")
	errMessageType = fatal("message is not a call")
	errTruncated   = fatal("struct goes beyond the end of its frame")
)

// Errors that cost one reply. Those of type protocol say what rule the arguments break.
var (
	errUnknownMethod = refusal(ExceptionUnknownMethod, "unknown method")
	errNoQueue       = refusal(ExceptionInternal, "queue name missing")
	errStatus        = refusal(ExceptionInternal, "unknown status")
	errNegativeSize  = refusal(ExceptionProtocol, "negative size")
	errType          = refusal(ExceptionProtocol, "unknown type")
	errElementType   = refusal(ExceptionProtocol, "elements of the wrong type")
	errDepth         = refusal(ExceptionProtocol, "structs nested too deep")
)
