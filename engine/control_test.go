package engine

import (
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/journal"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// controlSeeds is how many runs a broken engine has to be found out in.
const controlSeeds = 5

// TestControls breaks the contract on purpose, in one way after the other, and shows that the check
// of TestCrashEveryWrite finds each.
func TestControls(t *testing.T) {
	for _, tt := range []struct {
		name    string
		breaks  func(c *crashRun)
		found   string // in one of the complaints
		without string // … of images of which another check would complain
	}{
		// Datasync says that it has synced, and has not: a power cut takes what was acknowledged.
		{"disk that does not sync", func(c *crashRun) {
			c.disk = func() segment.FS { return &hookFS{FS: c.fsys, datasync: leftOut} }
		}, "power cut, nothing kept", "kill"},
		// SyncDir says that it has synced, and has not: a power cut takes a segment's name.
		{"disk that does not sync names", func(c *crashRun) {
			c.disk = func() segment.FS { return &hookFS{FS: c.fsys, syncDir: leftOut} }
		}, "power cut, nothing kept", "kill"},
		// The reply leaves before Commit has written: even the death of the process takes the item.
		{"reply before the write", func(c *crashRun) {
			c.wait = func(ticket Ticket) error {
				c.h.acknowledged(ticket)
				return c.e.Commit(ticket)
			}
		}, "kill", ""},
		// The reply leaves when the item is written, though its queue says that it must be synced.
		{"reply before the sync", func(c *crashRun) {
			c.wait = func(ticket Ticket) error {
				err := c.e.Commit(Ticket{Written: max(ticket.Written, ticket.Synced)})
				if err == nil {
					c.h.acknowledged(ticket)
				}
				return err
			}
		}, "power cut, nothing kept", "kill"},
		// A confirm is not recorded: the item comes back.
		{"confirm without a record", func(c *crashRun) {
			skipRecords(c, "confirm")
		}, "kill", ""},
		// A put is not recorded: it is lost.
		{"put without a record", func(c *crashRun) {
			skipRecords(c, "put")
		}, "kill", ""},
		// Segments are dropped though items in them are needed.
		{"trim drops too much", func(c *crashRun) {
			c.after = func() {
				if c.op == "trim" {
					c.e.journal.DropBefore(c.e.journal.Segment())
				}
			}
		}, "kill", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var complaints []string
			about := func(image string) bool {
				return slices.ContainsFunc(complaints, func(complaint string) bool {
					return image != "" && strings.HasPrefix(complaint, image)
				})
			}
			for seed := uint64(1); seed <= controlSeeds && !about(tt.found); seed++ {
				complaints = append(complaints, controlRun(t, seed, tt.breaks)...)
			}
			if !about(tt.found) {
				t.Errorf("the check did not complain of %q", tt.found)
			}
			if about(tt.without) {
				t.Errorf("the check complained of %q", tt.without)
			}
		})
	}
	if complaints := controlRun(t, 1, func(*crashRun) {}); len(complaints) > 0 {
		t.Errorf("the check complains of an engine that keeps the contract: %s", complaints[0])
	}
}

// controlRun stops runs of a broken engine here and there and returns the complaints.
func controlRun(t *testing.T, seed uint64, breaks func(*crashRun)) (complaints []string) {
	for n := 5; ; n += 11 {
		c := newCrashRun(t, seed)
		breaks(c)
		c.noRestart = true
		c.fsys.StopAt(n)
		c.run(crashSteps)
		for _, err := range c.checkImages(1) {
			complaints = append(complaints, err.Error())
		}
		if !c.fsys.Stopped() {
			return complaints
		}
	}
}

// leftOut is a hook that leaves the call out.
func leftOut(func() error) error { return nil }

// cutter is a log that leaves parts of the next batch out.
type cutter struct {
	*segment.Log
	appends *int
	cuts    *[][2]int // offsets in the records of the batch, in ascending order
}

func (l cutter) AppendAs(v segment.Version, buf []byte) (segment.Appended, []byte, error) {
	for _, cut := range slices.Backward(*l.cuts) {
		buf = slices.Delete(buf, segment.FrameHeaderSize+cut[0], segment.FrameHeaderSize+cut[1])
	}
	*l.appends, *l.cuts = *l.appends+1, nil
	return l.Log.AppendAs(v, buf)
}

// skipRecords cuts the records of operations out of the journal's buffer, if they are still in it.
func skipRecords(c *crashRun, operation string) {
	var (
		appends, generation, before int // batches that are written; at the end of the last operation; bytes then
		cuts                        [][2]int
	)
	c.opts.committer = func(log *segment.Log) journal.Committer { return cutter{log, &appends, &cuts} }
	c.after = func() {
		gathered := len(unwritten(c.e))
		if strings.HasPrefix(c.op, operation) && appends == generation && gathered > before {
			cuts = append(cuts, [2]int{before, gathered})
			for _, q := range c.m.queues {
				if live := c.e.shardOf([]byte(q.name)).queues[q.name]; live != nil {
					live.removal = journal.Removal{}
				}
			}
		}
		before, generation = gathered, appends
	}
}

// TestControlOfPolicy takes what queues that do not sync acknowledge for durable. The check must
// find that a power cut takes it, or it would prove nothing about the others.
func TestControlOfPolicy(t *testing.T) {
	lost := 0
	for n := 5; n < 100; n += 5 {
		c := newCrashRun(t, 2)
		c.fsys.StopAt(n)
		c.run(crashSteps)
		image := c.fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
		if c.h.check(image, c.h.oldest(c.h.written)) != nil {
			lost++
		}
	}
	if lost == 0 {
		t.Error("no power cut took what was written and not synced")
	}
}
