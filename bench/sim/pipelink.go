package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/netloop"
)

// pipe reads replies from a connection.
type pipe struct {
	conn  *netloop.PipeConn
	trace func(string, ...any)
	buf   []byte
}

// reply decodes the next reply by decode, which returns how many bytes it took; it waits until there
// are enough of them. What decode returned is used up by the next call.
func (p *pipe) reply(used *int, decode func([]byte) (int, error)) error {
	p.buf = p.buf[*used:]
	*used = 0
	for {
		if len(p.buf) > 0 {
			if n, err := decode(p.buf); err == nil {
				*used = n
				return nil
			}
		}
		chunk := make([]byte, 4096)
		n, err := p.conn.Read(chunk)
		if err != nil {
			return errBroken
		}
		p.buf = append(p.buf, chunk[:n]...)
	}
}

func (p *pipe) reset(half bool) {
	if !half {
		p.conn.Close()
		return
	}
	p.conn.CloseWrite()
	for {
		if _, err := p.conn.Read(make([]byte, 4096)); err != nil {
			return
		}
	}
}

func (p *pipe) kept() int { return p.conn.Kept() }

func millis(d time.Duration) int32 { return int32(d / time.Millisecond) }

// memcacheLink speaks the memcache protocol.
type memcacheLink struct {
	pipe
	used int
	r    memcache.Reply
}

func (l *memcacheLink) ask(request []byte) error {
	l.conn.Write(request)
	return l.next()
}

func (l *memcacheLink) next() error {
	return l.reply(&l.used, func(b []byte) (int, error) { return memcache.DecodeReply(b, &l.r) })
}

// outcome translates the last reply.
func (l *memcacheLink) outcome(err error) error {
	if err != nil {
		return err
	}
	switch l.r.Kind {
	case memcache.KindStored, memcache.KindValue, memcache.KindDeleted:
		return nil
	case memcache.KindNotStored:
		return errRefused
	case memcache.KindEnd:
		return errNone
	case memcache.KindServerError:
		switch {
		case strings.Contains(string(l.r.Text), "journal"):
			return errUnsure
		case strings.Contains(string(l.r.Text), "disk"):
			return errFull
		case strings.Contains(string(l.r.Text), "memory"):
			return errRefused
		}
	}
	if l.trace != nil {
		l.trace("reply %v %q", l.r.Kind, l.r.Text)
	}
	return errBroken // the server ends the connection
}

func (l *memcacheLink) put(queue string, life time.Duration, items [][]byte) (outcomes []error) {
	l.blindPut(queue, life, items)
	return l.stored(len(items))
}

// stored is what came of n puts.
func (l *memcacheLink) stored(n int) (outcomes []error) {
	for range n {
		err := l.outcome(l.next())
		if err == errNone {
			err = errRefused
		}
		outcomes = append(outcomes, err)
	}
	return outcomes
}

func (l *memcacheLink) get(queue string, o memcache.GetOptions) (handed, error) {
	err := l.outcome(l.ask(memcache.AppendGet(nil, []byte(queue), o)))
	return handed{data: l.r.Data}, err
}

func (l *memcacheLink) take(queue string, wait time.Duration, n int) (got []handed, err error) {
	l.takes(queue, wait, n)
	var refusal error
	for range n {
		switch err := l.outcome(l.next()); err {
		case nil:
			got = append(got, handed{data: append([]byte(nil), l.r.Data...)})
		case errBroken:
			return got, err
		case errNone:
		default:
			if l.trace != nil {
				l.trace("get refused: %q", l.r.Text)
			}
			refusal = err
		}
	}
	return got, refusal
}

func (l *memcacheLink) open(queue string, wait time.Duration) (handed, error) {
	return l.get(queue, memcache.GetOptions{Open: true, WaitMillis: millis(wait)})
}

func (l *memcacheLink) confirm(queue string, _ any) error {
	_, err := l.get(queue, memcache.GetOptions{Close: true})
	if err == errNone {
		err = nil
	}
	return err
}

func (l *memcacheLink) abort(queue string, _ any) error {
	_, err := l.get(queue, memcache.GetOptions{Abort: true})
	return err
}

func (l *memcacheLink) closeOpen(queue string, _ any, wait time.Duration) (handed, error) {
	return l.get(queue, memcache.GetOptions{Close: true, Open: true, WaitMillis: millis(wait)})
}

