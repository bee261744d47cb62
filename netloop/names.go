package netloop

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// Queue names are Unicode inside. The memcache and text protocols send each character as one byte
// of ISO-8859-1, Thrift sends UTF-8; \xE9 there and é here are one queue.

// appendLatin1AsUTF8 appends the UTF-8 form of ISO-8859-1 bytes.
func appendLatin1AsUTF8(dst, name []byte) []byte {
	for _, b := range name {
		dst = utf8.AppendRune(dst, rune(b))
	}
	return dst
}

// appendUTF8AsLatin1 appends the ISO-8859-1 form of a name, for statistics: with '?' for what has
// none, and for line ends, which Thrift allows in names, and which would end the name's line.
func appendUTF8AsLatin1(dst []byte, name string) []byte {
	for _, r := range name {
		if r > 0xff || r == '\n' || r == '\r' {
			r = '?'
		}
		dst = append(dst, byte(r))
	}
	return dst
}

// latin1 is name as statistics of the memcache protocol show it; see appendUTF8AsLatin1.
func latin1(name string) string {
	plain := func(r rune) bool { return r < utf8.RuneSelf && r != '\n' && r != '\r' }
	if strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0 {
		return name
	}
	return string(appendUTF8AsLatin1(nil, name))
}

// isPlainName reports whether a name of the memcache or text protocol is the engine's as it stands: ASCII, and
// without a slash.
func isPlainName(b []byte) bool {
	var all byte // every bit that one of them has
	for _, c := range b {
		if c == '/' {
			return false
		}
		all |= c
	}
	return all < utf8.RuneSelf
}

// withoutAccount returns name, or if it has a slash, one that is illegal. Only Burrow's clients reach the
// queues of accounts.
func withoutAccount(name []byte) []byte {
	if bytes.IndexByte(name, '/') < 0 {
		return name
	}
	return []byte("/")
}

// latin1Name returns a queue's name as the engine knows it. The result is valid until the next
// call. A name with a slash, which belongs to an account, comes back as one that is illegal.
func (s *session) latin1Name(name []byte) []byte {
	if isPlainName(name) {
		return name
	}
	s.loop.utf8Name = appendLatin1AsUTF8(s.loop.utf8Name[:0], withoutAccount(name))
	return s.loop.utf8Name
}

// requestName is latin1Name of the queue that a request names.
func (s *session) requestName(req *memcache.Request) []byte {
	if req.HasPlainName() {
		return req.Queue
	}
	return s.latin1Name(req.Queue)
}
