package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// Script is all that a simulation is to do, but for what goroutines make of it. It is made of a seed,
// and a failing one is made shorter.
type Script struct {
	Seed     uint64
	Config   Config
	Settings []engine.Settings // the first at the start; RELOAD goes to another
	Phases   []Phase
}

// Config is what a server is started with. Everything is as small as it can be, so that limits are
// near.
type Config struct {
	MemoryLimit, JournalSize, SegmentSize int64
	Shards, Loops                         int
	Cached, HandOff                       bool
	SweepInterval                         time.Duration
	MaxOpenReads, MaxPending              int
	MaxConnections                        int           // 0: any number
	ClientTimeout                         time.Duration // 0: clients may be idle for ever
	Files                                 int           // that the engine may have open; 0: its usual share
	DiskSize, DiskReserve                 int64         // bytes; 0: a disk that is never full
	Speed                                 Speed
}

// Phase is the life of one process.
type Phase struct {
	Clients []Client
	Faults  []Fault       `json:",omitempty"`
	Steps   []Step        `json:",omitempty"`
	Length  time.Duration // at most: then the process ends
	Rest    bool          // the clients come to an end before, and nothing else may go on
	End     End
	Cut     segmenttest.CutOptions
}

// Step sets the clock of the server, some time after the step before: it is off by so much from then on.
// Timers, and what is timed by a clock that nobody can set, go on.
type Step struct{ After, Off time.Duration }

// End is how a process ends.
type End string

const (
	kill     End = "kill"      // SIGKILL
	powerCut End = "power cut" // as the Cut of the phase says
	stop     End = "stop"      // SIGTERM
)

// Client is one client and what it does, one after the other.
type Client struct {
	Protocol string // of netloop, or "engine" for a program that uses the library
	Room     int    // bytes that it leaves unread at most before the server must keep them
	Ops      []Op
}

// Op is one request of a client, or something else that it does.
type Op struct {
	Do    string
	Queue string        `json:",omitempty"`
	Think time.Duration `json:",omitempty"` // before it
	N     int           `json:",omitempty"` // items; of confirm and abort, which of the open reads
	Size  int           `json:",omitempty"` // bytes of an item; of stuff, requests of each connection
	Wait  time.Duration `json:",omitempty"` // for an item; of an item, its life
	For   time.Duration `json:",omitempty"` // of a delay or a lease
	Key   string        `json:",omitempty"` // of a keyed put, or of a removal
	Or    []string      `json:",omitempty"` // the other queues of a fetch from several
	Lag   int64         `json:",omitempty"` // of a put: no more than so many bytes are in the queue
}

// What a client may do.
const (
	opPut       = "put"
	opTake      = "take"
	opOpen      = "open"
	opConfirm   = "confirm"
	opAbort     = "abort"
	opCloseOpen = "close and open"
	opPeek      = "peek"
	opFlush     = "flush"
	opExpire    = "flush expired"
	opDelete    = "delete"
	opReload    = "reload"
	opReset     = "reset"      // and connect again
	opHalfClose = "half-close" // the same, with a request under way
	opLastPut   = "put and half-close"
	opBlindPut  = "put blind"  // put, and reset before a reply can have come
	opBlindTake = "take blind" // the same with a get

	opDelay        = "put delayed"
	opLease        = "lease"
	opConfirmLease = "confirm lease" // by a receipt that any client has got, as the others
	opAbortLease   = "abort lease"
	opReleaseLease = "release lease"
	opRejectLease  = "reject lease"
	opExtendLease  = "extend lease"
	opMonitor      = "monitor"

	opPutKeyed   = "put keyed"   // in the place of the item of that key, if there is one
	opPutNew     = "put new"     // only if there is none
	opPutReplace = "put replace" // only if there is one
	opRemoveKey  = "remove key"
	opTakeAny    = "take any" // of the first of several queues that has an item
	opOpenAny    = "open any"
)

// generator makes a script. What it is fond of differs from seed to seed. A little of everything does not find a defect
// that needs much of a few things.
type generator struct {
	*rand.Rand
	s        Script
	names    []string
	calm     bool   // no faults
	steps    bool   // of the clock
	theme    theme  // that most processes have; "" if everything may happen
	rough    bool   // runs are written slowly, and syncs of them fail
	home     string // the queue that most clients work on; "" if each has its own
	fonds    map[string]int
	messages bool // delays, leases and dead letters
	think    []time.Duration
	size     int   // bytes of items, about
	memory   int64 // of a queue, about
}

