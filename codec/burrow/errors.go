package burrow

import "errors"

var (
	// ErrIncomplete says that more bytes are needed; nothing was consumed.
	ErrIncomplete = errors.New("burrow: incomplete")

	// ErrEndOfBody says that the body is over. The next byte begins a request.
	ErrEndOfBody = errors.New("burrow: end of body")
)

// A ProtocolError says why a request was refused. The values returned by this package are shared: do
// not change them.
type ProtocolError struct {
	Fatal  bool   // close the connection once the reply is sent, and decode nothing more from it
	Status int    // of the reply
	Reason string // one sentence for people: the body of the reply, but for 404 and 405

	silent bool // the reply has no body
}

// Error returns the reason.
func (e *ProtocolError) Error() string { return "burrow: " + e.Reason }

// AppendReply appends the answer to the refused request, as Parse left req; req may be zero if no
// head was decoded. Frame has what all replies to the request say: Close, KeepAlive, NoBody, Origin
// and Date.
func (e *ProtocolError) AppendReply(dst []byte, req *Request, frame Reply) []byte {
	reply := frame
	reply.Status, reply.Type, reply.Close = e.Status, Octets, frame.Close || e.Fatal
	switch {
	case e == errDetail:
		reply.Length = len(req.Word)
		return append(AppendReply(dst, reply), req.Word...)
	case e.silent:
		reply.Type = Empty
		if e == errMethod {
			reply.Allow = req.allow
		}
		return AppendReply(dst, reply)
	}
	reply.Length = len(e.Reason)
	if reply.NoBody {
		return AppendReply(dst, reply)
	}
	return append(AppendReply(dst, reply), e.Reason...)
}

// Allow returns what a 405 to the request says of its path; "" for other errors.
func (e *ProtocolError) Allow(req *Request) string {
	if e == errMethod {
		return req.allow
	}
	return ""
}

// fatal returns an error that ends the connection.
func fatal(status int, reason string) *ProtocolError {
	return &ProtocolError{Fatal: true, Status: status, Reason: reason}
}

// refusal returns an error that costs one reply.
func refusal(reason string) *ProtocolError { return &ProtocolError{Status: 400, Reason: reason} }

// silent returns an error that costs one reply without a body.
func silent(status int, reason string) *ProtocolError {
	return &ProtocolError{Status: status, Reason: reason, silent: true}
}

// Errors of the framing. They end the connection: where the next request begins is not known.
var (
	errForeign        = fatal(400, "This is not HTTP: the port speaks HTTP/1.1 without TLS.")
	errHeadSize       = fatal(431, "The request line and headers are too large together.")
	errLineEnd        = fatal(400, "A line of the head does not end in CR LF, or holds one of the two inside.")
	errRequestLine    = fatal(400, "The request line is not METHOD, one space, TARGET, one space, HTTP/1.1.")
	errVersion        = fatal(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
	errTarget         = fatal(400, "The request target is not a path that begins with a slash.")
	errFold           = fatal(400, "A header is folded over two lines.")
	errHeaderName     = fatal(400, "A header has no colon, or its name holds a blank or another byte that names cannot have.")
	errHeaderValue    = fatal(400, "The value of a header holds a control character.")
	errNoHost         = fatal(400, "HTTP/1.1 requires one Host header.")
	errTwoHosts       = fatal(400, "There are two Host headers.")
	errTwoCredentials = fatal(400, "There are two Authorization headers.")
	errTwoOrigins     = fatal(400, "There are two Origin headers.")
	errLength         = fatal(400, "Content-Length is not a decimal number.")
	errTwoLengths     = fatal(400, "There are two Content-Length headers.")
	errCoding         = fatal(501, "The only Transfer-Encoding is chunked, once.")
	errOldChunked     = fatal(400, "HTTP/1.0 has no Transfer-Encoding.")
	errBothLengths    = fatal(400, "Content-Length and Transfer-Encoding exclude each other.")
	errExpect         = fatal(417, "The only expectation is 100-continue.")
	errBodySize       = fatal(413, "The body is too large.")
	errChunk          = fatal(400, "A chunk does not begin with its size in hexadecimal digits and end in CR LF.")
	errTrailers       = fatal(431, "The trailers behind the last chunk are too large.")
)

// Errors that cost one reply.
var (
	errPath      = silent(404, "no such path")
	errMethod    = silent(405, "the path does not offer this method")
	errEscape    = refusal("A percent sign is not followed by two hexadecimal digits.")
	errUTF8      = refusal("The path or a parameter is not UTF-8.")
	errNUL       = refusal("The path or a parameter holds a NUL character.")
	errTTL       = refusal("ttl: not a whole number of seconds from 0 to 999999999.")
	errHide      = refusal("hide: not a whole number of seconds from 0 to 999999999.")
	errMost      = refusal("limit: not a whole number from 1 to 1000.")
	errLimit     = refusal("limit: not a whole number from 1 to 999999999.")
	errWait      = refusal("wait: not a whole number of seconds from 0 to 999999999.")
	errReceipt   = refusal("A receipt is a whole number, as it was received.")
	errParameter = refusal("There is a parameter that is not known here.")
	errDetail    = refusal("detail: no such detail.") // its reply is the offending word
)
