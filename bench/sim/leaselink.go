package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// one is an engine.Receiver of one item.
type one struct{ data []byte }

func (r *one) Receive(it engine.Item) bool {
	r.data = append([]byte(nil), it.Data...)
	return true
}

func (l *engineLink) putDelayed(queue string, d time.Duration, items [][]byte) (outcomes []error) {
	for _, data := range items {
		t, err := l.e.Put(engine.Now(), []byte(queue), engine.PutRequest{Data: data, Extra: &engine.PutExtra{Delay: d}})
		if err == nil {
			err = l.e.Commit(t)
		}
		outcomes = append(outcomes, outcome(err))
	}
	return outcomes
}

// wakes is an engine.Notifier.
type wakes chan struct{}

func (c wakes) WaitEnded(*engine.Waiter) { c <- struct{}{} }

func (l *engineLink) lease(queue string, d, wait time.Duration) (handed, error) {
	var got one
	var delivery engine.Delivery
	woken := make(wakes, 1)
	w := &engine.Waiter{Notify: woken}
	f := engine.FetchRequest{Access: engine.Lease, Lease: d, Delivery: &delivery, Waiter: w, Immediate: wait == 0}
	res, err := l.e.Fetch(engine.Now(), []byte(queue), f, &got)
	t := res.Ticket
	if err != nil {
		if !res.Waiting {
			return handed{}, outcome(err)
		}
		if !wokenIn(wait, woken, func() bool { return l.e.CancelWait(w) }) {
			return handed{}, errNone
		}
		if w.Read.IsZero() {
			return handed{}, outcome(w.Err)
		}
		var ok bool
		if t, ok = l.e.Collect(engine.Now(), w.Read, f, &got); !ok {
			return handed{}, errUnsure
		}
	}
	if err := l.e.Commit(t); err != nil {
		return handed{}, outcome(err)
	}
	return handed{data: got.data, id: delivery.Receipt, deliveries: delivery.Deliveries}, nil
}

// wokenIn waits for a fetch that has begun to wait, and reports false if it has canceled it after a while instead. A fetch
// that does not wait for items waits for the disk alone, which has no limit.
func wokenIn(wait time.Duration, woken <-chan struct{}, cancel func() bool) bool {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	expired := limit.C
	if wait == 0 {
		expired = nil
	}
	select {
	case <-expired:
		if cancel() {
			return false
		}
		<-woken
	case <-woken:
	}
	return true
}

// returning is how the engine's word for an ending.
func returning(how ending, d time.Duration) engine.Return {
	r := engine.Return{How: engine.Abort, Delay: d, Delayed: d > 0}
	switch how {
	case endRelease:
		r.How = engine.Release
	case endReject:
		r.How = engine.Reject
	}
	return r
}

func (l *engineLink) endLease(queue string, receipt uint64, how ending, d time.Duration) (err error) {
	var t engine.Ticket
	name := []byte(queue)
	switch how {
	case endConfirm:
		t, err = l.e.ConfirmLease(engine.Now(), name, receipt)
	case endExtend:
		_, t, err = l.e.ExtendLease(engine.Now(), name, receipt, d)
	default:
		t, err = l.e.ReturnLease(engine.Now(), name, receipt, returning(how, d))
	}
	if err == nil {
		err = l.e.Commit(t)
	}
	if err == engine.ErrNotHeld {
		return errNone
	}
	return outcome(err)
}

func (l *engineLink) monitor(queue string, wait time.Duration, n int) (got []handed, err error) {
	for range n {
		h, err := l.open(queue, wait)
		if err != nil {
			return got, err
		}
		got = append(got, h)
	}
	return got, nil
}

func (l *memcacheLink) putDelayed(queue string, d time.Duration, items [][]byte) []error {
	var request []byte
	for _, data := range items {
		request = memcache.AppendSetDelayed(request, []byte(queue), d.Milliseconds(), 0, 0, data)
	}
	l.conn.Write(request)
	return l.stored(len(items))
}

func (l *memcacheLink) lease(queue string, d, wait time.Duration) (handed, error) {
	h, err := l.get(queue, memcache.GetOptions{Lease: true, LeaseMillis: d.Milliseconds(), CAS: true, WaitMillis: millis(wait)})
	h.id = l.r.CAS
	return h, err
}

func (l *memcacheLink) endLease(queue string, receipt uint64, how ending, d time.Duration) error {
	var request []byte
	switch how {
	case endConfirm:
		request = fmt.Appendf(nil, "delete %s/lease=%d\r\n", queue, receipt)
	case endExtend:
		request = memcache.AppendTouch(nil, []byte(queue), receipt, int32(d/time.Second))
	default:
		request = memcache.AppendGet(nil, []byte(queue), memcache.GetOptions{
			Abort: how == endAbort, Release: how == endRelease, Reject: how == endReject, Receipt: receipt,
			Delay: d > 0, DelayMillis: d.Milliseconds(),
		})
	}
	err := l.ask(request)
	switch {
	case err != nil:
		return err
	case l.r.Kind == memcache.KindTouched, l.r.Kind == memcache.KindDeleted, l.r.Kind == memcache.KindEnd:
		return nil
	case l.r.Kind == memcache.KindNotFound, l.r.Kind == memcache.KindClientError && bytes.Contains(l.r.Text, []byte("not held")):
		return errNone
	case l.r.Kind == memcache.KindClientError:
		return errRefused
	}
	return l.outcome(nil)
}

