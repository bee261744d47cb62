package burrow

import "strconv"

// Texts of replies with status 404: the outermost thing that is missing.
const (
	NoAccount = "Account not found"
	NoQueue   = "Queue not found"
	NoMessage = "Message not found"
)

// ReplyContinue tells a client that waits for it to send its body.
const ReplyContinue = "HTTP/1.1 100 Continue\r\n\r\n"

// ContentType is the type of a reply's body.
type ContentType uint8

// The types of bodies. An empty body has the type that Burrow gave it.
const (
	Empty ContentType = iota
	JSON
	Octets
	Problem // why a request of version 1.1 was refused
)

var contentTypes = [...]string{
	Empty:  "text/html; charset=UTF-8",
	JSON:   "application/json; charset=UTF-8",
	Octets: "application/octet-stream; charset=UTF-8",

	Problem: "application/problem+json",
}

// String returns the type as the header Content-Type has it.
func (t ContentType) String() string { return contentTypes[t] }

// Reply is the head of a reply.
type Reply struct {
	Status    int
	Type      ContentType
	Length    int    // bytes of the body that follows, if not Chunked
	Chunked   bool   // the body follows in chunks: see AppendChunk
	Unsized   bool   // the body ends with the connection, for a client of HTTP/1.0; Close is set
	Close     bool   // the server closes the connection behind it
	KeepAlive bool   // a client of HTTP/1.0 asked to go on; without meaning beside Close
	NoBody    bool   // none follows, whatever Length announces: the request was HEAD
	Allow     string // methods of the path, for status 405
	Origin    string // whose web pages may read the reply, or *; empty: none may
	Fields    string // further header lines, each with its end
	Date      []byte // as RFC 9110 §5.6.7 has it; empty: no Date
}

// AppendReply appends the head of a reply. Even an empty one announces its length, since the clients
// of 2011 read nothing without it.
func AppendReply(dst []byte, r Reply) []byte {
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, statusText(r.Status)...)
	dst = append(dst, "\r\nContent-Type: "...)
	dst = append(dst, contentTypes[r.Type]...)
	switch {
	case r.Unsized:
	case r.Chunked:
		dst = append(dst, "\r\nTransfer-Encoding: chunked"...)
	default:
		dst = append(dst, "\r\nContent-Length: "...)
		dst = strconv.AppendInt(dst, int64(r.Length), 10)
	}
	if r.Allow != "" {
		dst = append(dst, "\r\nAllow: "...)
		dst = append(dst, r.Allow...)
	}
	if len(r.Origin) > 0 {
		dst = append(dst, "\r\nAccess-Control-Allow-Origin: "...)
		dst = append(dst, r.Origin...)
		dst = append(dst, "\r\nVary: Origin\r\nAccess-Control-Expose-Headers: Retry-After, WWW-Authenticate"...)
	}
	if len(r.Date) > 0 {
		dst = append(dst, "\r\nDate: "...)
		dst = append(dst, r.Date...)
	}
	switch {
	case r.Close:
		dst = append(dst, "\r\nConnection: close"...)
	case r.KeepAlive:
		dst = append(dst, "\r\nConnection: keep-alive"...)
	}
	dst = append(dst, "\r\n"...)
	dst = append(dst, r.Fields...)
	return append(dst, "\r\n"...)
}

// statusText returns the reason phrase of a status that a server of this protocol sends.
func statusText(status int) string {
	switch status {
	case 200:
		return "OK"
	case 201:
		return "Created"
	case 204:
		return "No Content"
	case 207:
		return "Multi-Status"
	case 400:
		return "Bad Request"
	case 401:
		return "Unauthorized"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 405:
		return "Method Not Allowed"
	case 408:
		return "Request Timeout"
	case 409:
		return "Conflict"
	case 413:
		return "Content Too Large"
	case 417:
		return "Expectation Failed"
	case 429:
		return "Too Many Requests"
	case 431:
		return "Request Header Fields Too Large"
	case 501:
		return "Not Implemented"
	case 503:
		return "Service Unavailable"
	case 505:
		return "HTTP Version Not Supported"
	case 507:
		return "Insufficient Storage"
	}
	return "Status"
}

// AppendChunk appends one piece of a body that is sent in chunks. An empty piece appends nothing, since
// it would end the body.
func AppendChunk(dst, piece []byte) []byte {
	if len(piece) == 0 {
		return dst
	}
	dst = strconv.AppendInt(dst, int64(len(piece)), 16)
	dst = append(dst, "\r\n"...)
	dst = append(dst, piece...)
	return append(dst, "\r\n"...)
}

// LastChunk ends a body that is sent in chunks.
const LastChunk = "0\r\n\r\n"
