package segment_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

var tears = flag.Int("tears", 4, "torn images, of each kind, of each stop in the crash test")

// crash is a way to lose what is not durable.
type crash struct {
	kill bool
	cut  segmenttest.CutOptions
}

func (c crash) String() string {
	if c.kill {
		return "kill"
	}
	return fmt.Sprintf("power cut %+v", c.cut)
}

func (c crash) promise() promise {
	if c.kill || c.cut.Mode == segmenttest.Keep {
		return promiseWritten
	}
	return promiseSynced
}

func (c crash) image(f *segmenttest.FS) *segmenttest.FS {
	if c.kill {
		return f.Kill()
	}
	return f.PowerCut(c.cut)
}

// crashes returns a kill, both extremes of a power cut, and for each seed two torn ones.
func crashes(seed uint64, tears int) []crash {
	list := []crash{
		{kill: true},
		{cut: segmenttest.CutOptions{Mode: segmenttest.Lose}},
		{cut: segmenttest.CutOptions{Mode: segmenttest.Keep}},
	}
	for i := range uint64(tears) {
		list = append(list,
			crash{cut: segmenttest.CutOptions{Seed: seed + i}},
			crash{cut: segmenttest.CutOptions{Seed: seed + i, ReorderMetadata: true}})
	}
	return list
}

// build wraps the file system, so that a negative control can break a promise of it.
type build func(*segmenttest.FS) segment.FS

func sound(f *segmenttest.FS) segment.FS { return f }

// crashTest stops a script at every call that changes the disk and reopens what crashes leave.
type crashTest struct {
	opts  segment.Options
	steps []step
	build build
	tears int // torn images of each kind, of each stop

	// For the negative controls; zero for none.
	ids    func() uint64 // of segments
	from   int           // stop to begin with
	enough int           // violations to give up after

	stride int // from one stop to the next; zero for 1

	stops, images int
	violations    []error
}

func (c *crashTest) report(err error, format string, args ...any) {
	if err != nil {
		c.violations = append(c.violations, fmt.Errorf(format+": %w", append(args, err)...))
	}
}

func (c *crashTest) givesUp() bool {
	return len(c.violations) >= 10 || c.enough > 0 && len(c.violations) >= c.enough
}

// run stops at one call after the other, until the script ends by itself, or there are violations enough.
func (c *crashTest) run() {
	for n := max(c.from, 1); !c.givesUp(); n += max(c.stride, 1) {
		f := segmenttest.New()
		partial := n * 37 % 700 // of a write that is stopped, so many bytes arrive
		if n%2 == 0 {
			partial = 0
		}
		f.StopInWrite(n, partial)
		s := newSession(c.build(f), c.opts)
		if c.ids != nil {
			s.opts = s.opts.WithIDs(c.ids)
		}
		err := s.run(c.steps)
		if err != nil && !errors.Is(err, segmenttest.ErrStopped) {
			c.report(err, "stop at %d", n)
			return
		}
		c.stops++
		for i, how := range crashes(uint64(1000*n), c.tears) {
			c.images++
			where := fmt.Sprintf("stop at %d (after %v), %s", n, err, how)
			image := how.image(f)
			if how.kill || i%4 == n%4 { // over all stops, every way of crashing has its turn
				err := c.recovery(s, image, how.promise(), uint64(n))
				c.report(err, "%s, crash in recovery", where)
			}
			c.report(c.reopen(s, image, how, partial == 0, uint64(n)), "%s", where)
		}
		if !f.Stopped() {
			return
		}
	}
}

// reopen opens the log of s on an image, uses it, crashes it again, and opens that.
func (c *crashTest) reopen(
	s *session, image *segmenttest.FS, how crash, clean bool, seed uint64,
) error {
	s = s.on(c.build(image))
	if err := s.open(how.promise()); err != nil {
		return err
	}
	if how.kill && clean && s.found.Tear != nil {
		return violationf("nothing is torn by a kill, but found %+v", *s.found.Tear)
	}
	for _, again := range crashes(seed, 1) { // what Open handed over is durable
		if err := s.on(c.build(again.image(image))).open(again.promise()); err != nil {
			return fmt.Errorf("%s after reopening: %w", again, err)
		}
	}
	use := []step{appends(5, 900), syncs, appends(70)}
	if err := s.run(use); err != nil {
		return err
	}
	for _, again := range crashes(seed, 1) {
		if err := s.on(c.build(again.image(image))).open(again.promise()); err != nil {
			return fmt.Errorf("%s after going on: %w", again, err)
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	return leaks(image)
}

// recovery stops the opening of the log of s on an image at every call, and opens what that leaves.
func (c *crashTest) recovery(s *session, image *segmenttest.FS, p promise, seed uint64) error {
	for n := 1; ; n++ {
		f := image.Kill()
		f.StopInWrite(n, n*61%200)
		opening := s.on(c.build(f))
		err := opening.open(p)
		if err == nil {
			return nil
		}
		if !errors.Is(err, segmenttest.ErrStopped) {
			return err
		}
		if err := leaks(f); err != nil {
			return fmt.Errorf("stop at %d: %w", n, err)
		}
		for _, how := range crashes(seed+uint64(n), 1) {
			if err := s.on(c.build(how.image(f))).open(min(p, how.promise())); err != nil {
				return fmt.Errorf("stop at %d, %s: %w", n, how, err)
			}
		}
	}
}

// isSample reports whether `make test` runs, and not CI: of what is long even with -short, it runs a sample.
func isSample() bool { return testing.Short() && os.Getenv("KESTREL_CI") == "" }

// stride is the step from one place of a crash, a fault or a damage to the next. With -short every fifth is tried, and
// every fifteenth in a sample.
func stride() int {
	switch {
	case isSample():
		return 15
	case testing.Short():
		return 5
	}
	return 1
}

func TestCrashEveryWrite(t *testing.T) {
	t.Parallel()
	c := crashTest{opts: smallOptions, steps: life, build: sound, tears: *tears, stride: stride()}
	c.run()
	for _, err := range c.violations {
		t.Error(err)
	}
	t.Logf("%d stops, %d images", c.stops, c.images)
}
