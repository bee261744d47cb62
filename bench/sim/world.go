package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// world carries out a script: one data directory, and one process after the other that uses it.
type world struct {
	script Script
	ledger *ledger
	fs     *segmenttest.FS
	log    *slog.Logger
	skip   map[string]bool // laws that are not looked at

	// Of the process that lives.
	disk    *disk
	engine  *engine.Engine
	server  *netloop.Pipes
	over    atomic.Bool // it ends, or has ended
	clients []*caller
	callers sync.WaitGroup
	reloads sync.Mutex

	clock time.Duration // by which the server's clock is off

	ops   atomic.Int64
	stats Figures

	putBefore int64 // bytes that all processes before have been given to put
	opsBefore int64
}

// Figures are what a simulation has done.
type Figures struct {
	Seeds, Ops, Restarts, Faults, FileOps, Delivered, Acked int64
	Virtual                                                 time.Duration
}

func (f *Figures) add(o Figures) {
	f.Seeds += o.Seeds
	f.Ops += o.Ops
	f.Restarts += o.Restarts
	f.Faults += o.Faults
	f.FileOps += o.FileOps
	f.Delivered += o.Delivered
	f.Acked += o.Acked
	f.Virtual += o.Virtual
}

// dataDir is where the simulated server keeps its data.
const dataDir = "data"

// simulate carries out a script and returns the laws that were broken.
func simulate(s Script, skip map[string]bool, trace bool) ([]problem, Figures) {
	w := &world{script: s, ledger: newLedger(s.Settings[0]), fs: segmenttest.New(), skip: skip}
	w.log = slog.New(slog.DiscardHandler)
	for _, p := range s.Phases {
		w.ledger.stepped = w.ledger.stepped || len(p.Steps) > 0
	}
	if trace {
		w.log = slog.New(slog.NewTextHandler(logEvents{}, nil))
		w.ledger.traced = func(format string, args ...any) { fmt.Fprintf(logEvents{}, format+"\n", args...) }
	}
	w.log = slog.New(listener{w.log.Handler(), w})
	began := time.Now()
	w.setClock(0)
	for i := range s.Phases {
		w.note("phase", "number", i, "end", s.Phases[i].End)
		if !w.phase(i) || w.failed() {
			break
		}
	}
	w.stats.Seeds, w.stats.Ops = 1, w.ops.Load()
	w.stats.Delivered, w.stats.Acked = int64(w.ledger.delivered), int64(w.ledger.acked)
	w.stats.Virtual = time.Since(began)
	return w.problems(), w.stats
}

func (w *world) note(what string, args ...any) { w.log.Info(what, args...) }

func (w *world) problems() (all []problem) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	for _, p := range w.ledger.problems {
		if !w.skip[p.Law] {
			all = append(all, p)
		}
	}
	return all
}

func (w *world) failed() bool { return len(w.problems()) > 0 }

func (w *world) options(fs *disk) engine.Options {
	c := w.script.Config
	o := engine.Options{
		Dir: dataDir, Settings: w.ledger.set, MemoryLimit: c.MemoryLimit, JournalSize: c.JournalSize,
		SegmentSize: c.SegmentSize, Shards: c.Shards, SweepInterval: c.SweepInterval, NoHistograms: true,
		BacklogCached: c.Cached, FS: fs, Logger: w.log, Files: c.Files, DiskReserve: c.DiskReserve,
	}
	if w.ledger.traced != nil {
		o.Settings.Queues = maps.Clone(o.Settings.Queues)
		for name, q := range o.Settings.Queues {
			q.Trace = true
			o.Settings.Queues[name] = q
		}
	}
	return o
}

