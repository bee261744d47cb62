package netloop

import (
	"strings"
	"unicode/utf8"
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

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