func (l *memcacheLink) peek(queue string) ([]byte, error) {
	h, err := l.get(queue, memcache.GetOptions{Peek: true})
	return h.data, err
}

func (l *memcacheLink) flush(queue string) error {
	err := l.outcome(l.ask(fmt.Appendf(nil, "flush %s\r\n", queue)))
	if err == errNone {
		err = nil
	}
	return err
}

func (l *memcacheLink) delete(queue string) error {
	return l.outcome(l.ask(fmt.Appendf(nil, "delete %s\r\n", queue)))
}

func (l *memcacheLink) expire(queue string) error {
	return l.outcome(l.ask(fmt.Appendf(nil, "flush_expired %s\r\n", queue)))
}

func (l *memcacheLink) stuff(queue string, n int) {
	for range n {
		l.conn.Write(memcache.AppendGet(nil, []byte(queue), memcache.GetOptions{Peek: true}))
	}
}

func (l *memcacheLink) blindPut(queue string, life time.Duration, items [][]byte) {
	var request []byte
	for _, data := range items {
		request = memcache.AppendSet(request, []byte(queue), 0, int64(life/time.Second), data)
	}
	l.conn.Write(request)
}

func (l *memcacheLink) blindTake(queue string, n int) { l.takes(queue, 0, n) }

func (l *memcacheLink) takes(queue string, wait time.Duration, n int) {
	var request []byte
	for range n {
		request = memcache.AppendGet(request, []byte(queue), memcache.GetOptions{WaitMillis: millis(wait)})
	}
	l.conn.Write(request)
}

// textLink speaks the text protocol, whose gets confirm what was got before.
type textLink struct {
	pipe
	used int
	r    text.Reply
}

func (l *textLink) ask(request []byte) error {
	l.conn.Write(request)
	return l.answer()
}

// answer is the next reply.
func (l *textLink) answer() error {
	err := l.reply(&l.used, func(b []byte) (int, error) { return text.DecodeReply(b, &l.r) })
	if err != nil {
		return err
	}
	switch l.r.Kind {
	case text.KindNone:
		return errNone
	case text.KindError:
		switch {
		case strings.Contains(string(l.r.Data), "ournal"):
			return errUnsure
		case strings.Contains(string(l.r.Data), "disk"):
			return errFull
		}
		return errRefused
	}
	return nil
}

func (l *textLink) put(queue string, life time.Duration, items [][]byte) (outcomes []error) {
	return l.stored(putRequest(queue, life, items), len(items))
}

// stored puts n items by a request.
func (l *textLink) stored(request []byte, n int) (outcomes []error) {
	err := l.ask(request)
	if err != errBroken && n > 1 && (err != nil || l.r.Count != int64(n)) {
		err = errUnsure // some are there
		if l.r.Kind != text.KindError || !strings.Contains(string(l.r.Data), "ournal") {
			err = errFull
		}
	}
	if err == nil && l.r.Count == 0 {
		err = errRefused
	}
	for range n {
		outcomes = append(outcomes, err)
	}
	return outcomes
}

func (l *textLink) get(request []byte) (handed, error) {
	err := l.ask(request)
	return handed{data: append([]byte(nil), l.r.Data...)}, err
}

func (l *textLink) take(queue string, wait time.Duration, _ int) ([]handed, error) {
	panic("the text protocol has no plain get")
}

func (l *textLink) open(queue string, wait time.Duration) (handed, error) {
	return l.get(text.AppendGet(nil, []byte(queue), millis(wait)))
}

func (l *textLink) confirm(queue string, _ any) error {
	err := l.ask(text.AppendConfirm(nil, []byte(queue), 1))
	return err
}

func (l *textLink) abort(string, any) error { return nil }

func (l *textLink) closeOpen(queue string, _ any, wait time.Duration) (handed, error) {
	return l.open(queue, wait)
}

func (l *textLink) peek(string) ([]byte, error) { return nil, nil } // it would confirm

func (l *textLink) flush(queue string) error {
	return l.ask(fmt.Appendf(nil, "flush %s\n", queue))
}

func (l *textLink) delete(queue string) error {
	return l.ask(fmt.Appendf(nil, "delete %s\n", queue))
}

func putRequest(queue string, life time.Duration, items [][]byte) []byte {
	if life > 0 {
		return text.AppendPutExpiring(nil, []byte(queue), millis(life), items...)
	}
	return text.AppendPut(nil, []byte(queue), items...)
}

