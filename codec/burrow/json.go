package burrow

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// Message is one item as Burrow's clients see it.
type Message struct {
	ID   []byte
	TTL  int64 // seconds left; 0: for ever
	Hide int64 // seconds left; 0: visible
	Body []byte
}

// AppendMessage appends one message of a list as JSON: a string, or an object whose members stand in
// alphabetical order. A body that is not UTF-8 comes as base64, in an object that says so.
func AppendMessage(dst []byte, m Message, detail Detail) []byte {
	binary := detail >= DetailBody && !utf8.Valid(m.Body)
	switch {
	case detail == DetailID:
		return AppendString(dst, m.ID)
	case detail == DetailBody && !binary:
		return AppendString(dst, m.Body)
	}
	dst = append(dst, '{')
	if detail >= DetailBody {
		dst = append(dst, `"body":`...)
		if binary {
			dst = append(dst, '"')
			dst = base64.StdEncoding.AppendEncode(dst, m.Body)
			dst = append(dst, `","encoding":"base64"`...)
		} else {
			dst = AppendString(dst, m.Body)
		}
	}
	if detail != DetailBody {
		if detail == DetailAll {
			dst = append(dst, ',')
		}
		dst = append(dst, `"hide":`...)
		dst = strconv.AppendInt(dst, m.Hide, 10)
		dst = append(dst, `,"id":`...)
		dst = AppendString(dst, m.ID)
		dst = append(dst, `,"ttl":`...)
		dst = strconv.AppendInt(dst, m.TTL, 10)
	}
	return append(dst, '}')
}

// AppendName appends one account or queue of a list as JSON.
func AppendName(dst, name []byte, detail Detail) []byte {
	if detail == DetailID {
		return AppendString(dst, name)
	}
	dst = append(dst, `{"id":`...)
	dst = AppendString(dst, name)
	return append(dst, '}')
}

// AppendString appends s, which must be UTF-8, as a JSON string of ASCII. What is not UTF-8 becomes
// U+FFFD.
func AppendString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for len(s) > 0 {
		c := s[0]
		if c < utf8.RuneSelf {
			s = s[1:]
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c < ' ' || c == 0x7f:
				dst = appendUnit(dst, rune(c))
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, size := utf8.DecodeRune(s)
		s = s[size:]
		if r > 0xffff { // a surrogate pair
			r -= 0x10000
			dst = appendUnit(dst, 0xd800+r>>10)
			r = 0xdc00 + r&0x3ff
		}
		dst = appendUnit(dst, r)
	}
	return append(dst, '"')
}

// appendUnit appends one UTF-16 unit as JSON escapes it.
func appendUnit(dst []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
