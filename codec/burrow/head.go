package burrow

import "bytes"

// Head grammar: the part of RFC 9112 that is read. EOL is CR LF.
//
//	head    = line *header EOL
//	line    = method SP target SP "HTTP/1." ( "0" / "1" ) EOL
//	header  = token ":" *( SP / TAB ) value *( SP / TAB ) EOL
//	target  = "/" ... / "http://" authority "/" ... / "*"
const (
	DefaultMaxHead = 16 << 10 // bytes, the empty line at the end included
	DefaultMaxBody = 32 << 20 // bytes
)

// Decoder decodes heads and bodies. It holds limits only; the zero Decoder has the default ones.
type Decoder struct {
	MaxHead int // bytes of a head; 0: DefaultMaxHead
	MaxBody int // bytes of a body; 0: DefaultMaxBody. A form that ParseForm reads has MaxForm at most
}

// Head is the head of one request. DecodeHead overwrites all of it, so one Head serves a whole
// connection. The slices alias the bytes given to DecodeHead.
type Head struct {
	Method Method
	Target []byte // path and query as sent, from the slash on; "*" of OPTIONS

	Length  int64 // bytes of the body, if it is not Chunked
	Chunked bool  // the body is sent in chunks

	Close    bool // the client wants the connection closed behind the reply
	Continue bool // the client waits for 100 Continue before it sends the body
	Form     bool // the body is application/x-www-form-urlencoded
	NoBody   bool // the method is HEAD: the client reads no body of the reply

	Host          []byte // as sent; empty if there is none
	Authorization []byte // as sent; empty if there is none
	Origin        []byte // as sent; empty if there is none

	minor byte // of the version: '0' or '1'
}

// Old says that the client speaks HTTP/1.0, which knows no chunks.
func (h *Head) Old() bool { return h.minor == '0' }

// maxBody returns the limit that is in force for the body of h.
func (d Decoder) maxBody(h *Head) int64 {
	most := int64(DefaultMaxBody)
	if d.MaxBody > 0 {
		most = int64(d.MaxBody)
	}
	if h.Form && h.Method == Post && !h.IsModern() {
		most = min(most, MaxForm)
	}
	return most
}

// DecodeHead parses one head at the start of src and returns the bytes it occupied. It overwrites
// h, whose slices alias src; copy what outlives this turn of the loop.
//
// It returns ErrIncomplete and 0 when src is a proper prefix of what may be a head. Any other error
// is a *ProtocolError, all of them fatal: n is 0 and the stream ends here.
//
// DecodeHead keeps no state, does not allocate, and checks every length before using it.
func (d Decoder) DecodeHead(src []byte, h *Head) (n int, err error) {
	*h = Head{}
	limit := d.MaxHead
	if limit <= 0 {
		limit = DefaultMaxHead
	}
	if len(src) > 0 && !isToken(src[0]) {
		return 0, errForeign
	}
	var seen headers
	for first := true; ; first = false {
		line, size, err := cutLine(src[n:], limit-n)
		if err != nil {
			return 0, err
		}
		n += size
		if first {
			if err := h.parseLine(line); err != nil {
				return 0, err
			}
			continue
		}
		if len(line) == 0 {
			break
		}
		if err := h.parseHeader(line, &seen); err != nil {
			return 0, err
		}
	}
	if err := h.finish(seen, d.maxBody(h)); err != nil {
		return 0, err
	}
	return n, nil
}

// cutLine returns the first line of src without its end, and the bytes it occupied. A line may be at
// most limit bytes long.
func cutLine(src []byte, limit int) (line []byte, n int, err error) {
	whole := src
	src = src[:min(len(src), limit)]
	end := bytes.IndexByte(src, '\n')
	if end < 0 {
		if cr := bytes.IndexByte(src, '\r'); cr >= 0 && cr < len(src)-1 {
			return nil, 0, errLineEnd
		}
		if len(whole) >= limit {
			return nil, 0, errHeadSize
		}
		return nil, 0, ErrIncomplete
	}
	if end == 0 || src[end-1] != '\r' {
		return nil, 0, errLineEnd
	}
	line = src[:end-1]
	if bytes.IndexByte(line, '\r') >= 0 {
		return nil, 0, errLineEnd
	}
	return line, end + 1, nil
}

