package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestCrashEveryWrite stops the machine at every call that changes the disk, in runs that do everything an engine can
// do. It checks what a kill and power cuts leave; see history.check.
//
// To replay a failure: go test ./engine -run TestCrashEveryWrite -seed N
func TestCrashEveryWrite(t *testing.T) { crashEveryWrite(t, false) }

// TestCrashEveryWriteOfBacklog is TestCrashEveryWrite with queues whose memory has room for hardly any item. So it
// also stops the machine in spills and fills, and while a run is recorded or removed.
func TestCrashEveryWriteOfBacklog(t *testing.T) { crashEveryWrite(t, true) }

func crashEveryWrite(t *testing.T, spilling bool) {
	first, seeds, tears := uint64(1), amount[uint64](2, 2, 40), amount[uint64](1, 2, 10)
	if spilling {
		tears = amount[uint64](1, 1, 10)
	}
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	stride := amount(sampled(15, 5), 1, 1)
	var met modelDid
	for seed := first; seed < first+seeds; seed++ {
		for n := 1; ; n += stride {
			c := newCrashRun(t, seed)
			if c.spilling = spilling; spilling {
				c.opts.JournalSize = 4096
			}
			c.fsys.StopInWrite(n, n*7%600) // of the last write, some bytes are there
			c.run(crashSteps)
			for _, err := range c.checkImages(tears) {
				t.Fatalf("stopped at call %d of seed %d, in %q: %v", n, seed, c.op, err)
			}
			if n/stride%10 == 9 {
				c.checkRecovery(t, n)
			}
			if !c.fsys.Stopped() {
				t.Logf("seed %d: stopped at every call of %d, in steps of %d; %+v", seed, n-1, stride, c.m.did)
				met.add(c.m.did)
				break
			}
		}
	}
	if *seedFlag == 0 && !met.all() {
		t.Errorf("the runs have met %+v, want some of each", met)
	}
}

const crashSteps = 150

// crashRun is a modelRun that notes its history.
type crashRun struct {
	*modelRun
	h     *history
	after func() // called after every operation; nil for nothing
}

func newCrashRun(t *testing.T, seed uint64) *crashRun {
	c := &crashRun{modelRun: newModelRun(t, seed), h: newHistory()}
	c.opts.SegmentSize, c.opts.Shards = 1024, 2
	c.noKill, c.calm = true, true
	c.keyed, c.busyKeys = seed%2 == 0, seed%2 == 0
	c.draw = c.crashSettings
	c.closed = c.h.ended
	c.wait = func(ticket Ticket) error {
		err := c.e.Commit(ticket)
		if err == nil {
			c.h.acknowledged(ticket)
		}
		return err
	}
	return c
}

// crashSettings has a queue of each policy, and a child whose policy differs from its parent's. It has items that
// expire into another queue or become dead letters, limits, and a queue that enters and leaves the journal.
func (c *crashRun) crashSettings() Settings {
	always := DefaultQueueOptions()
	always.ExpireTo = "dead"
	always.MaxDeliveries = 2
	always.RedeliveryDelay = Backoff{0, time.Second}
	periodic, never, limited := always, always, always
	periodic.Sync = SyncEvery(time.Second)
	never.Sync = SyncNever
	limited.MaxItems, limited.DiscardOldWhenFull = 3, true
	limited.OpenReadTimeout = time.Second
	limited.MaxDeliveries, limited.DeadLetterQueue = 1, "dead"
	if c.keyed && !c.spilling {
		limited.MaxKeys = 2
	}
	toggled := always
	toggled.KeepJournal = c.IntN(2) == 0
	dead := DefaultQueueOptions()
	if c.spilling {
		for i, o := range []*QueueOptions{&always, &periodic, &never, &limited, &toggled, &dead} {
			o.MaxMemorySize, o.DiscardOldWhenFull = []int64{300, 0, 1000}[i%3], false
			if o.ExpireTo != "" {
				o.ExpireTo = afterlife
			}
		}
		limited.MaxItems = 6
	}
	return Settings{Default: always, Queues: map[string]QueueOptions{
		"a": always, "a+x": never, "a+y": periodic,
		"b": limited, "b+x": never,
		"c": toggled, "dead": dead,
	}}
}

// run does steps operations, or as many as come before the machine stops.
func (c *crashRun) run(steps int) {
	c.op = "start"
	c.start()
	for c.step = 0; c.step < steps && !c.fsys.Stopped() && !c.Failed(); c.step++ {
		c.m.notified, c.notified = nil, nil
		if c.spilling && c.e != nil && c.IntN(2) == 0 {
			c.op = "spool"
			if spoolSome(c.e, 1+c.IntN(3)); c.fsys.Stopped() {
				break // from here on puts are refused, and the model would take them
			}
		}
		c.operate()
		end := LSN(0)
		if c.e != nil {
			end = c.e.journal.End()
		}
		c.h.did(end, wordModel(c.m.durable()))
		if c.fsys.Stopped() {
			break
		}
		c.compareTold()
		c.noteNumbers()
		c.noteWritten()
		if c.after != nil {
			c.after()
		}
	}
}

// checkImages checks what a crash now would leave.
func (c *crashRun) checkImages(tears uint64) (errs []error) {
	check := func(what string, image *segmenttest.FS, lsn LSN) {
		if err := c.h.check(image, c.h.oldest(lsn)); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", what, err))
		}
	}
	cut := func(what string, o segmenttest.CutOptions, lsn LSN) {
		check("power cut, "+what, c.fsys.PowerCut(o), lsn)
	}
	check("kill", c.fsys.Kill(), c.h.written)
	cut("everything kept", segmenttest.CutOptions{Mode: segmenttest.Keep}, c.h.written)
	cut("nothing kept", segmenttest.CutOptions{Mode: segmenttest.Lose}, c.h.synced)
	for seed := range tears {
		o := segmenttest.CutOptions{Mode: segmenttest.Tear, Seed: seed}
		cut(fmt.Sprint("torn, seed ", seed), o, c.h.synced)
		o.ReorderMetadata = true
		cut(fmt.Sprint("torn, names out of order, seed ", seed), o, c.h.synced)
	}
	return errs
}

// checkRecovery crashes a second time, at every call of the recovery from the first crash.
func (c *crashRun) checkRecovery(t *testing.T, n int) {
	for m := 1; ; m++ {
		image := c.fsys.PowerCut(segmenttest.CutOptions{Seed: uint64(n)})
		image.StopAt(m)
		o := testOptions(image)
		o.SegmentSize = 1024
		e, err := open(o)
		if !image.Stopped() {
			if err == nil {
				e.Close()
			}
			return
		}
		torn := image.PowerCut(segmenttest.CutOptions{Seed: uint64(m)})
		for _, again := range []*segmenttest.FS{image.Kill(), torn} {
			if err := c.h.check(again, c.h.oldest(c.h.synced)); err != nil {
				t.Fatalf("stopped at call %d of seed %d, and at call %d of the recovery: %v",
					n, c.seed, m, err)
			}
		}
	}
}
