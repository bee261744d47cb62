package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"sync/atomic"
)

// orderTrial puts items to a server under strace, over several connections. It reads in the trace
// when each STORED left. An fdatasync of the same file must have begun after the item was written,
// and ended without an error before that. The tracer stops a thread at the beginning and the end of
// each call, so what comes later in the trace came later.
func orderTrial(ctx context.Context, t *trial) error {
	if err := haveStrace(); err != nil {
		t.skip("%v", err)
		return nil
	}
	if _, err := traceOrder(ctx, t, t.cycles, ""); err != nil {
		return err
	}
	// Once more, with syncs that fail while some of the puts wait for them.
	refused, err := traceOrder(ctx, t, max(t.cycles/4, 3200), "fdatasync:error=EIO:when=10")
	if err == nil && refused == 0 {
		t.violate("no put was refused although syncs failed")
	}
	return err
}

const (
	orderConns = 16
	orderAhead = 4 // puts that a connection sends ahead
)

// traceOrder makes and reads one trace, of puts items, with a fault for strace to inject; "" for
// none. It returns how many puts the server refused.
func traceOrder(ctx context.Context, t *trial, puts int, inject string) (refused int64, err error) {
	dir, err := os.MkdirTemp(t.dir, "order-")
	if err != nil {
		return 0, err
	}
	file := filepath.Join(dir, "trace")
	var more []string
	if inject != "" {
		more = []string{"-e", "inject=" + inject}
	}
	how := launch{
		binary: t.binary, dir: dir, args: []string{"--sync-journal", "always"},
		prefix: straceArgs(file, "pwrite64,pwritev,fdatasync,sendto,write,writev", more...),
	}
	s, err := how.start(ctx)
	if err != nil {
		return 0, err
	}
	defer s.kill()
	o := &order{t: t, items: make(map[string]*orderItem), sockets: make(map[string]*orderConn)}
	var clients sync.WaitGroup
	share := puts / orderConns
	for i := range orderConns {
		c, err := dial(s, "memcache")
		if err != nil {
			return 0, err
		}
		defer c.conn.Close()
		oc := &orderConn{name: fmt.Sprintf("o-%02d", i)}
		o.sockets[socketName(c.conn)] = oc
		clients.Go(func() {
			o.put(c, oc, share)
			// Once this is answered the trace has the end of the call before.
			c.ask(request{op: opPeek, queue: "behind"}, nil)
		})
	}
	clients.Wait()
	s.kill()
	return o.refused.Load(), o.judge(file)
}

// order is what is known of the puts while a trace is read.
type order struct {
	t       *trial
	items   map[string]*orderItem // by the text in the body
	sockets map[string]*orderConn // by the socket, as the trace names it
	acked   atomic.Int64
	refused atomic.Int64

	begun   map[string]pending      // by thread: the call that it is in
	leaving map[string]replies      // by thread: what its call sends
	written map[string][]*orderItem // by file
	stored  int64
	unended int64 // replies whose call did not end, or was begun anew: they may have left
}

// pending is a write or a sync that has begun, and the items in it.
type pending struct {
	file  string
	items []*orderItem
}

type orderItem struct{ synced bool }

// orderConn is one connection, and what was put on it.
type orderConn struct {
	name    string
	put     []string // texts of the items, in order
	replied int      // of these, when the trace is read
}

// socketName is how strace words the server's side of a connection.
func socketName(conn net.Conn) string {
	return fmt.Sprintf("%v->%v", conn.RemoteAddr(), conn.LocalAddr())
}

