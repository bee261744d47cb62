package client

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testSegment is the size of a segment of the servers' journals, which need no 32 MiB, the default.
const testSegment = 1 << 20

// patience bounds every wait of the tests: far longer than what is waited for takes.
const patience = 20 * time.Second

// kestrel is a server in this process. It can be stopped and started again, with its items and at its
// address.
type kestrel struct {
	addr   string
	dir    string
	opens  int // max_open_transactions
	engine *engine.Engine
	server *netloop.Server
}

// start runs the server.
func (k *kestrel) start() error {
	options := engine.DefaultQueueOptions()
	options.Sync = engine.SyncNever
	e, err := engine.Open(engine.Options{
		Dir: k.dir, Settings: engine.Settings{Default: options}, SegmentSize: testSegment,
	})
	if err != nil {
		return err
	}
	s, err := netloop.New(netloop.Options{Engine: e, Memcache: k.addr, Loops: 1, MaxOpenReads: k.opens,
		EventLoop: netloop.DefaultEventLoop, ShutdownGrace: time.Millisecond})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		e.Close()
		return err
	}
	k.engine, k.server, k.addr = e, s, s.MemcacheAddr().String()
	return nil
}

func (k *kestrel) stop() error {
	if k.server == nil {
		return nil
	}
	err := k.server.Shutdown(context.Background())
	if e := k.engine.Close(); err == nil {
		err = e
	}
	k.server = nil
	return err
}

// serve runs a server until the test ends.
func serve(t testing.TB) *kestrel {
	t.Helper()
	k := &kestrel{addr: "127.0.0.1:0", dir: t.TempDir()}
	if err := k.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Errorf("stop the server: %v", err)
		}
	})
	return k
}

// serveExample runs a server for an example, and returns its address and what ends it.
func serveExample() (address string, stop func()) {
	dir, err := os.MkdirTemp("", "kestrel-example-")
	if err != nil {
		panic(err)
	}
	k := &kestrel{addr: "127.0.0.1:0", dir: dir}
	if err := k.start(); err != nil {
		panic(err)
	}
	return "kestrel://" + k.addr, func() {
		k.stop()
		os.RemoveAll(dir)
	}
}

// dialExample runs a server for an example, and returns a client of it and what ends both.
func dialExample() (c *Client, stop func()) {
	address, end := serveExample()
	c, err := Dial(context.Background(), address, Options{})
	if err != nil {
		panic(err)
	}
	return c, func() {
		c.Close()
		end()
	}
}

// dial returns a client that the end of the test closes.
func dial(t testing.TB, opts Options, servers ...string) *Client {
	t.Helper()
	if opts.Source == nil {
		opts.Source = Static(servers...)
	}
	c, err := Dial(within(t), "", opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// within returns a context that ends when a test has lost its patience.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually looks again and again until something is so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// put puts items, one call for each.
func put(t testing.TB, c *Client, queue string, items ...string) {
	t.Helper()
	for _, item := range items {
		if err := c.Put(within(t), queue, []byte(item), PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// rig is a server that a test writes: script gets each connection, the n-th with n from 0 on.
type rig struct {
	addr     string
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
}

// rigged runs a server whose connections script serves until the test ends.
func rigged(t testing.TB, script func(n int, conn net.Conn)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{addr: l.Addr().String(), listener: l}
	r.serving.Go(func() {
		for n := 0; ; n++ {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			r.mu.Lock()
			r.conns = append(r.conns, conn)
			r.mu.Unlock()
			r.serving.Go(func() {
				defer conn.Close()
				script(n, conn)
			})
		}
	})
	t.Cleanup(r.close)
	return r
}

// close ends the server and all its connections.
func (r *rig) close() {
	r.listener.Close()
	r.mu.Lock()
	for _, conn := range r.conns {
		conn.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}

// silent reads what comes and says nothing.
func silent(_ int, conn net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		if _, err := conn.Read(buf); err != nil {
			return
		}
	}
}

// answering returns a script that answers each line of a request with a text.
func answering(text string) func(int, net.Conn) {
	return func(_ int, conn net.Conn) {
		buf := make([]byte, 1<<16)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if _, err := fmt.Fprint(conn, text); err != nil {
				return
			}
		}
	}
}
