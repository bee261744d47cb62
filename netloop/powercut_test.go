package netloop

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

var powerCutSeed = flag.Uint64("power-cut-seed", 0, "seed for TestPowerCutModel; 0: several")

// cutModel has clients put, get and confirm items of one queue under sync_journal = "always", while syncs take their
// time. It looks at what a power cut would leave. Items are numbers.
type cutModel struct {
	t       *testing.T
	random  *rand.Rand
	ts      *testServer
	disk    *heldDisk
	clients []*cutClient
	next    int
	stored  map[int]bool // STORED has come
	seen    map[int]bool // handed to a client, which may have removed it
	done    map[int]bool // a client knows that it is gone for good
}

// cutClient sends one request at a time.
type cutClient struct {
	*testClient
	text  bool
	busy  string       // its request
	open  map[int]bool // items that it has open
	ended map[int]bool // those that the request confirms
	puts  int          // the item that it puts
}

// act has a client that is not busy send something.
func (m *cutModel) act(c *cutClient) {
	if c.busy != "" {
		return
	}
	c.ended = nil
	switch n := m.random.IntN(6); {
	case n < 2 && !c.text:
		m.next++
		c.puts = m.next
		item := strconv.Itoa(m.next)
		c.busy = fmt.Sprintf("set q 0 0 %d\r\n%s\r\n", len(item), item)
	case c.text:
		c.busy = fmt.Sprintf("get q %d\n", m.random.IntN(3)*20)
		c.ended = c.open
	case len(c.open) == 0 && n == 2:
		c.busy = "get q\r\n"
	case len(c.open) == 0:
		c.busy = fmt.Sprintf("get q/open/t=%d\r\n", m.random.IntN(3)*20)
	case n == 3:
		c.busy = "get q/close\r\n"
		c.ended = c.open
	default:
		c.busy = fmt.Sprintf("get q/close/open/t=%d\r\n", m.random.IntN(3)*20)
		c.ended = c.open
	}
	c.feed([]byte(c.busy), 1<<10)
}

// hear takes in the reply to the request of a client, if it has come.
func (m *cutModel) hear(c *cutClient) {
	out, _ := c.received()
	if len(out) == 0 {
		return
	}
	var item int
	switch {
	case bytes.Equal(out, []byte("STORED\r\n")):
		m.stored[c.puts] = true
	case bytes.HasPrefix(out, []byte("VALUE")):
		item, _ = strconv.Atoi(string(bytes.Split(out, []byte("\r\n"))[1]))
	case out[0] == ':':
		item, _ = strconv.Atoi(string(out[1 : len(out)-1]))
	case !bytes.Equal(out, []byte("END\r\n")) && !bytes.Equal(out, []byte("*\n")):
		m.t.Fatalf("%q is answered %q", c.busy, out)
	}
	for i := range c.ended {
		m.done[i] = true
	}
	if c.ended != nil {
		c.open = map[int]bool{}
	}
	if item > 0 {
		m.seen[item] = true
		if c.busy == "get q\r\n" {
			m.done[item] = true
		} else {
			c.open[item] = true
		}
	}
	c.busy = ""
	c.consume(len(out))
}

// check compares what a power cut would leave with what clients know.
func (m *cutModel) check(step int) {
	image := m.ts.fs.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	e, err := engine.Open(engine.Options{Dir: "data", FS: image, Settings: defaults(), SegmentSize: 1 << 16})
	if err != nil {
		m.t.Fatalf("step %d: open crash image: %v", step, err)
	}
	defer e.Close()
	q, err := e.Queue("q")
	if err != nil {
		m.t.Fatal(err)
	}
	left := map[int]bool{}
	for it, err := q.TryGet(); err == nil; it, err = q.TryGet() {
		item, _ := strconv.Atoi(string(it.Data))
		if left[item] = true; m.done[item] {
			m.t.Fatalf("step %d: item %d is back, although a client knows that it was removed", step, item)
		}
	}
	taking := false // a plain get may have removed an item that its client does not know yet
	for _, c := range m.clients {
		taking = taking || c.busy == "get q\r\n"
	}
	for item := range m.stored {
		if !left[item] && !m.seen[item] && !taking {
			m.t.Fatalf("step %d: item %d is lost, although a client knows that it was stored", step, item)
		}
	}
}

func (m *cutModel) run(steps int) {
	for step := range steps {
		switch m.random.IntN(8) {
		case 0:
			m.disk.held.Store(true)
		case 1:
			m.disk.release()
		case 2:
			m.disk.release()                                                // or what the engine does in the background would wait too
			time.Sleep(time.Duration(m.random.IntN(30)) * time.Millisecond) // of the bubble
		default:
			m.act(m.clients[m.random.IntN(len(m.clients))])
		}
		synctest.Wait()
		for _, c := range m.clients {
			m.hear(c)
		}
		m.check(step)
	}
}

// TestPowerCutModel: what a client knows to be stored, or gone, is so after a power cut at any moment.
//
// Its controls are replies that leave before their sync, and a deliver that forgets tickets that are not
// good.
func TestPowerCutModel(t *testing.T) {
	seeds := []uint64{*powerCutSeed}
	if *powerCutSeed == 0 {
		seeds = seeds[:0]
		n := 20
		if isSample() {
			n = 2
		}
		for range n {
			seeds = append(seeds, rand.Uint64())
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("power-cut-seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts, disk := newHeldServer(t, Options{})
				m := &cutModel{
					t: t, random: rand.New(rand.NewPCG(seed, 0)), ts: ts, disk: disk,
					stored: map[int]bool{}, seen: map[int]bool{}, done: map[int]bool{},
				}
				for i := range 6 {
					var proto protocol = memcacheProtocol{}
					if i%3 == 2 {
						proto = textProtocol{}
					}
					m.clients = append(m.clients,
						&cutClient{testClient: ts.dial(proto), text: i%3 == 2, open: map[int]bool{}})
				}
				defer func() {
					disk.release()
					for _, c := range m.clients {
						c.hangUp()
					}
					ts.stop()
				}()
				m.run(150)
			})
		})
	}
}