// put puts n items, a few ahead of the replies, as long as the server takes them.
func (o *order) put(c *client, oc *orderConn, n int) {
	body := func(item int) []byte { return []byte(oc.put[item]) }
	for len(oc.put) < n {
		var batch []request
		for range min(orderAhead, n-len(oc.put)) {
			batch = append(batch, request{op: opPut, queue: "order", items: []int{len(oc.put)}})
			oc.put = append(oc.put, fmt.Sprintf("%s-%06d-", oc.name, len(oc.put)))
		}
		if c.send(batch, body) != nil {
			return
		}
		for _, r := range batch {
			a, err := c.receive(r)
			if err != nil {
				return
			}
			if a.refusal != "" {
				o.refused.Add(1)
				o.t.counts.refusals.Add(1)
				return
			}
			o.acked.Add(1)
			o.t.counts.puts.Add(1)
		}
	}
}

// judge reads the trace.
func (o *order) judge(file string) error {
	for _, oc := range o.sockets {
		for _, text := range oc.put {
			o.items[text] = &orderItem{}
		}
	}
	o.begun = make(map[string]pending)
	o.leaving = make(map[string]replies)
	o.written = make(map[string][]*orderItem)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := readTrace(f, o.visit); err != nil {
		return err
	}
	for _, r := range o.leaving {
		o.unended += int64(r.n)
	}
	if got, want := o.stored+o.unended, o.acked.Load(); got < want {
		return fmt.Errorf("the trace has %d replies, clients got %d", got, want)
	}
	o.t.counts.trials.Add(o.stored)
	return nil
}

var (
	orderText   = regexp.MustCompile(`o-\d\d-\d{6}-`)
	callFile    = regexp.MustCompile(`^\d+<([^>]*)>`)
	callSocket  = regexp.MustCompile(`^\d+<TCP:\[(.*?)\]>`)
	storedReply = regexp.MustCompile(`STORED\\r\\n`)
)

// visit follows items from the write that has them, over the sync of that file, to the reply.
func (o *order) visit(c call) {
	switch c.name {
	case "pwrite64", "pwritev":
		if c.begins {
			o.begun[c.pid] = pending{fileOf(c), o.itemsIn(c.args)}
		}
		if w := o.begun[c.pid]; c.ends && c.result > 0 {
			o.written[w.file] = append(o.written[w.file], w.items...)
		}
	case "fdatasync":
		if c.begins { // it covers what has been written by now
			file := fileOf(c)
			o.begun[c.pid] = pending{file, o.written[file]}
		}
		if c.ends && c.result == 0 {
			for _, it := range o.begun[c.pid].items {
				it.synced = true
			}
		}
	case "sendto", "write", "writev":
		m := callSocket.FindStringSubmatch(c.args)
		if c.begins && m != nil && o.sockets[m[1]] != nil {
			n := len(storedReply.FindAllString(c.args, -1))
			o.leaving[c.pid] = replies{o.sockets[m[1]], n}
			o.reply(o.sockets[m[1]], n)
		}
		if r := o.leaving[c.pid]; c.ends && r.conn != nil {
			delete(o.leaving, c.pid)
			if c.result > 0 { // else a signal came first, and the call is begun anew, or the server ended
				r.conn.replied += r.n
				o.stored += int64(r.n)
			} else {
				o.unended += int64(r.n)
			}
		}
	}
}

// replies are so many that a call which is under way sends on a connection.
type replies struct {
	conn *orderConn
	n    int
}

// reply checks that the next n items put on a connection are synced: the reply that says so begins
// to leave.
func (o *order) reply(oc *orderConn, n int) {
	for i := range n {
		if oc.replied+i >= len(oc.put) {
			o.t.violate("%s got more replies than it put items", oc.name)
			return
		}
		if text := oc.put[oc.replied+i]; !o.items[text].synced {
			o.t.violate("STORED for %s left before a sync that covers it", text)
		}
	}
}

func (o *order) itemsIn(args string) (items []*orderItem) {
	for _, text := range orderText.FindAllString(args, -1) {
		if it := o.items[text]; it != nil {
			items = append(items, it)
		}
	}
	return items
}

// fileOf returns the name of the file that a call is about: its first argument.
func fileOf(c call) string {
	if m := callFile.FindStringSubmatch(c.args); m != nil {
		return m[1]
	}
	return ""
}
