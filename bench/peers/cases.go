package main

import (
	"fmt"
	"math"
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest"
)

// kind is what the connections of a case do.
type kind uint8

const (
	set     kind = iota // put; see inCycles
	get                 // take from a queue that was filled
	grow                // put, and the queue grows
	churn               // put, open, confirm
	flood               // half of the connections put, the others wait and take
	waiters             // one connection puts at a steady pace, the others wait and take
	crowd               // one connection puts as fast as it can, the others wait and take
	scaling             // put and take, on one event loop or two
)

func (k kind) String() string {
	return [...]string{"SET", "GET", "GROW", "CHURN", "FLOOD", "WAITERS", "CROWD", "SCALING"}[k]
}

// delivers reports whether the percentiles of a case are of deliveries, from put to get.
func (k kind) delivers() bool { return k == flood || k == waiters || k == crowd }

const (
	waitersRate = 1000            // puts a second
	longWait    = 8 * time.Second // of a blocked get; whole seconds, as Redis and beanstalkd want
	shortWait   = time.Second
)

// headStart returns how long consumers have to block, before the first item: a thousand connections
// take a few milliseconds to ask for one.
func (c benchCase) headStart() time.Duration {
	return 200*time.Millisecond + time.Duration(c.connections)*80*time.Microsecond
}

// benchCase is one load.
type benchCase struct {
	class       class
	kind        kind
	size        int // bytes of an item
	connections int
	pipeline    int
	queues      int
}

// String returns the name that -cases matches, with a space at each end for exact matches.
func (c benchCase) String() string { return fmt.Sprintf(" %v %s ", c.class, c.name()) }

// name returns what the case is called within its class.
func (c benchCase) name() string {
	text := fmt.Sprintf("%v %dB c=%d P=%d", c.kind, c.size, c.connections, c.pipeline)
	if c.queues > 1 {
		text += fmt.Sprintf(" Q=%d", c.queues)
	}
	return text
}

// planned is a case and the servers that take part; the first is the reference.
type planned struct {
	benchCase
	servers []server
}

// allCases returns the cases in the order of the report.
func allCases() []benchCase {
	var cases []benchCase
	add := func(class class, kind kind, size, connections, pipeline, queues int) {
		cases = append(cases, benchCase{class, kind, size, connections, pipeline, queues})
	}
	for _, kind := range []kind{set, get} {
		for _, pipeline := range []int{1, 32} {
			for _, connections := range []int{1, 16, 100, 1000} {
				add(pageCache, kind, 64, connections, pipeline, 1)
			}
		}
		add(pageCache, kind, 1024, 16, 32, 1)
	}
	add(pageCache, grow, 64, 16, 32, 1)
	add(pageCache, grow, 1024, 16, 32, 1)
	add(pageCache, grow, 1024, 1, 32, 1)
	add(pageCache, flood, 64, 16, 1, 1)
	add(pageCache, flood, 64, 16, 32, 1)
	add(pageCache, churn, 64, 16, 1, 1)
	add(pageCache, waiters, 64, 500, 1, 1)
	add(pageCache, crowd, 64, 100, 1, 1)
	add(pageCache, crowd, 64, 10_000, 1, 1)
	for _, size := range []int{64, 1024} {
		for _, connections := range []int{16, 100} {
			add(syncAlways, set, size, connections, 1, 1)
		}
	}
	add(syncAlways, set, 64, 16, 32, 1)
	add(syncAlways, set, 64, 1, 1, 1)
	add(syncAlways, set, 64, 100, 1, 1000)
	for _, kind := range []kind{set, get, flood} {
		add(memory, kind, 64, 16, 1, 1)
		add(memory, kind, 64, 16, 32, 1)
	}
	add(pageCache, scaling, 64, 32, 8, 2)
	return cases
}

// gets returns how many gets take about the given time on one core, for a server whose speed is 1.
// A queue server must be filled with as many items. What that adds up to in a second stays within
// kestrel's memory window of 128 MiB.
func (c benchCase) gets(d time.Duration, speed float64) int64 {
	rate := 220e3 // per second
	switch {
	case c.size > 64:
		rate = 80e3
	case c.pipeline > 1 && c.connections > 1:
		rate = 1e6
	case c.pipeline > 1:
		rate = 450e3
	case c.connections == 1:
		rate = 18e3
	}
	return int64(math.Ceil(rate * d.Seconds() * speed))
}

// load returns what the case asks of a server at addr.
func (o *options) load(c benchCase, s server, addr string) loadtest.Options {
	load := loadtest.Options{
		Addr:     addr,
		Protocol: s.Protocol,
		Threads:  len(o.loadCPUs),
		CPUs:     o.loadCPUs,
	}
	base := loadtest.Group{
		Connections: c.connections,
		Pipeline:    c.pipeline,
		ItemSize:    c.size,
		Queue:       queueName,
		Queues:      c.queues,
		Duration:    o.window,
	}
	switch c.kind {
	case set, grow:
		load.Groups, load.Warmup = []loadtest.Group{base}, o.warmup
	case get:
		take := s.Take(base)
		if s.Pushes() { // a connection that has its share would keep what is pushed to it
			load.Groups, load.Warmup = []loadtest.Group{take}, o.warmup
			break
		}
		load.Warmup = o.warmup // whichever ends first: slow servers are not waited for
		take.Operations, take.WarmupOperations = c.gets(o.window, s.speed), c.gets(o.warmup, s.speed)
		take.Hits = take.Operation != loadtest.Get
		load.Groups = []loadtest.Group{take}
	case churn:
		base.Operation = loadtest.OpenClose
		load.Groups, load.Warmup = []loadtest.Group{base}, o.warmup
	case scaling:
		base.Operation = loadtest.SetGet
		load.Groups, load.Warmup = []loadtest.Group{base}, o.warmup
	default:
		load.Groups = c.deliveries(base, s)
		load.HeadStart = c.headStart()
		load.Ledger = loadtest.NewLedger(uint64(c.connections), false)
	}
	return load
}

// deliveries returns producers and consumers. There is no warm-up: what it put would still be
// there.
func (c benchCase) deliveries(base loadtest.Group, s server) []loadtest.Group {
	put, take := base, s.Take(base)
	take.Duration, take.Drain, take.Wait = 0, true, longWait
	switch c.kind {
	case flood:
		put.Connections /= 2
		take.Connections -= put.Connections
		take.Wait = shortWait
	case waiters:
		put.Connections, put.Rate = 1, waitersRate
	case crowd:
		put.Connections = 1
	}
	return []loadtest.Group{put, take}
}

// queueName is the queue of all cases, or how the names of its queues begin.
const queueName = peer.Queue

// fits reports whether a server can run the case, and is asked to.
func (c benchCase) fits(s server) bool {
	if s.Class != c.class || (c.kind == scaling) != (s.Loops > 0) {
		return false
	}
	queue := s.Protocol != loadtest.RedisString && s.Protocol != loadtest.MemcacheMeta && !s.keeps
	switch c.kind {
	case set, get:
		return s.full || c.connections == 16 || c.class == syncAlways && c.queues == 1
	case churn:
		return queue && s.Protocol != loadtest.JetStream && !s.Pushes()
	case crowd:
		return queue && s.full || s.Protocol == loadtest.Beanstalk
	}
	return queue
}
