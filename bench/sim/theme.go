package main

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// theme is what a seed is about: a few operations, near a few limits, in an order that is seldom drawn.
type theme string

const (
	// stream: producers go ahead of a consumer by a little more than the window of a queue holds. The consumer empties
	// the run that is being written, and rests, while one sync of a run in a few fails.
	stream theme = "stream"
	// failing: the journal fails, in every second process, while a consumer takes what the one before has put.
	failing theme = "failing"
	// closing: the server stops while a flush reads expired items back.
	closing theme = "closing"
	// messages: most clients delay, lease and give back items of one queue, a little at a time.
	messages theme = "messages"
	// hoard: clients put large items, or ask for some and read nothing, while no run can be written.
	hoard theme = "hoard"
	// crowd: many queues spill, with few descriptors and slow syncs.
	crowd theme = "crowd"
	// returns: one client opens items and gives them back, in any order, and then takes what is first.
	returns theme = "returns"
	// keyed: clients put items with few keys to one queue, in the place of others, and take and remove them.
	keyed theme = "keyed"
	// several: consumers fetch from several queues at once, and wait, while producers put to any of them.
	several theme = "several"
	// dropping: a name in the journal cannot be changed, once, and the server goes on for long.
	dropping theme = "dropping"
)

// fitTheme has limits and the disk fit the theme.
func (g *generator) fitTheme() {
	c := &g.s.Config
	switch g.theme {
	case stream:
		g.calm, g.home = false, "a"
		c.Speed = Speed{RunWrite: Latency{Usual: pick(g, 50*time.Millisecond, 200*time.Millisecond, 600*time.Millisecond)}}
	case failing:
		g.calm, g.home = false, "a"
		c.MemoryLimit = 256 << 10
		c.Speed.Names = Latency{Usual: 10 * time.Millisecond}
	case messages:
		g.home = "work"
	case hoard:
		c.MemoryLimit, c.SegmentSize, c.JournalSize, c.DiskSize = 256<<10, 256<<10, 8<<20, 0
		c.MaxPending = pick(g, 1<<10, 16<<10)
		g.home = "a"
	case crowd:
		c.Files, c.SegmentSize, c.JournalSize = engine.MinFiles, 4<<10, 64<<10
		c.Speed.RunSync, c.Speed.JournalSync = Latency{Usual: 100 * time.Millisecond}, Latency{Usual: 100 * time.Millisecond}
	case returns:
		g.home, c.MaxOpenReads = "a", max(c.MaxOpenReads, 10)
	case keyed:
		g.home = "a"
	case several:
		g.home, c.MaxOpenReads = "", max(c.MaxOpenReads, 10)
	case dropping:
		c.SegmentSize, c.JournalSize = 4<<10, 16<<10
	case closing:
		g.home = "x"
		c.Speed = Speed{Read: Latency{Usual: pick(g, 5*time.Millisecond, 50*time.Millisecond)}}
	}
}

// themed makes up a process of the theme.
func (g *generator) themed() Phase {
	switch g.theme {
	case failing:
		return g.failing()
	case closing:
		return g.closing()
	case messages:
		return g.messaging()
	case hoard:
		return g.hoarding()
	case crowd:
		return g.crowding()
	case dropping:
		return g.dropping()
	case returns:
		return g.returning()
	case keyed:
		return g.keying()
	case several:
		return g.fetchingSeveral()
	}
	return g.streaming()
}

// failing: the first process puts, the next takes and its journal fails, and so on.
func (g *generator) failing() Phase {
	p := Phase{Length: pick(g, time.Second, 3*time.Second), End: pick(g, kill, stop)}
	if len(g.s.Phases)%2 == 0 {
		p.Clients = []Client{g.producer(), g.producer()}
		return p
	}
	p.Faults = []Fault{{
		Class: "journal", Kind: pick(g, segmenttest.OpDatasync, segmenttest.OpWriteAt), Nth: 5 + g.IntN(30), Count: pick(g, 1, 50),
		Errno: pick(g, syscall.EIO, syscall.ENOSPC),
	}}
	p.Clients = []Client{g.consumer(), g.consumer()}
	return p
}

