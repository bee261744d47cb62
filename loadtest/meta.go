package loadtest

// memcacheMeta is memcached's meta protocol. memcached sends the replies to pipelined meta gets
// together. It answers each get of the classic protocol in a system call of its own.
type memcacheMeta struct{}

func (memcacheMeta) named() bool { return false }

func (memcacheMeta) appendRequest(dst []byte, r *request) []byte {
	if r.kind != putRequest {
		dst = append(dst, "mg "...)
		dst = append(dst, r.queue...)
		return append(dst, " v\r\n"...)
	}
	dst = append(dst, "ms "...)
	dst = append(dst, r.queue...)
	dst = append(dst, ' ')
	return appendBlock(dst, r.value())
}

func (memcacheMeta) appendReply(dst []byte, r *request) ([]byte, bool) {
	if r.kind == putRequest {
		return append(dst, "HD\r\n"...), true
	}
	return appendBlock(append(dst, "VA "...), r.value()), true
}

func (memcacheMeta) parseReply(src []byte, r *request) (reply, int) {
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	word := src[:line-2]
	switch {
	case r.kind == putRequest:
		if string(word) == "HD" {
			return reply{outcome: accepted}, line
		}
	case string(word) == "EN":
		return reply{outcome: miss}, line
	case len(word) > len("VA ") && string(word[:len("VA ")]) == "VA ":
		if size, ok := parseSize(word[len("VA "):]); ok {
			return parseBlock(src, line, size)
		}
	}
	return reply{outcome: refused}, line
}
