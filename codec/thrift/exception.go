package thrift

// ExceptionType is what a TApplicationException says of its cause.
type ExceptionType int32

// The types in use. Clients know others.
const (
	ExceptionUnknownMethod ExceptionType = 1
	ExceptionInternal      ExceptionType = 6 // everything that goes wrong in a method, refusals too
	ExceptionProtocol      ExceptionType = 7 // the arguments break the rules of the protocol
)

// AppendException appends an exception. The message is for people.
func AppendException(dst []byte, call Call, kind ExceptionType, message string) []byte {
	start := len(dst)
	dst = beginException(dst, call.Upgraded, call.Method.String(), call.Seq)
	dst = appendStringField(dst, 1, message)
	return endException(dst, start, kind)
}

// AppendInternalError appends the exception for all that goes wrong in a method:
//
//	Internal error processing <method>: '<reason>'
func AppendInternalError(dst []byte, call Call, reason string) []byte {
	start := len(dst)
	method := call.Method.String()
	dst = beginException(dst, call.Upgraded, method, call.Seq)
	dst = appendQuote(dst, "Internal error processing ", method, ": '", reason)
	return endException(dst, start, ExceptionInternal)
}

// AppendUnknownMethod appends the exception for a call of a method that does not exist, and
// declines a MethodUpgrade.
//
//	Invalid method name: '<method>'
func AppendUnknownMethod(dst []byte, req *Request) []byte {
	start := len(dst)
	dst = beginException(dst, req.Upgraded, req.Name, req.Seq)
	dst = appendQuote(dst, "Invalid method name", "", ": '", req.Name)
	return endException(dst, start, ExceptionUnknownMethod)
}

func beginException[T text](dst []byte, upgraded bool, method T, seq int32) []byte {
	dst = beginFrame(dst)
	if upgraded {
		dst = append(dst, typeStop) // an empty ResponseHeader
	}
	return appendMessage(dst, messageException, method, seq)
}

// appendQuote appends a message of three parts and a text that ends in an apostrophe.
func appendQuote[T text](dst []byte, a, b, c string, quoted T) []byte {
	dst = appendField(dst, 1, typeString)
	dst = appendI32(dst, int32(len(a)+len(b)+len(c)+len(quoted)+1))
	dst = append(dst, a...)
	dst = append(dst, b...)
	dst = append(dst, c...)
	dst = append(dst, quoted...)
	return append(dst, '\'')
}

func endException(dst []byte, start int, kind ExceptionType) []byte {
	return endStruct(appendI32Field(dst, 2, int32(kind)), start)
}
