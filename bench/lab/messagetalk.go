package main

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// leaseEnd is what a client does with a lease.
type leaseEnd uint8

const (
	leaseConfirm leaseEnd = iota + 1
	leaseAbort
	leaseRelease
	leaseReject
	leaseTouch
)

func (e leaseEnd) String() string {
	return [...]string{"", "confirm", "abort", "release", "reject", "touch"}[e]
}

var (
	// errNotHeld is the answer to a receipt that holds nothing.
	errNotHeld = errors.New("not held")
	// errNothing is the answer to a fetch that finds no item.
	errNothing = errors.New("no item")
)

// refusedError is an answer that refuses a request.
type refusedError string

func (e refusedError) Error() string { return "refused: " + string(e) }

// messageTalk is a connection that speaks of leases and delays, one request at a time.
type messageTalk interface {
	// put appends an item that is hidden for so long.
	put(queue string, data []byte, delay time.Duration) error
	// lease fetches an item, and leases it for so long.
	lease(queue string, hold time.Duration) (data []byte, receipt uint64, err error)
	// take fetches an item for good.
	take(queue string) (data []byte, err error)
	// end ends a lease, or has it last for d from now on. The item is hidden for d, unless that is 0.
	end(queue string, receipt uint64, how leaseEnd, d time.Duration) error
}

// talk makes a messageTalk of a connection.
func (c *client) talk(protocol string) messageTalk {
	if protocol == "thrift" {
		return thriftTalk{c}
	}
	return memcacheTalk{c}
}

// exchange sends a request and waits for its reply, which decode takes from the start of src. That returns 0 if the
// reply is not complete.
func (c *client) exchange(out []byte, decode func(src []byte) (int, error)) error {
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write(out); err != nil {
		return err
	}
	for {
		if len(c.in) > 0 {
			n, err := decode(c.in)
			if c.in = c.in[n:]; err != nil || n > 0 {
				return err
			}
		}
		if err := c.fill(); err != nil {
			return err
		}
	}
}

type memcacheTalk struct{ c *client }

func (m memcacheTalk) ask(out []byte) (reply memcache.Reply, err error) {
	err = m.c.exchange(out, func(src []byte) (n int, err error) {
		if n, err = memcache.DecodeReply(src, &reply); errors.Is(err, memcache.ErrIncomplete) {
			return 0, nil
		}
		return n, err
	})
	if err != nil {
		return reply, err
	}
	switch reply.Kind {
	case memcache.KindClientError:
		if bytes.Contains(reply.Text, []byte("not held")) {
			return reply, errNotHeld
		}
		err = refusedError(fmt.Sprintf("CLIENT_ERROR %s", reply.Text))
	case memcache.KindNotFound:
		err = errNotHeld
	case memcache.KindError, memcache.KindServerError, memcache.KindNotStored:
		err = refusedError(fmt.Sprintf("%v %s", reply.Kind, reply.Text))
	}
	return reply, err
}

func (m memcacheTalk) put(queue string, data []byte, delay time.Duration) error {
	_, err := m.ask(memcache.AppendSetDelayed(nil, []byte(queue), delay.Milliseconds(), 0, 0, data))
	return err
}

func (m memcacheTalk) get(queue string, o memcache.GetOptions) (reply memcache.Reply, err error) {
	if reply, err = m.ask(memcache.AppendGet(nil, []byte(queue), o)); err == nil && reply.Kind == memcache.KindEnd {
		err = errNothing
	}
	return reply, err
}

func (m memcacheTalk) lease(queue string, hold time.Duration) ([]byte, uint64, error) {
	reply, err := m.get(queue, memcache.GetOptions{Lease: true, LeaseMillis: hold.Milliseconds(), CAS: true})
	return bytes.Clone(reply.Data), reply.CAS, err
}

func (m memcacheTalk) take(queue string) ([]byte, error) {
	reply, err := m.get(queue, memcache.GetOptions{})
	return bytes.Clone(reply.Data), err
}

