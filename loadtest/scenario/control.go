package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/loadtest"
)

const (
	controlWait = 10 * time.Second // for one reply
	dialWait    = 10 * time.Second // default of Env.DialWait, with attempts every dialPause
	dialPause   = 50 * time.Millisecond
)

// control is a connection beside the load, for what is asked rarely. It is used by one goroutine.
type control struct {
	conn   net.Conn
	stop   func() bool // keeps the end of a context from closing conn
	thrift bool
	in     []byte // bytes that have arrived and are not taken
	out    []byte
}

// dial connects. If the server refuses, it may not be there yet: then dial says so, and tries again for a while. The end
// of ctx closes the connection, so no reply is waited for then.
func (e *Env) dial(ctx context.Context, addr string, protocol loadtest.Protocol) (*control, error) {
	var d net.Dialer
	most, told := cmp.Or(e.DialWait, dialWait), false
	for deadline := time.Now().Add(most); ; {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			return &control{conn: conn, stop: stop, thrift: protocol == loadtest.Thrift}, nil
		}
		refused := errors.Is(err, syscall.ECONNREFUSED)
		var late net.Error // as when ctx is about to end: the dialer knows its deadline too
		if !refused && !(errors.As(err, &late) && late.Timeout()) || ctx.Err() != nil {
			return nil, err
		}
		if refused && !told && e.Waits != nil {
			e.Waits(err, most)
			told = true
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, err // why it still tried
		case <-time.After(dialPause):
		}
	}
}

func (c *control) close() {
	c.stop()
	c.conn.Close()
}

// send sends c.out.
func (c *control) send() error {
	if err := c.conn.SetDeadline(time.Now().Add(controlWait)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	return err
}

// receive calls decode on what has arrived until it takes something. Decode returns how many bytes
// it took, or an error; errMore asks for more bytes.
func (c *control) receive(decode func(src []byte) (n int, err error)) error {
	for {
		n, err := decode(c.in)
		if !errors.Is(err, errMore) {
			c.in = c.in[:copy(c.in, c.in[n:])]
			return err
		}
		c.in = slices.Grow(c.in, 4096)
		got, err := c.conn.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+got]
		if err != nil {
			return err
		}
	}
}

var errMore = errors.New("more bytes are needed")

// line receives one reply of the memcache protocol and passes it to take. Its slices are valid
// until take returns.
func (c *control) line(take func(r *memcache.Reply) error) error {
	return c.receive(func(src []byte) (int, error) {
		var r memcache.Reply
		n, err := memcache.DecodeReply(src, &r)
		switch {
		case errors.Is(err, memcache.ErrIncomplete):
			return 0, errMore
		case err != nil:
			return 0, err
		}
		return n, take(&r)
	})
}

// answer is what a call of Thrift returned.
type answer struct {
	version string
	items   int64
}

// call makes a call of Thrift.
func (c *control) call(method thrift.Method, queue string) (got answer, err error) {
	c.out = thrift.Client{}.AppendCall(c.out[:0], method, 1, []byte(queue))
	if err := c.send(); err != nil {
		return answer{}, err
	}
	err = c.receive(func(src []byte) (int, error) {
		var r thrift.Reply
		n, err := thrift.Client{}.DecodeReply(src, &r)
		switch {
		case errors.Is(err, thrift.ErrIncomplete):
			return 0, errMore
		case err != nil:
			return 0, err
		case r.Failed:
			return n, fmt.Errorf("the server answered: %s", r.Message)
		}
		got = answer{version: string(r.Version), items: r.Info.Items}
		return n, nil
	})
	return got, err
}

// version returns what the server says it is.
func (c *control) version() (text string, err error) {
	if c.thrift {
		r, err := c.call(thrift.MethodGetVersion, "")
		return r.version, err
	}
	c.out = memcache.AppendCommand(c.out[:0], memcache.OpVersion, nil)
	if err := c.send(); err != nil {
		return "", err
	}
	err = c.line(func(r *memcache.Reply) error {
		text = string(r.Text)
		if r.Kind != memcache.KindVersion {
			return fmt.Errorf("the server answered %v %q", r.Kind, r.Text)
		}
		return nil
	})
	return text, err
}

// flush empties a queue.
func (c *control) flush(queue string) error {
	if c.thrift {
		_, err := c.call(thrift.MethodFlushQueue, queue)
		return err
	}
	c.out = memcache.AppendCommand(c.out[:0], memcache.OpFlush, []byte(queue))
	if err := c.send(); err != nil {
		return err
	}
	return c.expectEnd()
}

// depth returns how many items a queue holds: 0 if the server does not say.
func (c *control) depth(queue string) (items int64, err error) {
	if c.thrift {
		r, err := c.call(thrift.MethodPeek, queue)
		return r.items, err
	}
	all, err := c.stats([]string{queue})
	return all[queue]["items"], err
}

// touch has the server create a queue, by looking for an item in it. That must be empty.
func (c *control) touch(queue string) error {
	if c.thrift {
		_, err := c.call(thrift.MethodPeek, queue)
		return err
	}
	c.out = memcache.AppendGet(c.out[:0], []byte(queue), memcache.GetOptions{Peek: true})
	if err := c.send(); err != nil {
		return err
	}
	return c.line(func(*memcache.Reply) error { return nil })
}

func (c *control) expectEnd() error {
	return c.line(func(r *memcache.Reply) error {
		if r.Kind != memcache.KindEnd {
			return fmt.Errorf("the server answered %v %q", r.Kind, r.Text)
		}
		return nil
	})
}

// queueStats are statistics of a queue, by Kestrel's names; what the server does not tell is not
// there.
type queueStats map[string]int64

// stats returns the statistics of some queues, or nil if the server has none to ask for.
func (c *control) stats(queues []string) (map[string]queueStats, error) {
	if c.thrift {
		return nil, nil
	}
	c.out = memcache.AppendCommand(c.out[:0], memcache.OpStats, nil)
	if err := c.send(); err != nil {
		return nil, err
	}
	all := make(map[string]queueStats)
	for more := true; more; {
		if err := c.line(func(r *memcache.Reply) error {
			switch r.Kind {
			case memcache.KindStat:
				addStat(all, queues, r.Text)
			case memcache.KindEnd:
				more = false
			default:
				return fmt.Errorf("the server answered %v %q", r.Kind, r.Text)
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addStat adds a line "queue_NAME_STAT VALUE" if it is about one of the queues.
func addStat(all map[string]queueStats, queues []string, line []byte) {
	key, value, _ := bytes.Cut(line, []byte(" "))
	n, err := strconv.ParseInt(string(value), 10, 64)
	rest, ok := bytes.CutPrefix(key, []byte("queue_"))
	if err != nil || !ok {
		return
	}
	for _, queue := range queues {
		stat, ok := bytes.CutPrefix(rest, []byte(queue+"_"))
		if !ok || !slices.Contains(queueStatNames(), string(stat)) {
			continue
		}
		if all[queue] == nil {
			all[queue] = make(queueStats)
		}
		all[queue][string(stat)] = n
		return
	}
}

// queueStatNames are the statistics that are of use here.
func queueStatNames() []string {
	return []string{"items", "bytes", "total_items", "logsize", "mem_items", "mem_bytes"}
}
