package burrow

import "bytes"

// headers says which of the headers that may stand once have been seen.
type headers struct {
	host, length, coding bool
	credential, origin   bool
	keepAlive            bool
}

// parseHeader parses one header line, and ignores those that mean nothing here.
func (h *Head) parseHeader(line []byte, seen *headers) *ProtocolError {
	if line[0] == ' ' || line[0] == '\t' {
		return errFold
	}
	name, value, found := bytes.Cut(line, colon)
	if !found || len(name) == 0 {
		return errHeaderName
	}
	for _, c := range name {
		if !isToken(c) {
			return errHeaderName
		}
	}
	for _, c := range value {
		if c < ' ' && c != '\t' || c == 0x7f {
			return errHeaderValue
		}
	}
	value = trimBlanks(value)
	switch {
	case equalFold(name, "host"):
		if seen.host {
			return errTwoHosts
		}
		seen.host, h.Host = true, value
	case equalFold(name, "content-length"):
		if seen.length {
			return errTwoLengths
		}
		seen.length = true
		return h.parseLength(value)
	case equalFold(name, "transfer-encoding"):
		if seen.coding || !equalFold(value, "chunked") {
			return errCoding
		}
		seen.coding, h.Chunked = true, true
	case equalFold(name, "connection"):
		h.parseConnection(value, seen)
	case equalFold(name, "expect"):
		if !equalFold(value, "100-continue") {
			return errExpect
		}
		h.Continue = true
	case equalFold(name, "content-type"):
		kind, _, _ := bytes.Cut(value, semicolon)
		h.Form = equalFold(trimBlanks(kind), "application/x-www-form-urlencoded")
	case equalFold(name, "authorization"):
		if seen.credential { // a proxy may have looked at the other one
			return errTwoCredentials
		}
		seen.credential, h.Authorization = true, value
	case equalFold(name, "origin"):
		if seen.origin {
			return errTwoOrigins
		}
		seen.origin, h.Origin = true, value
	}
	return nil
}

var (
	colon     = []byte{':'}
	semicolon = []byte{';'}
	comma     = []byte{','}
)

// parseLength parses the value of Content-Length. A length that no limit could allow is too large.
func (h *Head) parseLength(value []byte) *ProtocolError {
	if len(value) == 0 {
		return errLength
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return errLength
		}
		if h.Length > maxLength {
			return errBodySize
		}
		h.Length = h.Length*10 + int64(c-'0')
	}
	return nil
}

const maxLength = 1 << 50 // bytes; any more digit still fits into an int64

// parseConnection parses the value of Connection: a list of words.
func (h *Head) parseConnection(value []byte, seen *headers) {
	for more := true; more; {
		var word []byte
		word, value, more = bytes.Cut(value, comma)
		switch word = trimBlanks(word); {
		case equalFold(word, "close"):
			h.Close = true
		case equalFold(word, "keep-alive"):
			seen.keepAlive = true
		}
	}
}

// finish checks what the headers say together.
func (h *Head) finish(seen headers, maxBody int64) *ProtocolError {
	switch {
	case !seen.host && !h.Old():
		return errNoHost
	case seen.coding && h.Old():
		return errOldChunked
	case seen.coding && seen.length:
		return errBothLengths
	case h.Length > maxBody:
		return errBodySize
	}
	if h.Old() {
		h.Close = h.Close || !seen.keepAlive
		h.Continue = false
	}
	return nil
}

// trimBlanks returns s without the spaces and tabs around it.
func trimBlanks(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