func newScript(seed uint64) Script {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 2))}
	g.s.Seed = seed
	g.theme = pick(g, "", "", "", "", "", "", "", "", "", "", "", "", stream, stream, failing, closing, messages, messages,
		hoard, crowd, dropping, returns)
	switch seed % 12 { // no draw: other seeds keep their scripts
	case 5:
		g.theme = keyed
	case 11:
		g.theme = several
	}
	g.config()
	g.queues()
	g.fond()
	n := 2 + g.IntN(14)
	if isChain(seed) {
		g.chain()
		return g.s
	}
	for range n {
		g.s.Phases = append(g.s.Phases, g.phase())
	}
	return g.s
}

// A chain is a script of about a hundred short processes on one directory. Each leaves a little behind that the next
// one goes on with. What only many restarts in a row can bring about does not come about in fifteen.

const (
	chainOneIn  = 200 // seeds
	chainLength = 100 // processes, about
	// chainClients and chainOps are how many clients a process of a chain has, and requests each of them, at most.
	chainClients, chainOps = 3, 12
)

// isChain reports whether the script of a seed is a chain. That is no draw: other seeds keep their scripts.
func isChain(seed uint64) bool { return seed%chainOneIn == chainOneIn/2 }

// chain makes up the processes of a chain: as others are, but shorter.
func (g *generator) chain() {
	for range chainLength - 10 + g.IntN(21) {
		p := g.phase()
		p.Length = min(p.Length, pick(g, 5*time.Millisecond, 50*time.Millisecond, 500*time.Millisecond))
		p.Clients = p.Clients[:min(len(p.Clients), chainClients)]
		for i := range p.Clients {
			c := &p.Clients[i]
			c.Ops = c.Ops[:min(len(c.Ops), 1+g.IntN(chainOps))]
		}
		g.s.Phases = append(g.s.Phases, p)
	}
}

func pick[T any](g *generator, values ...T) T { return values[g.IntN(len(values))] }

// chance reports true in one of n.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) config() {
	c := &g.s.Config
	g.size = pick(g, 20, 200, 1000)
	c.SegmentSize = pick[int64](g, 4<<10, 16<<10, 64<<10)
	c.JournalSize = c.SegmentSize * pick[int64](g, 2, 4, 8, 32)
	c.MemoryLimit = pick[int64](g, 256<<10, 1<<20, 64<<20)
	c.Shards = pick(g, 1, 2, 8)
	c.Loops = pick(g, 1, 1, 2)
	c.Cached, c.HandOff = g.chance(2), !g.chance(3)
	c.SweepInterval = pick(g, 0, 20*time.Millisecond, time.Second)
	c.MaxOpenReads = pick(g, 1, 10, 1000)
	c.MaxPending = pick(g, 1<<10, 16<<10, 1<<20)
	c.MaxConnections = pick(g, 0, 0, 12, 40)
	if g.chance(3) {
		c.ClientTimeout = idleTimeout
	}
	if g.chance(3) {
		c.Files = engine.MinFiles + g.IntN(10)
	}
	if g.chance(8) {
		c.DiskSize = c.JournalSize + c.SegmentSize*pick[int64](g, 4, 8, 32) + pick[int64](g, 0, 100<<10)
		c.DiskReserve = min(c.SegmentSize*pick[int64](g, 1, 4), c.DiskSize/2)
	}
	c.Speed = Speed{
		JournalWrite: g.latency(100 * time.Microsecond), JournalSync: g.latency(10 * time.Millisecond),
		RunWrite: g.latency(200 * time.Microsecond), RunSync: g.latency(10 * time.Millisecond),
		Read: g.latency(100 * time.Microsecond), Names: g.latency(time.Millisecond),
	}
}

func (g *generator) latency(usual time.Duration) Latency {
	l := Latency{Usual: pick(g, 0, usual/20, usual, 10*usual)}
	if g.chance(3) {
		l.OneIn, l.Rare = pick(g, 10, 100), 50*usual
	}
	return l
}

