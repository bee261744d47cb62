package segment_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// fault is calls of one kind that fail in one way.
type fault struct {
	kind  segmenttest.OpKind
	n     int // the first that fails, from 1
	good  bool
	err   error
	bytes int // that a failing write writes; -1 for all
}

func (f fault) String() string {
	times := "once"
	if f.good {
		times = "for good"
	}
	return fmt.Sprintf("%v %d fails %s with %v after %d bytes", f.kind, f.n, times, f.err, f.bytes)
}

// hook returns a fault hook, and whether it has struck.
func (f fault) hook() (hook func(segmenttest.Op) segmenttest.Fault, struck *bool) {
	struck = new(bool)
	return func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind != f.kind || op.KindN < f.n || op.KindN > f.n && !f.good {
			return segmenttest.Fault{}
		}
		*struck = true
		bytes := f.bytes
		if bytes < 0 {
			bytes = op.Size
		}
		return segmenttest.Fault{Err: f.err, Bytes: bytes}
	}, struck
}

// faultRun is a script that goes on after errors.
type faultRun struct {
	*session
	disk    *segmenttest.FS
	cause   error
	crashes *crashTest // what to do with a crash
}

// run does the steps whatever fails, and returns the first violation.
func (r *faultRun) run(steps []step) error {
	for i, st := range steps {
		if r.log == nil && st.name != opens.name {
			if err := r.do(opens); err != nil {
				return fmt.Errorf("step %d, open again: %w", i, err)
			}
			if err := r.crashed(); err != nil {
				return fmt.Errorf("step %d, crash after opening again: %w", i, err)
			}
		}
		if r.log == nil && st.name != opens.name {
			continue
		}
		if err := r.do(st); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, st.name, err)
		}
	}
	return nil
}

// do does a step and returns a violation, also if it fails in a way that the fault does not
// explain.
func (r *faultRun) do(st step) error {
	err := st.do(r.session)
	var broken violation
	switch {
	case errors.As(err, &broken):
		return err
	case err != nil && !errors.Is(err, r.cause):
		return violationf("error does not wrap %v: %v", r.cause, err)
	case errors.Is(err, segment.ErrPoisoned):
		return r.poisoned()
	case st.name == closes.name:
		if err := r.log.Close(); !errors.Is(err, segment.ErrClosed) {
			return violationf("Close of a closed log = %v", err)
		}
		r.log = nil
	}
	if r.log == nil {
		return leaks(r.disk)
	}
	return nil
}

// poisoned checks that a poisoned log refuses everything, and gives it up.
func (r *faultRun) poisoned() error {
	_, _, appendErr := r.log.Append(make([]byte, segment.FrameHeaderSize))
	_, syncErr := r.log.Sync()
	_, markErr := r.log.Mark()
	_, dropErr := r.log.DropBefore(1 << 60)
	for what, err := range map[string]error{
		"Append": appendErr, "Sync": syncErr, "Mark": markErr, "DropBefore": dropErr,
		"Prepare": r.log.Prepare(),
	} {
		closed := errors.Is(err, segment.ErrClosed) // if it was Close that failed
		if !closed && (!errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, r.cause)) {
			return violationf("%s of a poisoned log = %v", what, err)
		}
	}
	err := r.log.Close()
	if !errors.Is(err, segment.ErrPoisoned) && !errors.Is(err, segment.ErrClosed) {
		return violationf("Close of a poisoned log = %v", err)
	}
	r.log = nil
	return leaks(r.disk)
}

// after checks, with the fault over, that the log works and what a crash leaves of it.
func (r *faultRun) after() error {
	if err := r.crashed(); err != nil {
		return fmt.Errorf("crash after the fault: %w", err)
	}
	use := []step{appends(5, 900), syncs, prepares, appends(700), syncs}
	if r.log == nil {
		use = append([]step{opens}, use...)
	}
	if err := r.session.run(use); err != nil {
		return fmt.Errorf("after the fault: %w", err)
	}
	if err := r.crashed(); err != nil {
		return fmt.Errorf("crash after going on: %w", err)
	}
	if err := r.close(); err != nil {
		return fmt.Errorf("after the fault: close: %w", err)
	}
	return leaks(r.disk)
}

func (r *faultRun) crashed() error {
	if r.namesInDoubt {
		return r.on(r.disk.Kill()).open(promiseWritten)
	}
	ways := crashes(1, 1)
	r.crashes.images++ // each time another way
	for _, how := range []crash{ways[0], ways[1+r.crashes.images%(len(ways)-1)]} {
		if err := r.crashes.reopen(r.session, how.image(r.disk), how, false, 7); err != nil {
			return fmt.Errorf("%s: %w", how, err)
		}
	}
	return nil
}

// faultTest runs a script once for each call of each kind and each way it can fail.
type faultTest struct {
	crashTest
	kinds []segmenttest.OpKind
	runs  int
}

func allKinds() (kinds []segmenttest.OpKind) {
	for kind := segmenttest.OpCreate; kind <= segmenttest.OpClose; kind++ {
		kinds = append(kinds, kind)
	}
	return kinds
}

func (c *faultTest) run() {
	calm := segmenttest.New()
	if err := newSession(calm, c.opts).run(c.steps); err != nil {
		c.report(err, "without a fault")
		return
	}
	for _, kind := range c.kinds {
		for n := 1; n <= calm.Calls(kind) && !c.givesUp(); n += max(c.stride, 1) {
			for _, f := range faultsOf(kind, n) {
				c.runs++
				c.report(c.one(f), "%v", f)
			}
		}
	}
}

func faultsOf(kind segmenttest.OpKind, n int) []fault {
	eio := fault{kind: kind, n: n, err: syscall.EIO}
	list := []fault{eio, {kind: kind, n: n, err: syscall.EIO, good: true}}
	if kind == segmenttest.OpWriteAt {
		for _, bytes := range []int{1, 60, 520, -1} {
			list = append(list, fault{kind: kind, n: n, err: syscall.ENOSPC, bytes: bytes})
		}
	}
	return list
}

func (c *faultTest) one(f fault) error {
	disk := segmenttest.New()
	hook, struck := f.hook()
	disk.SetFault(hook)
	watch := &syncWatch{}
	r := &faultRun{
		session: newSession(watch.on(c.build(disk)), c.opts),
		disk:    disk, cause: f.err, crashes: &c.crashTest,
	}
	if err := r.run(c.steps); err != nil {
		return err
	}
	disk.SetFault(nil)
	if !*struck {
		return nil // an earlier run of the script took another course
	}
	if len(watch.broken) > 0 {
		return watch.broken[0]
	}
	return r.after()
}

func TestFaults(t *testing.T) {
	t.Parallel()
	c := faultTest{
		crashTest: crashTest{opts: smallOptions, steps: life, build: sound, stride: stride()}, kinds: allKinds(),
	}
	c.run()
	for _, err := range c.violations {
		t.Error(err)
	}
	t.Logf("%d runs", c.runs)
}