func (l *memcacheLink) monitor(queue string, wait time.Duration, n int) (got []handed, err error) {
	seconds := int32((wait + time.Second - 1) / time.Second)
	l.conn.Write(memcache.AppendMonitor(nil, []byte(queue), seconds, int32(n)))
	for {
		if err := l.outcome(l.next()); err == errNone {
			return got, nil
		} else if err != nil {
			return got, err
		}
		got = append(got, handed{data: append([]byte(nil), l.r.Data...)})
	}
}

func (l *textLink) putDelayed(queue string, d time.Duration, items [][]byte) []error {
	request := text.AppendRequest(nil, &text.Request{
		Op: text.OpPut, Queue: []byte(queue), HasDelay: true, DelayMillis: d.Milliseconds(), ItemsFollow: true,
	})
	for _, data := range items {
		request = text.AppendPutItem(request, data)
	}
	return l.stored(append(request, text.PutEnd...), len(items))
}

func (l *textLink) lease(queue string, d, wait time.Duration) (handed, error) {
	err := l.ask(text.AppendRequest(nil, &text.Request{
		Op: text.OpGet, Queue: []byte(queue), WaitMillis: millis(wait), HasLease: true, LeaseMillis: d.Milliseconds(),
	}))
	if err != nil {
		return handed{}, err
	}
	var receipt uint64
	fmt.Sscan(string(l.r.Data), &receipt)
	err = l.answer()
	return handed{data: append([]byte(nil), l.r.Data...), id: receipt}, err
}

func (l *textLink) endLease(queue string, receipt uint64, how ending, d time.Duration) error {
	r := &text.Request{Queue: []byte(queue), Receipt: receipt}
	switch how {
	case endConfirm:
		r.Op = text.OpConfirm
	case endExtend:
		r.Op, r.LeaseMillis = text.OpTouch, d.Milliseconds()
	case endReject:
		r.Op = text.OpReject
	default:
		r.Op, r.HasDelay, r.DelayMillis = text.OpAbort, d > 0, d.Milliseconds()
		if how == endRelease {
			r.Op = text.OpRelease
		}
	}
	err := l.ask(text.AppendRequest(nil, r))
	if err == errRefused && strings.Contains(string(l.r.Data), "not held") {
		return errNone
	}
	return err
}

func (l *textLink) monitor(queue string, wait time.Duration, _ int) (got []handed, err error) {
	err = l.ask(text.AppendMonitor(nil, []byte(queue), millis(wait)))
	for ; err == nil; err = l.answer() {
		got = append(got, handed{data: append([]byte(nil), l.r.Data...)})
	}
	if err == errNone {
		err = nil
	}
	return got, err
}

func (l *thriftLink) putDelayed(queue string, d time.Duration, items [][]byte) []error {
	call := l.codec.AppendPut(nil, l.next(), []byte(queue), 0, items...)
	req := thrift.Request{}
	if _, err := (thrift.Decoder{}).Decode(call, &req); err != nil {
		panic(err)
	}
	req.DelayMillis = d.Milliseconds()
	return l.stored(l.codec.AppendRequest(nil, &req), len(items))
}

func (l *thriftLink) lease(queue string, d, wait time.Duration) (handed, error) {
	got, err := l.get(queue, thrift.GetOptions{MaxItems: 1, WaitMillis: millis(wait), AutoAbortMillis: millis(d)})
	if err != nil {
		return handed{}, err
	}
	return got[0], nil
}

func (l *thriftLink) endLease(queue string, receipt uint64, how ending, d time.Duration) error {
	name, id, delay := []byte(queue), int64(receipt), d.Milliseconds()
	var call []byte
	switch how {
	case endConfirm:
		call = l.codec.AppendConfirm(nil, l.next(), name, id)
	case endExtend:
		call = l.codec.AppendTouch(nil, l.next(), name, id, millis(d))
	case endRelease:
		call = l.codec.AppendReturn(nil, thrift.MethodRelease, l.next(), name, delay, id)
	case endReject:
		call = l.codec.AppendReturn(nil, thrift.MethodReject, l.next(), name, 0, id)
	default:
		if d == 0 {
			call = l.codec.AppendAbort(nil, l.next(), name, id)
			break
		}
		call = l.codec.AppendReturn(nil, thrift.MethodAbort, l.next(), name, delay, id)
	}
	err := l.ask(call)
	if err == errRefused && strings.Contains(string(l.r.Message), "not held") || err == nil && l.r.Count == 0 && l.r.Due == 0 {
		return errNone
	}
	return err
}