// phase lets one process live. It reports whether there can be another.
func (w *world) phase(i int) bool {
	p := w.script.Phases[i]
	goroutines := runtime.NumGoroutine()
	w.disk = newDisk(w.fs, w.script.Config.Speed, w.script.Seed+uint64(i), p.Faults)
	if w.disk.size = w.script.Config.DiskSize; w.disk.size > 0 {
		w.fs.DiskFull(w.disk.size)
	}
	w.disk.mostJournal, w.disk.traced = w.mostJournal, w.ledger.traced
	w.ledger.faulty = func() bool { return w.disk.faultsFired() > 0 }
	if !w.open() {
		return false
	}
	w.begin(p)
	clients := make(chan struct{})
	go func() {
		w.callers.Wait()
		close(clients)
	}()
	stepped := w.stepClock(p.Steps)
	watch := w.watch()
	limit := time.NewTimer(p.Length)
	select {
	case <-clients:
	case <-limit.C:
		if p.Rest {
			w.over.Store(true)
			w.idle()
		}
	}
	limit.Stop()
	if p.Rest {
		w.rest(p, clients, func() {
			for _, c := range w.clients {
				c.forgetReads()
				c.link.reset(false)
			}
		})
	}
	watch()
	stepped()
	w.checkWrites()
	how := w.end(p)
	<-clients
	w.stats.Restarts++
	w.putBefore, w.opsBefore = w.ledger.offered(), w.ops.Load()
	w.tidy(goroutines, p)
	if w.failed() {
		return false
	}
	if !w.look(how) {
		return false
	}
	w.lookAtDamage(i)
	return !w.failed()
}

// open starts an engine on the disk. If a fault keeps it from starting, it is started once more.
func (w *world) open() bool {
	var err error
	w.disk.starting(true)
	defer w.disk.starting(false)
	for range 2 {
		if w.engine, err = engine.Open(w.options(w.disk)); err == nil {
			break
		}
		fired := w.disk.faultsFired()
		if fired == 0 {
			break
		}
		w.note("start failed", "err", err)
		w.disk.rest(0)
		w.disk.opens = 0 // such a process ends
	}
	if err != nil {
		w.ledger.report("start", "%v", err)
		return false
	}
	if err := w.engine.Verify(); err != nil {
		w.ledger.report("verify", "after a start: %v", err)
		return false
	}
	if w.disk.faultsFired() > 0 {
		w.ledger.startFailing()
	}
	return true
}

// begin starts the server and its clients.
func (w *world) begin(p Phase) {
	c := w.script.Config
	w.over.Store(false)
	var err error
	w.server, err = netloop.NewPipes(netloop.Options{
		Engine: w.engine, Loops: c.Loops, MaxOpenReads: c.MaxOpenReads, MaxPending: c.MaxPending,
		MaxConnections: c.MaxConnections, ClientTimeout: c.ClientTimeout,
		NoHistograms: true, ShutdownGrace: time.Second, Logger: w.log,
	}, c.HandOff)
	if err != nil {
		panic(err)
	}
	w.server.Start()
	_, fan := w.ledger.set.Queues["fan+1"]
	w.ledger.children = fan
	for _, child := range []string{"fan+1", "fan+2"} {
		if fan {
			t, err := w.engine.Create(engine.Now(), []byte(child))
			w.ledger.children = w.ledger.children && err == nil && w.engine.Commit(t) == nil
		}
	}
	w.clients, w.ledger.began = nil, time.Now()
	for _, client := range p.Clients {
		caller := &caller{w: w, client: client, asker: asker{protocol: client.Protocol}}
		w.clients = append(w.clients, caller)
		w.callers.Go(caller.run)
	}
}

// dial connects a caller.
func (w *world) dial(c *caller) link {
	switch c.client.Protocol {
	case "engine":
		return newEngineLink(w.engine)
	case "text":
		return &textLink{pipe: pipe{conn: w.server.Dial(netloop.PipeText, c.client.Room)}}
	case "burrow":
		return &burrowLink{pipe: pipe{conn: w.server.Dial(netloop.PipeBurrow, c.client.Room)}}
	case "thrift":
		return &thriftLink{pipe: pipe{conn: w.server.Dial(netloop.PipeThrift, c.client.Room)}}
	}
	return &memcacheLink{pipe: pipe{conn: w.server.Dial(netloop.PipeMemcache, c.client.Room), trace: w.ledger.traced}}
}