func (g *generator) queues() {
	d := engine.DefaultQueueOptions()
	g.memory = int64(pick(g, 2, 10, 40)*g.size) + 500
	d.MaxMemorySize = g.memory
	if g.theme == hoard {
		g.memory, d.MaxMemorySize = 64<<20, 64<<20
	}
	d.Sync = pick(g, engine.SyncAlways, engine.SyncAlways, engine.SyncEvery(20*time.Millisecond), engine.SyncNever)
	set := engine.Settings{Default: d, Queues: map[string]engine.QueueOptions{}}
	add := func(name string, change func(*engine.QueueOptions)) {
		o := d
		if g.chance(3) {
			o.Sync = pick(g, engine.SyncAlways, engine.SyncEvery(50*time.Millisecond), engine.SyncNever)
		}
		if g.chance(4) {
			o.MaxMemorySize = int64(pick(g, 1, 100)*g.size) + 1
		}
		change(&o)
		set.Queues[name] = o
		g.names = append(g.names, name)
	}
	for _, name := range []string{"a", "b", "c"}[:1+g.IntN(3)] {
		add(name, func(*engine.QueueOptions) {})
	}
	if g.theme == crowd {
		d.Sync, d.MaxMemorySize = pick(g, engine.SyncNever, engine.SyncEvery(time.Second)), int64(2*g.size)
		for i := range crowdSize {
			add(fmt.Sprint("m", i), func(o *engine.QueueOptions) { o.Sync, o.MaxMemorySize = d.Sync, d.MaxMemorySize })
		}
	} else if g.chance(3) {
		for i := range 1 + g.IntN(20) {
			add(fmt.Sprint("m", i), func(*engine.QueueOptions) {})
		}
	}
	if g.chance(2) || g.theme == closing {
		add("x", func(o *engine.QueueOptions) {
			o.ExpireTo, o.MaxAge = "dead", pick(g, time.Millisecond, 50*time.Millisecond, 2*time.Second)
			o.MaxExpireSweep = pick[int64](g, 10, 100, 1<<30)
		})
		g.names = append(g.names, "dead")
	}
	if g.chance(3) {
		add("discard", func(o *engine.QueueOptions) {
			o.DiscardOldWhenFull, o.MaxItems = true, int64(1+g.IntN(50))
		})
	}
	if g.chance(3) {
		add("limit", func(o *engine.QueueOptions) {
			o.MaxItems, o.MaxSize = int64(1+g.IntN(50)), int64((1+g.IntN(50))*g.size)
		})
	}
	if g.chance(3) {
		add("fan", func(*engine.QueueOptions) {})
		add("fan+1", func(*engine.QueueOptions) {})
		add("fan+2", func(*engine.QueueOptions) {})
	}
	if g.chance(3) {
		add("timeout", func(o *engine.QueueOptions) {
			o.OpenReadTimeout = pick(g, time.Millisecond, 100*time.Millisecond, time.Second)
		})
	}
	if g.messages = g.theme == messages || g.chance(3); g.messages {
		g.work(add)
	}
	if g.theme == keyed {
		o := d
		o.MaxMemorySize = pick(g, 1, g.memory, 64<<20)
		set.Queues[keyedQueue] = o // clients of other themes know nothing of keys
	}
	if g.chance(2) {
		add("journal", func(o *engine.QueueOptions) { o.KeepJournal = g.chance(2) })
	}
	if g.chance(4) {
		to := g.names[g.IntN(min(3, len(set.Queues)))%len(g.names)] // set.Queues may have others
		set.Aliases = map[string][]string{"alias": {"a", to}}
		g.names = append(g.names, "alias")
		if to := set.Aliases["alias"]; to[0] == to[1] {
			set.Aliases["alias"] = to[:1]
		}
	}
	g.s.Settings = append(g.s.Settings, set)
	for range g.IntN(4) {
		g.s.Settings = append(g.s.Settings, g.reloaded(set))
	}
}

// reloaded returns settings that differ in what a reload may change under a running queue.
func (g *generator) reloaded(set engine.Settings) engine.Settings {
	queues := maps.Clone(set.Queues)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		o := queues[name]
		if name == "journal" {
			o.KeepJournal = g.chance(2)
		}
		if g.chance(2) {
			o.MaxMemorySize = pick(g, 1, g.memory/2, g.memory, g.memory*4)
		}
		if name == "timeout" {
			o.OpenReadTimeout = pick(g, 0, time.Millisecond, time.Second)
		}
		queues[name] = o
	}
	set.Queues = queues
	return set
}

