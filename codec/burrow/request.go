package burrow

import (
	"bytes"
	"unicode/utf8"
)

// Request is what one head asks for. Parse overwrites all of it, so one Request serves a whole
// connection. The slices lie inside the target of the head, which Parse decodes in place. Which
// fields an operation sets is said at its [Op]; the others are zero.
type Request struct {
	Op     Op
	Method Method
	Modern bool // the request is one of version 1.1, or for its description

	Account []byte // of every path below /v1.0; UTF-8, at least one byte, without slash and NUL
	Queue   []byte // the same
	ID      []byte // the same

	TTL     int64 // seconds an item lives, if HasTTL; 0 is for ever
	Hide    int64 // seconds an item is hidden, if HasHide; 0 is visible
	HasTTL  bool
	HasHide bool

	Limit       int64  // how many objects at most, from 1 on; 0: no limit was sent
	Marker      []byte // the object to begin behind; empty: from the first on
	MatchHidden bool   // hidden items count as well
	Detail      Detail // what was sent, or what the operation has by default
	Wait        int64  // seconds to wait for a match; 0: none

	Receipt uint64 // of a lease

	Word []byte // the detail as sent, if there is none of that name

	sent  parameter // that count for Op
	allow string    // what a 405 says
}

// Allow returns the methods that the path offers, once Parse has refused the one that was sent.
func (req *Request) Allow() string { return req.allow }

// maxNumber is the largest number that a parameter may have: more than thirty years of seconds.
const maxNumber = 999999999

// MaxForm is how large a form may be that ParseForm reads.
const MaxForm = 16 << 10 // bytes

// Parse reads in h.Target what the request asks for, and writes what it decodes over it; so call it
// once for each head. It overwrites req.
//
// Any error is a *ProtocolError that is not fatal: the body of the request is still to be read.
func (h *Head) Parse(req *Request) error {
	*req = Request{Method: h.Method}
	path, query, _ := bytes.Cut(h.Target, question)
	if len(path) == 0 || path[0] != '/' {
		return errPath
	}
	var names [len(routes) + 1][]byte // version, account, queue, id
	count := 0
	for rest := path[1:]; len(path) > 1; {
		name, tail, more := bytes.Cut(rest, slash)
		if len(name) == 0 || count == len(names) {
			return errPath
		}
		name, err := decodeName(name)
		if err != nil {
			return err
		}
		names[count] = name
		count++
		if !more {
			break
		}
		rest = tail
	}
	req.Modern = h.IsModern()
	switch {
	case req.Modern && string(path) == openAPIPath:
		if h.Method != Get {
			req.allow = "GET"
			return errMethod
		}
		req.Op = OpOpenAPI
		return req.parseParameters(query, 0)
	case req.Modern:
		if err := req.parseModern(h.Method, names[1:count]); err != nil {
			return err
		}
		return req.parseParameters(query, 0)
	case count >= len(routes), count > 0 && string(names[0]) != "v1.0":
		return errPath
	}
	req.Account, req.Queue, req.ID = names[1], names[2], names[3]
	at := &routes[count]
	if int(h.Method) < len(at.ops) {
		req.Op = at.ops[h.Method]
	}
	if req.Op == 0 {
		req.allow = at.allow
		return errMethod
	}
	if err := req.parseParameters(query, 0); err != nil {
		return err
	}
	if req.Detail == 0 {
		req.Detail = req.Op.defaultDetail()
	}
	return nil
}

var (
	question  = []byte{'?'}
	slash     = []byte{'/'}
	ampersand = []byte{'&'}
	equals    = []byte{'='}
)

// decodeName decodes one component of a path in place. A component that holds a slash names nothing.
func decodeName(name []byte) ([]byte, error) {
	name, err := unescape(name, false)
	if err == nil && bytes.IndexByte(name, '/') >= 0 {
		err = errPath
	}
	if err != nil {
		return nil, err
	}
	return name, nil
}

// unescape decodes the percent signs of s in place, and the plus signs of a parameter.
func unescape(s []byte, parameter bool) ([]byte, error) {
	n := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+' && parameter:
			c = ' '
		case c == '%':
			if i+2 >= len(s) {
				return nil, errEscape
			}
			high, ok := hexDigit(s[i+1])
			low, ok2 := hexDigit(s[i+2])
			if !ok || !ok2 {
				return nil, errEscape
			}
			c = high<<4 | low
			i += 2
		}
		if c == 0 {
			return nil, errNUL
		}
		s[n] = c
		n++
	}
	s = s[:n:n]
	if !utf8.Valid(s) {
		return nil, errUTF8
	}
	return s, nil
}