// reload goes over to other settings.
func (w *world) reload(n int) {
	w.reloads.Lock()
	defer w.reloads.Unlock()
	if n >= len(w.script.Settings) {
		return
	}
	w.ledger.reloading()
	err := w.engine.Reload(w.script.Settings[n])
	w.ledger.reloaded(w.script.Settings[n], err == nil)
}

// stepClock sets the clock of the server as steps say, until the function that it returns is called. What
// it was set to last holds for the processes that come.
func (w *world) stepClock(steps []Step) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for _, s := range steps {
			select {
			case <-done:
				return
			case <-time.After(s.After):
				w.note("the clock is set", "off", s.Off)
				w.setClock(s.Off)
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// setClock sets the clock of the server, which is off by so much from then on.
func (w *world) setClock(off time.Duration) {
	w.clock = off
	setClock(off)
}

// idle waits until callers that are in the middle of something have had their time.
func (w *world) idle() { time.Sleep(5 * time.Second) }

// watch looks at the server every few milliseconds until the function that it returns is called.
func (w *world) watch() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				w.checkMemory()
				w.checkConnections()
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// end ends the process as the phase says, and makes of the disk what is left of it.
func (w *world) end(p Phase) crash {
	fired := w.disk.faultsFired()
	how := crash{at: time.Now(), faulty: fired > 0}
	ctx, cancel := context.WithCancel(context.Background())
	if p.End == stop {
		w.ledger.stops()
		w.over.Store(true)
		w.server.Shutdown(ctx)
		err := w.engine.Close()
		fired = w.disk.faultsFired()
		if err != nil && fired == 0 {
			w.ledger.report("stop", "%v", err)
		}
		w.ledger.died()
		cancel()
		how.at, how.stop = time.Now(), true
		w.afterwards()
		return how
	}
	cancel()
	if err := w.engine.Verify(); err != nil {
		w.ledger.report("verify", "before the end: %v", err)
	}
	w.over.Store(true)
	how.at = time.Now()
	if how.cut = p.End == powerCut; how.cut {
		image := w.fs.PowerCut(p.Cut)
		w.ledger.died()
		w.bury(ctx)
		w.fs = image
		return how
	}
	image := w.fs.Kill()
	w.ledger.died()
	w.bury(ctx)
	w.fs = image
	return how
}

// bury lets what is left of a dead process come to an end.
func (w *world) bury(ctx context.Context) {
	w.disk.kill()
	w.server.Shutdown(ctx)
	w.engine.Close()
	w.afterwards()
}

func (w *world) afterwards() {
	_, _, calls := w.disk.written()
	fired := w.disk.faultsFired()
	w.stats.FileOps += calls
	w.stats.Faults += int64(fired)
}

// tidy checks that nothing is left of the process.
func (w *world) tidy(goroutines int, p Phase) {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	w.ledger.frozen = false
	for range 100 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		w.ledger.violate("goroutines", "%d are left of a process that has ended\n%s", n-goroutines, stacks())
	}
	if most := w.script.Config.Files; most > 0 && w.disk.maxOpens > most {
		w.ledger.violate("descriptors", "%d files were open, of %d", w.disk.maxOpens, most)
	}
	if w.disk.opens > 0 && p.End == stop {
		w.ledger.violate("descriptors", "%d files are open after the end: %v", w.disk.opens, w.disk.OpenFiles())
	}
}

func stacks() string {
	buf := make([]byte, 1<<16)
	return string(buf[:runtime.Stack(buf, true)])
}

func (how crash) String() string {
	switch {
	case how.live:
		return "look"
	case how.cut:
		return "power cut"
	case how.stop:
		return "stop"
	}
	return "kill"
}