func (l *textLink) blindPut(queue string, life time.Duration, items [][]byte) {
	l.conn.Write(putRequest(queue, life, items))
}

func (l *textLink) blindTake(queue string, _ int) {} // its gets open

func (l *textLink) expire(string) error { return nil }
func (l *textLink) stuff(string, int)   {}

// thriftLink speaks the Thrift protocol.
type thriftLink struct {
	pipe
	used  int
	seq   int32
	codec thrift.Client
	r     thrift.Reply
}

func (l *thriftLink) ask(request []byte) error {
	l.conn.Write(request)
	err := l.reply(&l.used, func(b []byte) (int, error) { return l.codec.DecodeReply(b, &l.r) })
	if err != nil {
		return err
	}
	if l.r.Failed {
		switch {
		case strings.Contains(string(l.r.Message), "ournal"):
			return errUnsure
		case strings.Contains(string(l.r.Message), "disk"):
			return errFull
		}
		return errRefused
	}
	return nil
}

func (l *thriftLink) next() int32 {
	l.seq++
	return l.seq
}

func (l *thriftLink) put(queue string, life time.Duration, items [][]byte) (outcomes []error) {
	return l.stored(l.codec.AppendPut(nil, l.next(), []byte(queue), millis(life), items...), len(items))
}

// stored puts n items by a call.
func (l *thriftLink) stored(call []byte, n int) (outcomes []error) {
	err := l.ask(call)
	stored := int(l.r.Count)
	for i := range n {
		switch {
		case err != nil && n > 1 && err == errRefused:
			outcomes = append(outcomes, errFull)
		case err != nil:
			outcomes = append(outcomes, err)
		case i < stored:
			outcomes = append(outcomes, nil)
		default:
			outcomes = append(outcomes, errRefused)
		}
	}
	return outcomes
}

func (l *thriftLink) get(queue string, o thrift.GetOptions) (got []handed, err error) {
	if err := l.ask(l.codec.AppendGet(nil, l.next(), []byte(queue), o)); err != nil {
		return nil, err
	}
	for item := range l.r.Items.All() {
		h := handed{data: append([]byte(nil), item.Data...), id: uint64(item.ID)}
		if item.ID != 0 { // of others the server does not say
			h.deliveries = int(item.Deliveries)
		}
		got = append(got, h)
	}
	if len(got) == 0 {
		err = errNone
	}
	return got, err
}

func (l *thriftLink) take(queue string, wait time.Duration, n int) ([]handed, error) {
	return l.get(queue, thrift.GetOptions{MaxItems: int32(n), WaitMillis: millis(wait)})
}

// open is never called: the reliable reads of this client are leases, see leaselink.go.
func (l *thriftLink) open(string, time.Duration) (handed, error) { panic("a Thrift client has leases") }
func (l *thriftLink) confirm(string, any) error                  { panic("a Thrift client has leases") }
func (l *thriftLink) abort(string, any) error                    { panic("a Thrift client has leases") }

func (l *thriftLink) closeOpen(string, any, time.Duration) (handed, error) {
	panic("a Thrift client has leases")
}

func (l *thriftLink) peek(queue string) ([]byte, error) {
	err := l.ask(l.codec.AppendCall(nil, thrift.MethodPeek, l.next(), []byte(queue)))
	if len(l.r.Info.HeadItem) == 0 {
		return nil, err
	}
	return l.r.Info.HeadItem, err
}

func (l *thriftLink) flush(queue string) error {
	return l.ask(l.codec.AppendCall(nil, thrift.MethodFlushQueue, l.next(), []byte(queue)))
}

func (l *thriftLink) delete(queue string) error {
	return l.ask(l.codec.AppendCall(nil, thrift.MethodDeleteQueue, l.next(), []byte(queue)))
}

func (l *thriftLink) expire(string) error { return nil }

func (l *thriftLink) stuff(queue string, n int) {
	for range n {
		l.conn.Write(l.codec.AppendCall(nil, thrift.MethodPeek, l.next(), []byte(queue)))
	}
}

func (l *thriftLink) blindPut(queue string, life time.Duration, items [][]byte) {
	l.conn.Write(l.codec.AppendPut(nil, l.next(), []byte(queue), millis(life), items...))
}

func (l *thriftLink) blindTake(queue string, n int) {
	l.conn.Write(l.codec.AppendGet(nil, l.next(), []byte(queue), thrift.GetOptions{MaxItems: int32(n)}))
}
