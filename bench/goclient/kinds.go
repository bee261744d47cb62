package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/loadtest"
)

// Names of the kinds that are measured.
const (
	generatorPuts  = "generator puts"
	generatorReads = "generator reads"
	bareReads      = "Go, one goroutine per connection, reads"
	clientPuts     = "client puts"
	clientWorks    = "client works"
	clientLeases   = "client works with leases"
	three          = ", 3 servers"
	filled         = "filled again"
)

// kind is something that is measured. Three servers have three times the items, producers and handlers of one.
type kind struct {
	name  string
	do    func(servers []*server) error
	on    int  // servers
	empty bool // the queue is to be empty before
}

func (b *bench) kinds() []kind {
	return []kind{
		{generatorPuts, b.generatorPuts, 1, true}, {generatorReads, b.generatorReads, 1, false},
		{filled, b.generatorPuts, 1, true}, {bareReads, b.bareReads, 1, false},
		{clientPuts, b.clientPuts, 1, true}, {clientWorks, b.clientWorks, 1, false},
		{filled, b.generatorPuts, 1, true}, {clientLeases, b.clientWorksLeased, 1, false},
		{clientPuts + three, b.clientPuts, 3, true}, {clientWorks + three, b.clientWorks, 3, false},
		{filled + three, b.clientPuts, 3, true}, {clientLeases + three, b.clientWorksLeased, 3, false},
	}
}

func (b *bench) generate(addr string, g loadtest.Group) error {
	g.ItemSize, g.Queue, g.Operations = b.size, "work", int64(b.items)
	_, err := loadtest.Run(context.Background(), loadtest.Options{Addr: addr, Groups: []loadtest.Group{g}})
	return err
}

func (b *bench) generatorPuts(servers []*server) error {
	return b.generate(servers[0].addr, loadtest.Group{Operation: loadtest.Set, Connections: 1, Pipeline: b.batch})
}

// generatorReads opens and confirms, as the worker does: one request ends an item and asks for the next.
func (b *bench) generatorReads(servers []*server) error {
	return b.generate(servers[0].addr, loadtest.Group{Operation: loadtest.CloseOpen, Connections: b.handlers, Hits: true})
}

// bareReads does the same with what Go has: on each connection a goroutine that writes, and reads what comes. No client
// that gives each open item a connection can cost less.
func (b *bench) bareReads(servers []*server) error {
	const request = "get work/close/open\r\n"
	var left atomic.Int64
	left.Store(int64(b.items))
	failed := make([]error, b.handlers)
	var reading sync.WaitGroup
	for i := range failed {
		reading.Go(func() {
			failed[i] = b.bareReader(servers[0].addr, []byte(request), &left)
		})
	}
	reading.Wait()
	return errors.Join(failed...)
}

// bareReader reads until nothing is left, on a connection of its own.
func (b *bench) bareReader(addr string, request []byte, left *atomic.Int64) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	const end = "END\r\n"
	buf := make([]byte, b.size+256)
	for {
		last := left.Add(-1) < 0
		if last {
			request = []byte("get work/close\r\n") // of the item before
		}
		if _, err := conn.Write(request); err != nil {
			return err
		}
		n := 0
		for !bytes.HasSuffix(buf[:n], []byte(end)) {
			got, err := conn.Read(buf[n:])
			if err != nil {
				return err
			}
			n += got
		}
		switch {
		case last:
			return nil
		case n == len(end):
			return errors.New("the queue is empty too early")
		}
	}
}

func (b *bench) dial(servers []*server) (*client.Client, error) {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.addr)
	}
	return client.Dial(context.Background(), "", client.Options{Source: client.Static(addrs...)})
}

// flush empties the queue on all servers.
func (b *bench) flush() error {
	c, err := b.dial(b.servers)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Flush(context.Background(), "work")
}

// producers is how many goroutines put at the same time, for each server. While the replies of one batch are on their
// way, another goroutine makes the next.
const producers = 4

func (b *bench) clientPuts(servers []*server) error {
	c, err := b.dial(servers)
	if err != nil {
		return err
	}
	defer c.Close()
	items := make([][]byte, b.batch)
	for i := range items {
		items[i] = make([]byte, b.size)
	}
	var left atomic.Int64
	left.Store(int64(b.items * len(servers)))
	failed := make([]error, producers*len(servers))
	var putting sync.WaitGroup
	for p := range failed {
		putting.Go(func() {
			for failed[p] == nil {
				n := min(left.Add(-int64(b.batch))+int64(b.batch), int64(b.batch))
				if n <= 0 {
					return
				}
				failed[p] = c.PutAll(context.Background(), "work", items[:n], client.PutOptions{})
			}
		})
	}
	putting.Wait()
	return errors.Join(failed...)
}

func (b *bench) clientWorks(servers []*server) error { return b.work(servers, 0) }

func (b *bench) clientWorksLeased(servers []*server) error { return b.work(servers, 30*time.Second) }

// work has a worker confirm each item.
func (b *bench) work(servers []*server, lease time.Duration) error {
	c, err := b.dial(servers)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, done := context.WithCancel(context.Background())
	defer done()
	var left atomic.Int64
	left.Store(int64(b.items * len(servers)))
	handlers := b.handlers * len(servers)
	w := &client.Worker{Client: c, Queue: "work", Lease: lease, Handlers: handlers, Handle: func(context.Context, *client.Delivery) error {
		if left.Add(-1) == 0 {
			done()
		}
		return nil
	}}
	return w.Run(ctx)
}
