package main

import (
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// theme is what a seed is about: a few operations, near a few limits, in an order that is seldom drawn.
type theme string

const (
	// stream: producers go ahead of a consumer by a little more than the window of a queue holds, the consumer
	// empties the run that is being written, and rests, while one sync of a run in a few fails.
	stream theme = "stream"
	// failing: the journal fails, in every second process, while a consumer takes what the one before has put.
	failing theme = "failing"
	// closing: the server stops while a flush reads expired items back.
	closing theme = "closing"
)

// settleTheme has limits and the disk fit the theme.
func (g *generator) settleTheme() {
	c := &g.s.Config
	switch g.theme {
	case stream:
		g.calm, g.home = false, "a"
		c.Speed = Speed{RunWrite: Latency{Usual: pick(g, 50*time.Millisecond, 200*time.Millisecond, 600*time.Millisecond)}}
	case failing:
		g.calm, g.home = false, "a"
		c.MemoryLimit = 256 << 10
		c.Speed.Names = Latency{Usual: 10 * time.Millisecond}
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
