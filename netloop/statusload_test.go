package netloop

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// worker is a client of a server whose status changes. It puts, or takes, items of one queue. It owns
// its fields.
type worker struct {
	t        *testing.T
	protocol string
	addr     net.Addr
	conn     net.Conn // nil when it has been refused
	in       *bufio.Reader
}

func (w *worker) dial() {
	conn, err := net.Dial("tcp", w.addr.String())
	if err != nil {
		panic(err)
	}
	conn.SetDeadline(time.Now().Add(testDeadline))
	w.conn, w.in = conn, bufio.NewReader(conn)
}

// ask sends a request and returns the reply. Of memcache or text that is a line, with the item behind it if it has
// one, and of Thrift a frame.
func (w *worker) ask(request string) string {
	if w.conn == nil {
		w.dial()
	}
	io.WriteString(w.conn, request)
	if w.protocol == "thrift" {
		size := make([]byte, 4)
		if _, err := io.ReadFull(w.in, size); err != nil {
			w.t.Errorf("thrift: no reply: %v", err)
		}
		frame := make([]byte, binary.BigEndian.Uint32(size))
		io.ReadFull(w.in, frame)
		return string(size) + string(frame)
	}
	line, err := w.in.ReadString('\n')
	if err != nil {
		w.t.Errorf("%s: %q is answered %q, %v", w.protocol, request, line, err)
	}
	for n := 0; strings.HasPrefix(line, "VALUE ") && n < 2; n++ {
		more, _ := w.in.ReadString('\n')
		line += more
	}
	if line == "SERVER_ERROR\r\n" { // and the connection is closed
		if rest, _ := io.ReadAll(w.in); len(rest) > 0 {
			w.t.Errorf("%q behind a refusal", rest)
		}
		w.conn.Close()
		w.conn = nil
	}
	return line
}

// call is ask for a call of Thrift. It returns why it was refused, or "".
func (w *worker) call(frame []byte) (r thrift.Reply, refused string) {
	out := w.ask(string(frame))
	if _, err := (thrift.Client{}).DecodeReply([]byte(out), &r); err != nil {
		w.t.Errorf("thrift: %x: %v", out, err)
	}
	return r, string(r.Message)
}

// put reports whether the item was stored. Any other answer than the documented ones is an error.
func (w *worker) put(item string) (stored bool) {
	refusal, got, done := "", "", ""
	switch w.protocol {
	case "memcache":
		refusal, done = "SERVER_ERROR\r\n", "STORED\r\n"
		got = w.ask(fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", len(item), item))
	case "text":
		refusal, done = "-Server not available for operation setItem\n", "+1\n"
		got = w.ask("put q:\n" + item + "\n\n")
	default:
		refusal = "Internal error processing put: 'Server not available for operation setItem'"
		r, why := w.call(thrift.Client{}.AppendPut(nil, 1, []byte("q"), 0, []byte(item)))
		if got = why; !r.Failed && r.Count != 1 {
			got = fmt.Sprint("a count of ", r.Count)
		}
	}
	if got != done && got != refusal {
		w.t.Errorf("%s: a put is answered %q", w.protocol, got)
	}
	return got == done
}

// take takes an item for good, or returns "". Taken is false if it was refused.
func (w *worker) take() (item string, taken bool) {
	switch w.protocol {
	case "memcache":
		got := w.ask("get q\r\n")
		value := strings.Split(got, "\r\n")
		if len(value) == 4 && value[2] == "END" {
			return value[1], true
		}
		if got != "END\r\n" && got != "SERVER_ERROR\r\n" {
			w.t.Errorf("memcache: a get is answered %q", got)
		}
		return "", got == "END\r\n"
	case "text":
		got := w.ask("get q\n")
		if item, is := strings.CutPrefix(got, ":"); is {
			if got := w.ask("confirm q 1\n"); got != "+1\n" { // not blocked by any status
				w.t.Errorf("text: a confirm is answered %q", got)
			}
			return strings.TrimSuffix(item, "\n"), true
		}
		if got != "*\n" && got != "-Server not available for operation getItem\n" {
			w.t.Errorf("text: a get is answered %q", got)
		}
		return "", got == "*\n"
	}
	r, why := w.call(thrift.Client{}.AppendGet(nil, 1, []byte("q"), thrift.GetOptions{MaxItems: 1}))
	if r.Failed && why != "Internal error processing get: 'Server not available for operation monitorUntil'" {
		w.t.Errorf("thrift: a get is answered %q", why)
	}
	item, _ = itemsOf(r)
	return item, !r.Failed
}

// statusLoad is a server whose status changes while workers use it.
type statusLoad struct {
	t      *testing.T
	server *Server
	// steady is held for reading by workers that want to know by what status they are answered.
	steady sync.RWMutex

	mu      sync.Mutex
	stored  map[string]bool // items that may be there; true if acknowledged; guarded by mu
	refused int             // puts; guarded by mu

	last map[string]int // number of the last item drained, by producer
}

// TestStatusUnderLoad changes the status of a server, and reloads its queues, while clients of all protocols put and
// take. Each is answered by the status, in its protocol's words. What was acknowledged is there, in order, and what was
// refused is not. The next server begins with the last status.
func TestStatusUnderLoad(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		seed := rand.Uint64()
		rng := rand.New(rand.NewPCG(seed, 0))
		defer func() {
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		}()
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "status")
		settings := defaults()
		e, err := engine.Open(engine.Options{Dir: dir, Settings: settings, SegmentSize: testSegment})
		if err != nil {
			t.Fatal(err)
		}
		opts := Options{Text: "127.0.0.1:0", Thrift: "127.0.0.1:0", MaxOpenReads: 10, StatusFile: file}
		l := &statusLoad{t: t, server: startServerOf(t, eventLoop, e, opts), stored: map[string]bool{}, last: map[string]int{}}
		ops := 400
		if testing.Short() {
			ops = 150
		}
		var working sync.WaitGroup
		var left atomic.Int64
		for i, protocol := range []string{"memcache", "text", "thrift", "memcache", "text", "thrift"} {
			w := &worker{t: t, protocol: protocol, addr: map[string]net.Addr{"memcache": l.server.MemcacheAddr(),
				"text": l.server.TextAddr(), "thrift": l.server.ThriftAddr()}[protocol]}
			own := rand.New(rand.NewPCG(seed, uint64(i+1)))
			left.Add(1)
			working.Go(func() {
				defer left.Add(-1)
				if i < 3 {
					l.produce(w, own, ops)
				} else {
					l.consume(w, own, ops)
				}
				if w.conn != nil {
					w.conn.Close()
				}
			})
		}
		for left.Load() > 0 {
			l.change(rng, settings)
		}
		working.Wait()
		if err := l.server.SetStatus(Up); err != nil {
			t.Fatal(err)
		}
		l.drain()
		if l.refused == 0 || l.refused == 3*ops {
			t.Errorf("%d of %d puts were refused, want some", l.refused, 3*ops)
		}
		l.restart(opts)
	})
}

