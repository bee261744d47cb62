package loadtest

import (
	"bytes"
	"strconv"
	"time"
)

// memcache is the memcache text protocol with Kestrel's options in the key.
type memcache struct {
	wait time.Duration
}

func (p memcache) appendRequest(dst []byte, r request) []byte {
	if r.kind == putRequest {
		dst = append(dst, "set "...)
		dst = append(dst, r.queue...)
		return appendBlock(append(dst, " 0 0 "...), r.value)
	}
	dst = append(dst, "get "...)
	dst = append(dst, r.queue...)
	switch r.kind {
	case openRequest:
		dst = append(dst, "/open"...)
	case confirmRequest:
		dst = append(dst, "/close"...)
	}
	if p.wait > 0 && r.kind != confirmRequest {
		dst = append(dst, "/t="...)
		dst = strconv.AppendInt(dst, p.wait.Milliseconds(), 10)
	}
	return append(dst, "\r\n"...)
}

func (memcache) appendReply(dst []byte, r request) ([]byte, bool) {
	switch r.kind {
	case putRequest:
		return append(dst, "STORED\r\n"...), true
	case confirmRequest:
		return append(dst, "END\r\n"...), true
	}
	dst = append(dst, "VALUE "...)
	dst = append(dst, r.queue...)
	dst = appendBlock(append(dst, " 0 "...), r.value)
	return append(dst, "END\r\n"...), true
}

func (memcache) parseReply(src []byte, r request) (reply, int) {
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	word := src[:line-2]
	switch {
	case r.kind == putRequest:
		if string(word) == "STORED" {
			return reply{outcome: accepted}, line
		}
	case string(word) == "END":
		if r.kind == confirmRequest {
			return reply{outcome: accepted}, line
		}
		return reply{outcome: miss}, line
	case r.kind != confirmRequest:
		return parseMemcacheValue(src, line, r.queue)
	}
	return reply{outcome: refused}, line
}

// parseMemcacheValue parses a VALUE reply whose first line is src[:line].
func parseMemcacheValue(src []byte, line int, queue string) (reply, int) {
	const before, flags, end = "VALUE ", " 0 ", "\r\nEND\r\n"
	head, ok := bytes.CutPrefix(src[:line-2], []byte(before))
	if ok {
		head, ok = bytes.CutPrefix(head, []byte(queue))
	}
	if ok {
		head, ok = bytes.CutPrefix(head, []byte(flags))
	}
	size, digits := parseSize(head)
	if !ok || !digits {
		return reply{outcome: refused}, line
	}
	total := line + size + len(end)
	if len(src) < total {
		return reply{}, 0
	}
	if string(src[line+size:total]) != end {
		return reply{outcome: refused}, total
	}
	return reply{outcome: hit, value: src[line : line+size]}, total
}
