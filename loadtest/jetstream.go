package loadtest

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// jetStream is the protocol of NATS with acknowledged publishing. A queue is a stream of the same
// name, whose only subject has that name too. Clients read it through its durable pull consumer
// JetStreamConsumer. Both must exist. An item got is acknowledged together with the next request.
type jetStream struct {
	wait time.Duration
}

// JetStreamConsumer is the name of the consumer that items are got from.
const JetStreamConsumer = "load"

// named reports true: an item is acknowledged by the subject that it came with.
func (jetStream) named() bool { return true }

// personal marks requests that differ by connection, each of which has its own inbox.
func (jetStream) personal() {}

func appendInbox(dst []byte, conn int) []byte {
	return strconv.AppendInt(append(dst, "_INBOX.load."...), int64(conn), 10)
}

func (jetStream) appendGreeting(dst []byte, _ string, conn int, _ *Group) []byte {
	dst = append(dst, `CONNECT {"verbose":false,"pedantic":false,"headers":true,"protocol":1}`...)
	dst = appendInbox(append(dst, "\r\nSUB "...), conn)
	return append(dst, " 1\r\nPING\r\n"...)
}

func (jetStream) greeted(src []byte, _ *Group) (n int, err error) {
	if i := bytes.Index(src, []byte("-ERR")); i >= 0 {
		return 0, fmt.Errorf("greeting answered with %q", src[i:])
	}
	const end = "PONG\r\n"
	if i := bytes.Index(src, []byte(end)); i >= 0 {
		return i + len(end), nil
	}
	return 0, nil
}

func (p jetStream) appendRequest(dst []byte, r *request) []byte {
	if r.kind == putRequest {
		dst = append(append(append(dst, "PUB "...), r.queue...), ' ')
		return appendBlock(append(appendInbox(dst, r.conn), ' '), r.value())
	}
	for i := range r.held.len() {
		dst = append(append(append(dst, "PUB "...), r.held.at(i)...), " 0\r\n\r\n"...)
	}
	dst = append(append(dst, "PUB $JS.API.CONSUMER.MSG.NEXT."...), r.queue...)
	dst = appendInbox(append(dst, "."+JetStreamConsumer+" "...), r.conn)
	ask := `,"no_wait":true}`
	if p.wait > 0 {
		ask = fmt.Sprintf(`,"expires":%d}`, p.wait)
	}
	count := strconv.Itoa(r.count)
	dst = append(dst, ' ')
	dst = strconv.AppendInt(dst, int64(len(`{"batch":`)+len(count)+len(ask)), 10)
	dst = append(append(dst, "\r\n{\"batch\":"...), count...)
	return append(append(dst, ask...), "\r\n"...)
}

func (jetStream) appendReply(dst []byte, r *request) ([]byte, bool) {
	if r.kind == putRequest {
		dst = append(appendInbox(append(dst, "MSG "...), r.conn), " 1 "...)
		return appendBlock(dst, []byte(`{"stream":"load","seq":1}`)), false // the number varies
	}
	dst = append(append(append(dst, "MSG "...), r.queue...), " 1 $JS.ACK.load "...)
	return appendBlock(dst, r.value()), false
}

func (jetStream) parseReply(src []byte, r *request) (reply, int) {
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	op, rest, _ := bytes.Cut(src[:line-2], []byte(" "))
	switch string(op) {
	case "MSG":
	case "HMSG": // headers and no payload: the status that ends a pull
		return parseStatus(src, line, rest, r)
	case "+OK", "INFO", "PING": // a server closes only after several pings without an answer
		return reply{outcome: noise}, line
	default:
		return reply{outcome: refused}, line
	}
	// subject sid [reply-to] size
	last := bytes.LastIndexByte(rest, ' ')
	size, ok := parseSize(rest[last+1:])
	if last < 0 || !ok {
		return reply{outcome: refused}, line
	}
	got, n := parseBlock(src, line, size)
	if n == 0 || got.outcome == refused {
		return got, n
	}
	if r.kind == putRequest {
		if bytes.HasPrefix(got.value, []byte(`{"stream":`)) {
			return reply{outcome: accepted}, n
		}
		return reply{outcome: refused}, n
	}
	words := bytes.Fields(rest[:last])
	if len(words) != 3 || !bytes.Equal(words[0], r.queue) {
		return reply{outcome: refused}, n
	}
	got.id, got.more = words[2], r.got+1 < r.count
	return got, n
}

// parseStatus parses what ends a pull before its items are all there. The first line bytes of src
// have the words: subject sid [reply-to] header-size size. The status stands behind them.
func parseStatus(src []byte, line int, words []byte, r *request) (reply, int) {
	size, ok := parseSize(words[bytes.LastIndexByte(words, ' ')+1:])
	if !ok || r.kind == putRequest {
		return reply{outcome: refused}, line
	}
	got, n := parseBlock(src, line, size)
	switch {
	case n == 0 || got.outcome == refused:
		return got, n
	case bytes.HasPrefix(got.value, []byte("NATS/1.0 404")), bytes.HasPrefix(got.value,
		[]byte("NATS/1.0 408")), bytes.HasPrefix(got.value, []byte("NATS/1.0 409 ")):
		if r.got > 0 {
			return reply{outcome: accepted}, n
		}
		return reply{outcome: miss}, n
	}
	return reply{outcome: refused}, n
}