// parseLine parses the request line.
func (h *Head) parseLine(line []byte) *ProtocolError {
	method, rest, found := bytes.Cut(line, space)
	target, version, found2 := bytes.Cut(rest, space)
	if !found || !found2 || len(method) == 0 || bytes.IndexByte(version, ' ') >= 0 {
		return errRequestLine
	}
	for _, c := range method {
		if !isToken(c) {
			return errRequestLine
		}
	}
	if len(version) != len(versionPrefix)+1 || string(version[:len(versionPrefix)]) != versionPrefix {
		if bytes.HasPrefix(version, []byte("HTTP/")) {
			return errVersion
		}
		return errRequestLine
	}
	h.minor = version[len(versionPrefix)]
	if h.minor != '0' && h.minor != '1' {
		return errVersion
	}
	h.Method, h.NoBody = LookupMethod(method), string(method) == "HEAD"
	target, ok := cutAuthority(target)
	if !ok {
		return errTarget
	}
	for _, c := range target {
		if c <= ' ' || c == 0x7f || c == '#' {
			return errTarget
		}
	}
	h.Target = target
	return nil
}

const versionPrefix = "HTTP/1."

var space = []byte{' '}

// cutAuthority returns the path and query of a target. Proxies send it with scheme and host before it.
func cutAuthority(target []byte) (path []byte, ok bool) {
	const scheme = "http://"
	if len(target) > len(scheme) && equalFold(target[:len(scheme)], scheme) {
		slash := bytes.IndexByte(target[len(scheme):], '/')
		if slash <= 0 || !isAuthority(target[len(scheme):len(scheme)+slash]) {
			return nil, false
		}
		return target[len(scheme)+slash:], true
	}
	if len(target) > 0 && target[0] == '/' || string(target) == "*" {
		return target, true
	}
	return nil, false
}

// isAuthority says whether s is a name or an address of a host, perhaps with a port. An address of IPv6 stands in
// brackets. What else RFC 3986 allows there, and what it does not, others may read in another way.
func isAuthority(s []byte) bool {
	var host, port []byte
	if s[0] == '[' {
		end := bytes.IndexByte(s, ']')
		if end < 0 || !isIPv6(s[1:end]) {
			return false
		}
		port = s[end+1:]
	} else {
		host = s
		if colon := bytes.IndexByte(s, ':'); colon >= 0 {
			host, port = s[:colon], s[colon:]
		}
		if len(host) == 0 {
			return false
		}
	}
	for _, c := range host {
		if c != '.' && c != '-' && c != '_' && (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	if len(port) > 0 && port[0] != ':' {
		return false
	}
	for _, c := range port[min(1, len(port)):] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// isIPv6 says whether s is an address of IPv6 without an IPv4 address in it. It allocates nothing, unlike package netip.
func isIPv6(s []byte) bool {
	groups, short := 0, false
	if len(s) > 1 && s[0] == ':' && s[1] == ':' {
		short, s = true, s[2:]
	}
	for len(s) > 0 {
		n := 0
		for n < len(s) && n < 4 {
			if _, ok := hexDigit(s[n]); !ok {
				break
			}
			n++
		}
		if n == 0 {
			return false
		}
		groups++
		switch s = s[n:]; {
		case len(s) == 0:
		case len(s) > 1 && s[0] == ':' && s[1] != ':':
			s = s[1:]
		case len(s) > 1 && s[0] == ':' && !short:
			short, s = true, s[2:]
		default:
			return false
		}
	}
	return groups == 8 && !short || groups < 8 && short
}

// isToken says whether c may stand in a method or in the name of a header.
func isToken(c byte) bool { return c < 128 && tokenBytes[c] }

var tokenBytes = func() (is [128]bool) {
	for c := byte('0'); c <= '9'; c++ {
		is[c] = true
	}
	for c := byte('A'); c <= 'Z'; c++ {
		is[c], is[c|0x20] = true, true
	}
	for _, c := range []byte("!#$%&'*+-.^_`|~") {
		is[c] = true
	}
	return is
}()

// equalFold says whether s is lower, which has no upper-case letters, in any letter case of ASCII.
func equalFold(s []byte, lower string) bool {
	if len(s) != len(lower) {
		return false
	}
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
