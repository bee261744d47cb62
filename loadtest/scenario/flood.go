package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// floodWait is how long consumers that block wait for an item at a time, and how long a fetch of
// several collects them.
const floodWait = time.Second

// Flood has producers and consumers go at full speed.
type Flood struct {
	Items     int64
	Size      int // bytes
	Queue     string
	Prefill   int64 // items put before
	Producers int
	Consumers int
	Rollup    int  // items put, and fetched, at a time
	Blocking  bool // consumers wait for items, instead of asking again
}

// Name returns the scenario's name.
func (Flood) Name() string { return "flood" }

// Validate reports every problem of the options.
func (s Flood) Validate() error {
	var errs []error
	checkQueue(&errs, s.Queue)
	checkSize(&errs, s.Size)
	positive(&errs, "items", s.Items)
	positive(&errs, "producers", int64(s.Producers))
	positive(&errs, "consumers", int64(s.Consumers))
	positive(&errs, "rollup", int64(s.Rollup))
	if s.Prefill < 0 {
		errs = append(errs, fmt.Errorf("prefill is %d, want at least 0", s.Prefill))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	put, got := s.Prefill+s.puts()*int64(s.Producers), s.gets()*int64(s.Consumers)
	if got > put {
		return fmt.Errorf("%d consumers would read %d items in chunks of %d, but only %d are put",
			s.Consumers, got, s.Rollup, put)
	}
	return nil
}

// puts returns how many items each producer sends, and gets how many each consumer reads.
func (s Flood) puts() int64 {
	return s.chunks((s.Items + int64(s.Producers) - 1) / int64(s.Producers))
}

func (s Flood) gets() int64 { return s.chunks(max(s.Items/int64(s.Consumers), 1)) }

// chunks rounds up to whole chunks.
func (s Flood) chunks(n int64) int64 {
	r := int64(s.Rollup)
	return (n + r - 1) / r * r
}

func (s Flood) queues() []string { return []string{s.Queue} }

func (s Flood) run(ctx context.Context, e *Env) error {
	if s.Prefill > 0 {
		e.printf("prefill: %d items of %s", s.Prefill, sizeText(s.Size))
		fill := loadtest.Group{Operations: s.Prefill, ItemSize: s.Size, Queue: s.Queue, Pipeline: 16}
		if _, err := e.runPhase(ctx, phase{name: "prefill", groups: []loadtest.Group{fill}}); err != nil {
			return err
		}
	}
	e.printf("flood: producers=%d each sending %d items (in chunks of %d) of %s to %s", s.Producers,
		s.puts(), s.Rollup, sizeText(s.Size), s.Queue)
	e.printf("flood: consumers=%d each reading %d items (in chunks of %d) from %s", s.Consumers,
		s.gets(),
		s.Rollup, s.Queue)
	r, err := e.runPhase(ctx, phase{name: "flood", queues: s.queues(),
		groups: []loadtest.Group{s.producers(e.Protocol), s.consumers(e.Protocol)}})
	if err != nil {
		return err
	}
	e.printFinished(r.Wall, s.puts()*int64(s.Producers))
	e.printf("Consumer(s) spun %d times in misses.", r.Misses())
	if s.Prefill+s.puts()*int64(s.Producers) == s.gets()*int64(s.Consumers) {
		return e.allGot()
	}
	return nil
}

// sizeText prints a size as the original did, in kB, if it is one.
func sizeText(size int) string {
	if size%1024 == 0 {
		return fmt.Sprintf("%dkB", size/1024)
	}
	return fmt.Sprintf("%d bytes", size)
}

func (s Flood) producers(p loadtest.Protocol) loadtest.Group {
	g := loadtest.Group{
		Connections: s.Producers,
		ItemSize:    s.Size,
		Queue:       s.Queue,
		Operations:  s.puts() * int64(s.Producers),
	}
	if p == loadtest.Thrift {
		g.Burst = s.Rollup
		g.Operations /= int64(s.Rollup)
	} else {
		g.Pipeline = s.Rollup
	}
	return g
}

func (s Flood) consumers(p loadtest.Protocol) loadtest.Group {
	g := loadtest.Group{
		Operation:   loadtest.Get,
		Connections: s.Consumers,
		ItemSize:    s.Size,
		Queue:       s.Queue,
		Operations:  s.gets() * int64(s.Consumers),
		Hits:        true,
		Burst:       s.Rollup,
	}
	if s.Rollup > 1 && p == loadtest.Memcache {
		g.Operation = loadtest.Monitor
	}
	if s.Blocking || s.Rollup > 1 {
		g.Wait = floodWait
	}
	return g
}
