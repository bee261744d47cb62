package loadtest

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// beanstalk is the protocol of beanstalkd, with a tube per queue. A get is a reserve, which hands
// out a job for a while, and the delete of that job.
type beanstalk struct {
	wait time.Duration
}

// beanstalkLease is how long a reserved job is ours, in seconds.
const beanstalkLease = "120"

// named reports true: a job is deleted by its id.
func (beanstalk) named() bool { return true }

// appendGreeting chooses the tube of a connection.
func (beanstalk) appendGreeting(dst []byte, queue string, _ int, g *Group) []byte {
	dst = append(append(append(dst, "use "...), queue...), "\r\n"...)
	if !g.Operation.Gets() {
		return dst
	}
	dst = append(append(append(dst, "watch "...), queue...), "\r\n"...)
	return append(dst, "ignore default\r\n"...)
}

func (beanstalk) greeted(src []byte, g *Group) (n int, err error) {
	want := []string{"USING "}
	if g.Operation.Gets() {
		want = []string{"USING ", "WATCHING 2\r\n", "WATCHING 1\r\n"}
	}
	return greetedByLines(src, want)
}

// greetedByLines returns the size of the lines at the start of src, if they are lines that begin
// with the words wanted.
func greetedByLines(src []byte, want []string) (n int, err error) {
	for _, begin := range want {
		line, ok := replyLine(src[n:])
		switch {
		case line == 0 && ok:
			return 0, nil
		case line == 0 || !bytes.HasPrefix(src[n:], []byte(begin)):
			return 0, fmt.Errorf("greeting answered with %q, want %q", src[n:], begin)
		}
		n += line
	}
	return n, nil
}

func (p beanstalk) appendRequest(dst []byte, r *request) []byte {
	switch r.kind {
	case putRequest:
		return appendBlock(append(dst, "put 0 0 "+beanstalkLease+" "...), r.value())
	case confirmRequest:
		dst = append(dst, "delete "...)
		if r.held != nil && r.which < r.held.len() {
			dst = append(dst, r.held.at(r.which)...)
		} else {
			dst = append(dst, '0')
		}
		return append(dst, "\r\n"...)
	}
	dst = append(dst, "reserve-with-timeout "...)
	dst = strconv.AppendInt(dst, int64((p.wait+time.Second-1)/time.Second), 10)
	return append(dst, "\r\n"...)
}

func (beanstalk) appendReply(dst []byte, r *request) ([]byte, bool) {
	switch r.kind {
	case putRequest: // the id depends on what else was put
		return append(dst, "INSERTED 1\r\n"...), false
	case confirmRequest:
		return append(dst, "DELETED\r\n"...), true
	}
	return appendBlock(append(dst, "RESERVED 1 "...), r.value()), false
}

func (beanstalk) parseReply(src []byte, r *request) (reply, int) {
	line, ok := replyLine(src)
	if line == 0 {
		return reply{outcome: refused}, unframed(ok, src)
	}
	words := src[:line-2]
	switch {
	case r.kind == putRequest:
		if id, ok := bytes.CutPrefix(words, []byte("INSERTED ")); ok && isNumber(id) {
			return reply{outcome: accepted}, line
		}
	case r.kind == confirmRequest:
		if string(words) == "DELETED" {
			return reply{outcome: accepted}, line
		}
	case string(words) == "TIMED_OUT":
		return reply{outcome: miss}, line
	default:
		rest, ok := bytes.CutPrefix(words, []byte("RESERVED "))
		id, digits, ok2 := bytes.Cut(rest, []byte(" "))
		size, ok3 := parseSize(digits)
		if ok && ok2 && ok3 && isNumber(id) {
			got, n := parseBlock(src, line, size)
			got.id = id
			return got, n
		}
	}
	return reply{outcome: refused}, line
}

// isNumber reports whether b is a decimal number.
func isNumber(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}
