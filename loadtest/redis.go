package loadtest

import (
	"strconv"
	"time"
)

// redisList is RESP2 with a list per queue: put at the left, taken at the right. An open read is
// a move to the list queue:open; a confirm removes the item there.
type redisList struct {
	wait   time.Duration
	unique bool // values differ
}

// named reports whether LREM must wait for the item that it names.
func (p redisList) named() bool { return p.unique }

// openSuffix names the list that holds a queue's open reads.
const openSuffix = ":open"

func (p redisList) appendRequest(dst []byte, r *request) []byte {
	queue := string(r.queue)
	switch r.kind {
	case putRequest:
		dst = appendCommand(dst, 3, "LPUSH", queue)
		return appendBulk(dst, r.value())
	case getRequest:
		if p.wait > 0 {
			return appendBulk(appendCommand(dst, 3, "BRPOP", queue), p.seconds())
		}
		return appendCommand(dst, 2, "RPOP", queue)
	case openRequest:
		if p.wait > 0 {
			dst = appendCommand(dst, 6, "BLMOVE", queue, queue+openSuffix, "RIGHT", "LEFT")
			return appendBulk(dst, p.seconds())
		}
		return appendCommand(dst, 5, "LMOVE", queue, queue+openSuffix, "RIGHT", "LEFT")
	default:
		dst = appendCommand(dst, 4, "LREM", queue+openSuffix, "1")
		if r.held != nil && r.which < r.held.len() {
			return appendBulk(dst, r.held.at(r.which))
		}
		return appendBulk(dst, r.value())
	}
}

func (p redisList) appendReply(dst []byte, r *request) ([]byte, bool) {
	switch r.kind {
	case putRequest: // the length of the list, which depends on the other connections
		return append(dst, ":1\r\n"...), false
	case confirmRequest:
		return append(dst, ":1\r\n"...), true
	}
	if p.waitsForPair(r) {
		dst = append(dst, "*2\r\n"...)
		dst = appendBulk(dst, r.queue)
	}
	return appendBulk(dst, r.value()), true
}

func (p redisList) parseReply(src []byte, r *request) (reply, int) {
	if r.kind == getRequest || r.kind == openRequest {
		if p.waitsForPair(r) {
			return withID(parsePair(src, string(r.queue)))
		}
		return withID(parseBulk(src))
	}
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	n, ok := parseSize(src[1 : line-2])
	if src[0] != ':' || !ok || n == 0 || r.kind == confirmRequest && n != 1 {
		return reply{outcome: refused}, line
	}
	return reply{outcome: accepted}, line
}

// withID names an item by its bytes.
func withID(got reply, n int) (reply, int) {
	got.id = got.value
	return got, n
}

// waitsForPair reports whether the reply is BRPOP's: the list's name, then the item.
func (p redisList) waitsForPair(r *request) bool {
	return p.wait > 0 && r.kind == getRequest
}

// seconds returns the wait as Redis takes it.
func (p redisList) seconds() []byte {
	return strconv.AppendFloat(nil, p.wait.Seconds(), 'f', -1, 64)
}

// redisString is RESP2 with a string per queue.
type redisString struct{}

func (redisString) named() bool { return false }

func (redisString) appendRequest(dst []byte, r *request) []byte {
	if r.kind == putRequest {
		return appendBulk(appendCommand(dst, 3, "SET", string(r.queue)), r.value())
	}
	return appendCommand(dst, 2, "GET", string(r.queue))
}

func (redisString) appendReply(dst []byte, r *request) ([]byte, bool) {
	if r.kind == putRequest {
		return append(dst, "+OK\r\n"...), true
	}
	return appendBulk(dst, r.value()), true
}

func (redisString) parseReply(src []byte, r *request) (reply, int) {
	if r.kind != putRequest {
		return parseBulk(src)
	}
	line, ok := replyLine(src)
	switch {
	case line == 0:
		return reply{outcome: refused}, unframed(ok, src)
	case string(src[:line]) == "+OK\r\n":
		return reply{outcome: accepted}, line
	}
	return reply{outcome: refused}, line
}

// appendCommand extends dst by an array of n words and the first of them.
func appendCommand(dst []byte, n int, words ...string) []byte {
	dst = append(dst, '*')
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, "\r\n"...)
	for _, word := range words {
		dst = appendBulk(dst, word)
	}
	return dst
}

// appendBulk extends dst by a bulk string.
func appendBulk[T string | []byte](dst []byte, word T) []byte {
	return appendBlock(append(dst, '$'), []byte(word))
}

// parseBulk parses a bulk string, or the absence of one, at the start of src.
func parseBulk(src []byte) (reply, int) {
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	if string(src[:line]) == "$-1\r\n" {
		return reply{outcome: miss}, line
	}
	size, ok := parseSize(src[1 : line-2])
	if src[0] != '$' || !ok {
		return reply{outcome: refused}, line
	}
	return parseBlock(src, line, size)
}

// parsePair parses BRPOP's reply: the name of the queue and an item, or the absence of both.
func parsePair(src []byte, queue string) (reply, int) {
	line, ok := replyLine(src)
	switch {
	case line == 0:
		return reply{outcome: refused}, unframed(ok, src)
	case string(src[:line]) == "*-1\r\n":
		return reply{outcome: miss}, line
	case string(src[:line]) != "*2\r\n":
		return reply{outcome: refused}, line
	}
	name, n := parseBulk(src[line:])
	switch {
	case n == 0:
		return reply{}, 0
	case name.outcome != hit || string(name.value) != queue:
		return reply{outcome: refused}, line + n
	}
	item, m := parseBulk(src[line+n:])
	switch {
	case m == 0:
		return reply{}, 0
	case item.outcome != hit:
		return reply{outcome: refused}, line + n + m
	}
	return item, line + n + m
}