// change makes the status another one, and now and then applies the settings of the queues anew.
func (l *statusLoad) change(rng *rand.Rand, settings engine.Settings) {
	l.steady.Lock()
	defer l.steady.Unlock()
	if rng.IntN(4) == 0 {
		settings.Default.MaxMemorySize = 1 << (12 + rng.IntN(16))
		if err := l.server.opts.Engine.Reload(settings); err != nil {
			l.t.Error(err)
		}
	}
	if err := l.server.SetStatus(Status(rng.IntN(int(Down)))); err != nil {
		l.t.Error(err)
	}
}

// hold has the status stay what it is until release is called, every other time; knows says that it
// does.
func (l *statusLoad) hold(rng *rand.Rand) (status Status, knows bool, release func()) {
	if rng.IntN(2) == 0 {
		return 0, false, func() {}
	}
	l.steady.RLock()
	return l.server.Status(), true, l.steady.RUnlock
}

func (l *statusLoad) produce(w *worker, rng *rand.Rand, ops int) {
	for i := range ops {
		item := fmt.Sprintf("%s-%d", w.protocol, i+1)
		l.mu.Lock()
		l.stored[item] = false // it may be taken before its put is answered
		l.mu.Unlock()
		status, knows, release := l.hold(rng)
		stored := w.put(item)
		release()
		if knows && stored == status.BlocksWrites() {
			l.t.Errorf("%s: a put in status %v is stored: %t", w.protocol, status, stored)
		}
		l.mu.Lock()
		if _, there := l.stored[item]; there {
			if l.stored[item] = stored; !stored {
				delete(l.stored, item)
				l.refused++
			}
		} else if !stored {
			l.t.Errorf("item %s was refused, and taken", item)
		}
		l.mu.Unlock()
	}
}

func (l *statusLoad) consume(w *worker, rng *rand.Rand, ops int) {
	for range ops / 2 {
		status, knows, release := l.hold(rng)
		item, taken := w.take()
		release()
		if knows && taken == status.BlocksReads() {
			l.t.Errorf("%s: a get in status %v is answered: %t", w.protocol, status, taken)
		}
		l.took(item)
	}
}

// took takes an item off the list of those that are there.
func (l *statusLoad) took(item string) {
	if item == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, there := l.stored[item]; !there {
		l.t.Errorf("item %s came, which was refused or has come before", item)
	}
	delete(l.stored, item)
}

// drain takes what is left, which must come in order, and be all.
func (l *statusLoad) drain() {
	w := &worker{t: l.t, protocol: "memcache", addr: l.server.MemcacheAddr()}
	for {
		item, _ := w.take()
		if item == "" {
			break
		}
		producer, number, _ := strings.Cut(item, "-")
		n, _ := strconv.Atoi(number)
		if n <= l.last[producer] {
			l.t.Errorf("item %s came behind item %d", item, l.last[producer])
		}
		l.last[producer] = n
		l.took(item)
	}
	w.conn.Close()
	for item := range l.stored {
		l.t.Errorf("item %s was acknowledged, and is gone", item)
	}
}

// restart stops the server and expects the next to begin with the status it had.
func (l *statusLoad) restart(opts Options) {
	if err := l.server.SetStatus(ReadOnly); err != nil {
		l.t.Fatal(err)
	}
	if err := l.server.Shutdown(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	if got := newServerStatus(opts).Enforced(); got != ReadOnly {
		l.t.Errorf("the next server begins with status %v, want %v", got, ReadOnly)
	}
}