// closing: the queue's items expire at once, and go to another queue by flushes, until the server stops.
func (g *generator) closing() Phase {
	p := Phase{Length: time.Duration(g.Int64N(int64(2 * time.Second))), End: stop, Clients: []Client{g.producer()}}
	for range 1 + g.IntN(3) {
		c := Client{Protocol: pick(g, "engine", "engine", "memcache"), Room: 1 << 20}
		for range 40 {
			c.Ops = append(c.Ops, Op{Do: opFlush, Queue: g.home, Think: time.Duration(g.Int64N(int64(200 * time.Millisecond)))})
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

// streaming: see stream.
func (g *generator) streaming() Phase {
	p := Phase{
		Length: pick(g, 3*time.Second, 6*time.Second), End: pick(g, kill, kill, powerCut),
		Cut: segmenttest.CutOptions{Mode: pick(g, segmenttest.Lose, segmenttest.Tear), Seed: g.Uint64()},
	}
	for nth := 1 + g.IntN(2); nth < 12; nth += 2 + g.IntN(2) {
		p.Faults = append(p.Faults, Fault{
			Class: "run", Kind: segmenttest.OpDatasync, Nth: nth, Count: 1, Errno: syscall.EIO, KeepDirty: g.chance(4),
		})
	}
	for range 1 + g.IntN(2) {
		p.Clients = append(p.Clients, g.producer())
	}
	p.Clients = append(p.Clients, g.consumer())
	return p
}

// hoarding: see hoard.
func (g *generator) hoarding() Phase {
	p := Phase{Length: 2 * time.Second, End: pick(g, kill, stop)}
	p.Faults = []Fault{{Class: "run", Kind: segmenttest.OpWriteAt, Nth: 1, Count: 10_000, Errno: syscall.EIO}}
	for range 2 + g.IntN(3) {
		c := Client{Protocol: pick(g, "engine", "memcache"), Room: 100}
		for range 120 {
			c.Ops = append(c.Ops, Op{Do: opPut, Queue: g.home, N: 1, Size: 5_000 + g.IntN(20_000), Think: time.Millisecond})
		}
		p.Clients = append(p.Clients, c)
	}
	for range g.IntN(3) {
		c := Client{Protocol: "memcache", Room: 100}
		for range 10 {
			c.Ops = append(c.Ops, Op{
				Do: opStuff, Queue: g.home, N: 30, Size: 100, Think: time.Duration(g.Int64N(int64(100 * time.Millisecond))),
			})
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

// crowding: see crowd.
func (g *generator) crowding() Phase {
	p := Phase{Length: 3 * time.Second, End: pick(g, kill, stop, powerCut), Cut: segmenttest.CutOptions{Seed: g.Uint64()}}
	for range 4 {
		c := Client{Protocol: pick(g, "engine", "memcache"), Room: 1 << 20}
		for range 300 {
			op := Op{Do: opPut, Queue: fmt.Sprint("m", g.IntN(crowdSize)), N: 1, Size: 1 + g.IntN(2*g.size)}
			if g.chance(6) {
				op.Do = opTake
			}
			if g.chance(3) {
				op.Think = time.Duration(g.Int64N(int64(10 * time.Millisecond)))
			}
			c.Ops = append(c.Ops, op)
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

// crowdSize is how many queues the theme crowd has.
const crowdSize = 20

// returning: see returns.
func (g *generator) returning() Phase {
	p := Phase{Length: 3 * time.Second, End: pick(g, kill, stop, powerCut), Cut: segmenttest.CutOptions{Seed: g.Uint64()}}
	c := Client{Protocol: pick(g, "engine", "memcache"), Room: 1 << 20}
	ask := func(do string, n int) {
		for range n {
			c.Ops = append(c.Ops, Op{Do: do, Queue: g.home, N: 1, Size: 1 + g.IntN(2*g.size)})
		}
	}
	for range 2 + g.IntN(10) {
		ask(opPut, g.IntN(10))
		ask(opOpen, 2+g.IntN(6))
		for range 2 + g.IntN(6) {
			c.Ops = append(c.Ops, Op{Do: pick(g, opAbort, opAbort, opAbort, opConfirm), Queue: g.home, N: g.IntN(8)})
		}
		ask(pick(g, opOpen, opTake), 1+g.IntN(4))
	}
	p.Clients = append(p.Clients, c)
	return p
}

// dropping: see dropping.
func (g *generator) dropping() Phase {
	p := Phase{Length: 20 * time.Second, Rest: true, End: pick(g, kill, stop)}
	p.Faults = []Fault{{
		Class: "journal", Kind: pick(g, segmenttest.OpRename, segmenttest.OpRemove, segmenttest.OpSyncDir), Nth: 2 + g.IntN(20),
		Count: pick(g, 1, 1, 5), Errno: syscall.EIO,
	}}
	for range 2 {
		c := Client{Protocol: pick(g, "engine", "memcache"), Room: 1 << 20}
		for i := range 400 {
			op := Op{Do: opPut, Queue: g.home, N: 1, Size: 1 + g.IntN(2*g.size), Think: time.Duration(g.Int64N(int64(80 * time.Millisecond)))}
			if op.Queue == "" {
				op.Queue = "a"
			}
			if i%2 == 1 {
				op.Do = opTake
			}
			c.Ops = append(c.Ops, op)
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

// producer puts for seconds, and waits where the consumer is far behind.
func (g *generator) producer() Client {
	c := Client{Protocol: pick(g, "engine", "memcache", "thrift"), Room: 1 << 20}
	lag := int64(float64(g.memory) * pick(g, 2.0, 4.0, 8.0))
	for range 400 {
		c.Ops = append(c.Ops, Op{
			Do: opPut, Queue: g.home, N: 1, Size: 1 + g.IntN(2*g.size), Lag: lag, Think: time.Duration(g.Int64N(int64(20 * time.Millisecond))),
		})
	}
	return c
}

// consumer takes many items one after the other, and then none for a second or two.
func (g *generator) consumer() Client {
	c := Client{Protocol: pick(g, "engine", "memcache"), Room: 1 << 20}
	for range 10 {
		for range 10 + g.IntN(100) {
			c.Ops = append(c.Ops, Op{Do: opTake, Queue: g.home, N: 1, Wait: 100 * time.Millisecond})
		}
		c.Ops = append(c.Ops, Op{Do: opPeek, Queue: g.home, Think: time.Duration(g.Int64N(int64(3 * time.Second)))})
	}
	return c
}

// work adds queues whose items are delayed, leased, given back and given up.
func (g *generator) work(add func(string, func(*engine.QueueOptions))) {
	add("work", func(o *engine.QueueOptions) {
		o.MaxDeliveries = pick[int64](g, 0, 0, 2, 3, 10)
		if g.chance(2) {
			o.RedeliveryDelay[0] = pick(g, 20*time.Millisecond, 500*time.Millisecond)
			if g.chance(2) {
				o.RedeliveryDelay[1] = 4 * o.RedeliveryDelay[0]
			}
		}
	})
	add(deadLetterQueue, func(*engine.QueueOptions) {})
	if g.chance(2) {
		add("aged", func(o *engine.QueueOptions) {
			o.MaxQueueAge = pick(g, time.Millisecond, 100*time.Millisecond, time.Second)
		})
		if g.s.Config.SweepInterval == 0 {
			g.s.Config.SweepInterval = 20 * time.Millisecond
		}
	}
}

// leaseOps are what is done to leases.
var leaseOps = []string{opConfirmLease, opAbortLease, opReleaseLease, opRejectLease, opExtendLease}

func (g *generator) fondOfMessages() {
	g.fonds[opDelay] = pick(g, 0, 2, 8)
	g.fonds[opLease] = pick(g, 2, 5, 10)
	for _, do := range leaseOps {
		g.fonds[do] = pick(g, 0, 1, 3)
	}
	g.fonds[opConfirmLease] = pick(g, 1, 3, 6)
	for _, do := range []string{opFlush, opDelete, opReload, opExpire} { // what makes everything uncertain
		if g.fonds[do] > 0 && g.chance(2) {
			g.fonds[do] = 0
		}
	}
	if g.home == "" || g.chance(2) {
		g.home = "work"
	}
}

// message makes up the delays and leases of a request.
func (g *generator) message(op Op) Op {
	times := []time.Duration{
		5 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second, maxLease,
	}
	some := times[g.IntN(len(times))]
	switch op.Do {
	case opDelay, opLease:
		if !g.takesMessages(op.Queue) {
			op.Queue = "work"
		}
		op.For = max(some-time.Duration(g.IntN(3))*time.Millisecond, time.Millisecond)
	case opConfirmLease, opRejectLease:
		op.N = g.receipt()
	case opAbortLease, opReleaseLease:
		op.N = g.receipt()
		if g.chance(3) {
			op.For = some
		}
	case opExtendLease:
		op.N, op.For = g.receipt(), time.Duration(1+g.IntN(5))*time.Second
	}
	return op
}

// receipt picks one of the leases, counted from the latest.
func (g *generator) receipt() int {
	if g.chance(4) {
		return g.IntN(20)
	}
	return g.IntN(3)
}

// takesMessages reports whether items of a queue may be delayed and leased: it is known when they expire.
func (g *generator) takesMessages(queue string) bool {
	return !slices.Contains([]string{"x", "dead", "alias", "discard", "timeout"}, queue)
}

// messaging is a process of the theme messages. One client puts, and others lease what is there and end that in every
// way, one request after the other or beside each other.
func (g *generator) messaging() Phase {
	p := Phase{
		Length: pick(g, 200*time.Millisecond, 2*time.Second, 20*time.Second), Rest: g.chance(4),
		End: pick(g, kill, kill, kill, stop, powerCut),
		Cut: segmenttest.CutOptions{Mode: pick(g, segmenttest.Lose, segmenttest.Tear), Seed: g.Uint64()},
	}
	most := time.Duration(g.Int64N(int64(pick(g, time.Millisecond, 20*time.Millisecond, 400*time.Millisecond)))) + 1
	think := func() time.Duration { return time.Duration(g.Int64N(int64(most))) }
	for range 1 + g.IntN(3) {
		c := Client{Protocol: pick(g, "engine", "engine", "memcache", "text", "burrow"), Room: 1 << 20}
		for range 20 + g.IntN(100) {
			op := Op{Do: g.chooseMessage(), Queue: "work", N: 1, Size: 1 + g.IntN(2*g.size), Think: think()}
			if op.Do == opDelay || op.Do == opPut {
				op.N = pick(g, 1, 1, 3)
			}
			if g.chance(3) {
				op.Think = 0
			}
			if g.chance(12) {
				op.Queue = pick(g, deadLetterQueue, "a")
			}
			if op = g.message(op); op.Do == opLease && g.chance(4) {
				op.Wait = pick(g, 5*time.Millisecond, 500*time.Millisecond)
			}
			c.Ops = append(c.Ops, op)
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

func (g *generator) chooseMessage() string {
	return pick(g, opPut, opPut, opPut, opDelay, opLease, opLease, opLease, opConfirmLease, opConfirmLease, opAbortLease,
		opReleaseLease, opRejectLease, opExtendLease, opOpen, opAbort, opAbort, opConfirm, opTake, opReset)
}

// keyedQueue is the queue of the theme keyed. Nobody opens or leases its items.
const keyedQueue = "keyed"

// mayFault has the disk fail in a process, unless the seed is calm.
func (g *generator) mayFault(p *Phase) {
	if !g.calm && g.chance(2) {
		p.Faults = append(p.Faults, g.fault())
	}
}

// keying: see keyed.
func (g *generator) keying() Phase {
	p := Phase{
		Length: pick(g, 200*time.Millisecond, 2*time.Second, 20*time.Second), Rest: g.chance(4),
		End: pick(g, kill, kill, stop, powerCut),
		Cut: segmenttest.CutOptions{Mode: pick(g, segmenttest.Lose, segmenttest.Tear), Seed: g.Uint64()},
	}
	g.mayFault(&p)
	keys, most := pick(g, 1, 3, 30), pick(g, time.Millisecond, 20*time.Millisecond)
	for range 1 + g.IntN(3) {
		c := Client{Protocol: pick(g, "engine", "engine", "memcache"), Room: 1 << 20}
		for range 20 + g.IntN(100) {
			op := Op{
				Do: pick(g, opPutKeyed, opPutKeyed, opPutKeyed, opPutKeyed, opPut, opPut, opPutNew, opPutReplace, opTake, opTake,
					opRemoveKey, opPeek, opReset),
				Queue: keyedQueue, Key: fmt.Sprint("k", g.IntN(keys)), N: 1, Size: 1 + g.IntN(2*g.size),
			}
			if !g.chance(3) {
				op.Think = time.Duration(g.Int64N(int64(most)))
			}
			c.Ops = append(c.Ops, op)
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}

// fetchingSeveral: see several.
func (g *generator) fetchingSeveral() Phase {
	p := Phase{
		Length: pick(g, 500*time.Millisecond, 3*time.Second, 20*time.Second), Rest: !g.chance(3),
		End: pick(g, kill, kill, stop, powerCut),
		Cut: segmenttest.CutOptions{Mode: pick(g, segmenttest.Lose, segmenttest.Tear), Seed: g.Uint64()},
	}
	g.mayFault(&p)
	queues := []string{"a", "b", "c", "d"}
	most := pick(g, time.Millisecond, 20*time.Millisecond)
	think := func() time.Duration { return time.Duration(g.IntN(2)) * time.Duration(g.Int64N(int64(most))) }
	for range 1 + g.IntN(3) {
		c := Client{Protocol: pick(g, "engine", "memcache", "thrift"), Room: 1 << 20}
		for range 20 + g.IntN(100) {
			c.Ops = append(c.Ops, Op{
				Do: opPut, Queue: queues[g.IntN(len(queues))], N: pick(g, 1, 1, 3), Size: 1 + g.IntN(2*g.size), Think: think(),
			})
		}
		p.Clients = append(p.Clients, c)
	}
	for range 1 + g.IntN(4) {
		c := Client{Protocol: pick(g, "engine", "memcache", "memcache"), Room: 1 << 20}
		for range 20 + g.IntN(100) {
			some := g.Perm(len(queues))[:1+g.IntN(len(queues))]
			op := Op{
				Do: pick(g, opTakeAny, opTakeAny, opTakeAny, opOpenAny, opOpenAny, opConfirm, opConfirm, opAbort, opTake, opReset),
				N:  1, Queue: queues[some[0]], Think: think(),
			}
			for _, i := range some[1:] {
				op.Or = append(op.Or, queues[i])
			}
			if g.chance(2) {
				op.Wait = pick(g, time.Millisecond, 50*time.Millisecond, time.Second)
			}
			c.Ops = append(c.Ops, op)
		}
		p.Clients = append(p.Clients, c)
	}
	return p
}