func (m memcacheTalk) end(queue string, receipt uint64, how leaseEnd, d time.Duration) error {
	var out []byte
	switch how {
	case leaseConfirm:
		out = memcache.AppendGet(nil, []byte(queue), memcache.GetOptions{Close: true, Receipt: receipt})
	case leaseTouch:
		out = memcache.AppendTouch(nil, []byte(queue), receipt, int32(d/time.Second))
	default:
		out = memcache.AppendGet(nil, []byte(queue), memcache.GetOptions{
			Abort: how == leaseAbort, Release: how == leaseRelease, Reject: how == leaseReject, Receipt: receipt,
			Delay: d > 0, DelayMillis: d.Milliseconds(),
		})
	}
	_, err := m.ask(out)
	return err
}

// thriftTalk leases by Thrift's reliable reads, which outlive their connection and a restart.
type thriftTalk struct{ c *client }

func (h thriftTalk) ask(out []byte) (reply thrift.Reply, err error) {
	err = h.c.exchange(out, func(src []byte) (n int, err error) {
		if n, err = (thrift.Client{}).DecodeReply(src, &reply); errors.Is(err, thrift.ErrIncomplete) {
			return 0, nil
		}
		return n, err
	})
	if err == nil && reply.Failed {
		if err = refusedError(reply.Message); bytes.Contains(reply.Message, []byte("not held")) {
			err = errNotHeld
		}
	}
	return reply, err
}

func (h thriftTalk) put(queue string, data []byte, delay time.Duration) error {
	var c thrift.Client
	out := c.AppendPut(nil, 1, []byte(queue), 0, data)
	if delay > 0 {
		var req thrift.Request
		if _, err := (thrift.Decoder{}).Decode(out, &req); err != nil {
			return err
		}
		req.DelayMillis = delay.Milliseconds()
		out = c.AppendRequest(nil, &req)
	}
	reply, err := h.ask(out)
	if err == nil && reply.Count != 1 {
		err = refusedError(fmt.Sprintf("%d items were stored", reply.Count))
	}
	return err
}

func (h thriftTalk) get(queue string, o thrift.GetOptions) (data []byte, id int64, err error) {
	o.MaxItems = 1
	reply, err := h.ask(thrift.Client{}.AppendGet(nil, 1, []byte(queue), o))
	if err != nil {
		return nil, 0, err
	}
	for it := range reply.Items.All() {
		return bytes.Clone(it.Data), it.ID, nil
	}
	return nil, 0, errNothing
}

func (h thriftTalk) lease(queue string, hold time.Duration) ([]byte, uint64, error) {
	data, id, err := h.get(queue, thrift.GetOptions{AutoAbortMillis: int32(hold.Milliseconds())})
	return data, uint64(id), err
}

func (h thriftTalk) take(queue string) ([]byte, error) {
	data, _, err := h.get(queue, thrift.GetOptions{})
	return data, err
}

func (h thriftTalk) end(queue string, receipt uint64, how leaseEnd, d time.Duration) error {
	var c thrift.Client
	name, id, delay := []byte(queue), int64(receipt), d.Milliseconds()
	var out []byte
	switch {
	case how == leaseConfirm:
		out = c.AppendConfirm(nil, 1, name, id)
	case how == leaseTouch:
		out = c.AppendTouch(nil, 1, name, id, int32(delay))
	case how == leaseReject:
		out = c.AppendReturn(nil, thrift.MethodReject, 1, name, 0, id)
	case how == leaseRelease:
		out = c.AppendReturn(nil, thrift.MethodRelease, 1, name, delay, id)
	case d == 0:
		out = c.AppendAbort(nil, 1, name, id)
	default:
		out = c.AppendReturn(nil, thrift.MethodAbort, 1, name, delay, id)
	}
	reply, err := h.ask(out)
	if err == nil && reply.Count == 0 && reply.Due == 0 {
		err = errNotHeld
	}
	return err
}