// fond decides what this seed is fond of.
func (g *generator) fond() {
	g.fonds = map[string]int{opPut: 10}
	for _, do := range []string{opTake, opOpen, opConfirm, opAbort, opCloseOpen, opReset} {
		g.fonds[do] = pick(g, 0, 1, 4, 10)
	}
	for _, do := range []string{
		opPeek, opFlush, opExpire, opDelete, opReload, opHalfClose, opLastPut, opBlindTake,
	} {
		g.fonds[do] = pick(g, 0, 0, 1, 2)
	}
	for _, do := range []string{opStuff, opAnnounce, opBadEnd} { // what none should do
		g.fonds[do] = pick(g, 0, 0, 0, 1, 2)
	}
	g.fonds[opBlindPut] = pick(g, 0, 0, 2, 8)
	g.fonds[opMonitor] = pick(g, 0, 0, 1, 4)
	if g.messages {
		g.fondOfMessages()
	}
	if len(g.s.Settings) == 1 {
		g.fonds[opReload] = 0
	}
	g.calm = g.chance(2)
	g.steps = g.chance(4)
	if g.chance(2) {
		g.home = g.names[g.IntN(len(g.names))]
		if slices.Contains(g.names, "x") && g.chance(2) {
			g.home, g.fonds[opFlush] = "x", pick(g, 1, 4)
		}
	}
	if g.rough = g.chance(4); g.rough {
		g.calm = g.chance(2)
		g.s.Config.Speed.RunWrite = Latency{Usual: pick(g, 2*time.Millisecond, 20*time.Millisecond, 100*time.Millisecond)}
	}
	g.fitTheme()
	g.think = []time.Duration{0, time.Millisecond, pick(g, 0, 20*time.Millisecond, 500*time.Millisecond)}
}

func (g *generator) phase() Phase {
	if g.theme != "" && !g.chance(4) {
		return g.themed()
	}
	p := Phase{
		Length: pick(g, 20*time.Millisecond, 200*time.Millisecond, 2*time.Second, 20*time.Second),
		Rest:   g.chance(4),
		End:    pick(g, kill, kill, powerCut, powerCut, stop),
		Cut: segmenttest.CutOptions{
			Mode: pick(g, segmenttest.Tear, segmenttest.Lose, segmenttest.Lose, segmenttest.Keep), Seed: g.Uint64(),
		},
	}
	if !g.calm && !g.chance(3) {
		for range 1 + g.IntN(3) {
			p.Faults = append(p.Faults, g.fault())
		}
	}
	if g.rough && !g.calm && !g.chance(4) {
		p.Faults = append(p.Faults, Fault{
			Class: "run", Kind: pick(g, segmenttest.OpDatasync, segmenttest.OpDatasync, segmenttest.OpSyncDir),
			Nth: 1 + g.IntN(5), Count: pick(g, 1, 50), Errno: syscall.EIO,
		})
	}
	for g.steps && !g.chance(4) {
		p.Steps = append(p.Steps, g.step())
	}
	for range 1 + g.IntN(pick(g, 3, 8)) {
		p.Clients = append(p.Clients, g.client())
	}
	return p
}

// step makes up when the clock is set, and by how much it is off then: seconds, hours or days, fast or slow.
func (g *generator) step() Step {
	unit := pick(g, time.Second, time.Hour, 24*time.Hour)
	return Step{
		After: time.Duration(g.Int64N(int64(pick(g, time.Millisecond, 50*time.Millisecond, 2*time.Second)))),
		Off:   unit * time.Duration(g.IntN(61)-30),
	}
}

func (g *generator) fault() Fault {
	f := Fault{
		Class: pick(g, "journal", "run", "run", ""),
		Kind: pick(g, segmenttest.OpDatasync, segmenttest.OpDatasync, segmenttest.OpDatasync, segmenttest.OpWriteAt, segmenttest.OpSyncDir,
			segmenttest.OpCreate, segmenttest.OpOpen, segmenttest.OpReadAt, segmenttest.OpRename,
			segmenttest.OpRemove, segmenttest.OpWriteOut, segmenttest.OpList, segmenttest.OpOpenReadOnly),
		Nth:   1 + g.IntN(pick(g, 3, 20, 200)),
		Count: pick(g, 1, 1, 3, 50),
		Errno: pick(g, syscall.EIO, syscall.EIO, syscall.ENOSPC, syscall.EMFILE),
	}
	f.KeepDirty = g.chance(4)
	switch f.Kind {
	case segmenttest.OpOpen, segmenttest.OpOpenReadOnly, segmenttest.OpCreate, segmenttest.OpList:
	case segmenttest.OpSyncDir: // it opens the directory first
		f.KeepDirty = f.KeepDirty || f.Errno == syscall.EMFILE
	default:
		if f.Errno == syscall.EMFILE {
			f.Errno = syscall.EIO
		}
	}
	return f
}

func (g *generator) client() Client {
	c := Client{
		Protocol: pick(g, "engine", "engine", "memcache", "memcache", "memcache", "text", "thrift", "burrow"),
		Room:     pick(g, 100, 4<<10, 1<<20),
	}
	// A client mostly works on one queue, and is mostly a producer, a consumer, or both.
	home := g.home
	if home == "" || g.chance(4) {
		home = g.names[g.IntN(len(g.names))]
	}
	role := g.IntN(4)
	think := g.think[g.IntN(len(g.think))]
	lag := int64(float64(g.memory) * pick(g, 0.5, 1, 1.5, 3))
	if g.chance(4) {
		lag = 0
	}
	n := 1 + g.IntN(pick(g, 10, 50, 200))
	for range n {
		op := Op{Do: g.choose(role), Queue: home}
		if g.chance(10) {
			op.Queue = g.names[g.IntN(len(g.names))]
		}
		op = g.message(op)
		if think > 0 && !g.chance(3) {
			op.Think = time.Duration(g.Int64N(int64(think)))
		}
		switch op.Do {
		case opPut, opBlindPut, opDelay, opLastPut:
			op.N = pick(g, 1, 1, 1, 4)
			op.Size = 1 + g.IntN(2*g.size)
			op.Lag = lag
			if g.chance(100) {
				op.Size = pick(g, 10, 40) * g.size
			}
			if g.chance(20) && op.Do != opDelay && op.Queue != "x" && op.Queue != "alias" { // all in x expire in their order
				op.Wait = pick(g, time.Millisecond, time.Second, 10*time.Second)
			}
		case opTake, opOpen, opCloseOpen, opBlindTake, opLease, opMonitor:
			op.N = pick(g, 1, 1, 1, 5)
			if g.chance(3) {
				op.Wait = pick(g, time.Millisecond, 50*time.Millisecond, 2*time.Second)
			}
		case opConfirm, opAbort:
			op.N = g.IntN(8)
		case opStuff, opAnnounce:
			op.N, op.Size = pick(g, 1, 1, 10, 60), pick(g, 3, 3, 100, 1000)
		case opBadEnd:
			op.N, op.Size = g.IntN(4), 1+g.IntN(g.size)
		case opReload:
			op.N = g.IntN(len(g.s.Settings))
		}
		c.Ops = append(c.Ops, op)
	}
	return c
}

// choose picks what a client of a role does next.
func (g *generator) choose(role int) string {
	weights := maps.Clone(g.fonds)
	switch role {
	case 0: // producer
		for _, do := range []string{opTake, opOpen, opCloseOpen} {
			weights[do] = 0
		}
		weights[opPut] = 30
	case 1: // consumer
		weights[opPut] = 0
		if weights[opTake]+weights[opOpen]+weights[opCloseOpen] == 0 {
			weights[opTake] = 5
		}
	}
	total := 0
	names := slices.Sorted(maps.Keys(weights))
	for _, do := range names {
		total += weights[do]
	}
	at := g.IntN(total)
	for _, do := range names {
		if at -= weights[do]; at < 0 {
			return do
		}
	}
	panic("unreachable")
}

// String lists what the script does, a line for each client and fault.
func (s Script) String() string {
	var b strings.Builder
	c := s.Config
	fmt.Fprintf(&b, "  journal %d of segments of %d, memory %d, shards %d, loops %d, open reads %d\n",
		c.JournalSize, c.SegmentSize, c.MemoryLimit, c.Shards, c.Loops, c.MaxOpenReads)
	for i, p := range s.Phases {
		fmt.Fprintf(&b, "  process %d, %v at most, rest %t, then %s\n", i, p.Length, p.Rest, p.End)
		for _, f := range p.Faults {
			fmt.Fprintf(&b, "    fault: %s %v, from the %d. on, %d times: %v\n", f.Class, f.Kind, f.Nth, f.Count, f.Errno)
		}
		for _, c := range p.Clients {
			fmt.Fprintf(&b, "    %s:", c.Protocol)
			for i, op := range c.Ops {
				if i == maxListed {
					fmt.Fprintf(&b, " … %d more", len(c.Ops)-i)
					break
				}
				fmt.Fprintf(&b, " %s %s,", op.Do, op.Queue)
			}
			fmt.Fprintln(&b)
		}
	}
	return b.String()
}

// maxListed is how many requests of a client String lists.
const maxListed = 30
