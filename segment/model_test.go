package segment_test

import (
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the model test")
	seedCount = flag.Uint64("seeds", 0, "number of seeds of the model test (default: 300, with -short 100)")
)

// modelRun is a log that lives through many crashes, with random calls in between.
type modelRun struct {
	rng     *rand.Rand
	disk    *segmenttest.FS
	s       *session
	promise promise // of the next open
	build   build
	crashed int
	clean   bool // nothing was torn when the last life ended
}

func newModelRun(seed uint64, b build) *modelRun {
	disk := segmenttest.New()
	return &modelRun{
		rng: rand.New(rand.NewPCG(seed, 0)), disk: disk, build: b,
		s: newSession(b(disk), segment.Options{}), promise: promiseWritten,
	}
}

// step draws one call.
func (m *modelRun) step() step {
	switch k := m.rng.IntN(24); {
	case k < 9:
		return appends(m.size())
	case k < 12:
		return syncs
	case k < 14:
		return prepares
	case k < 16:
		return drops(1 + m.rng.IntN(3))
	case k < 18:
		return marks
	case k < 19:
		return appends(m.size(), m.size(), m.size())
	case k < 21:
		return writesOut
	case k < 22:
		return syncsSealed
	case k < 23:
		return trims(m.rng.IntN(3))
	}
	return closes
}

func (m *modelRun) size() int {
	switch m.rng.IntN(8) {
	case 0:
		return 0
	case 1:
		return m.rng.IntN(3000)
	}
	return m.rng.IntN(300)
}

// life opens the log, uses it, and ends in a crash. It returns a violation, or nil.
func (m *modelRun) life() error {
	m.s.opts.SegmentSize = []int64{300, 512, 777, 1024, 2048}[m.rng.IntN(5)]
	m.s.opts.Spares = m.rng.IntN(4)
	if err := m.scan(); err != nil {
		return err
	}
	partial := m.rng.IntN(4) * m.rng.IntN(300)
	if m.rng.IntN(4) > 0 {
		m.disk.StopInWrite(1+m.rng.IntN(100), partial)
	}
	err := m.s.open(m.promise)
	if err == nil {
		if m.clean && m.s.found.Tear != nil {
			return violationf("nothing was torn, but found %+v", *m.s.found.Tear)
		}
		m.promise, m.clean = promiseWritten, partial == 0
		for range m.rng.IntN(60) {
			st := m.step()
			if err = st.do(m.s); err != nil || st.name == closes.name {
				break
			}
		}
	}
	if err != nil && !errors.Is(err, segmenttest.ErrStopped) {
		return err
	}
	ways := crashes(m.rng.Uint64(), 2)
	how := ways[m.rng.IntN(len(ways))]
	m.promise = min(m.promise, how.promise())
	m.clean = m.clean && how.kill
	m.disk = how.image(m.disk)
	m.s = m.s.on(m.build(m.disk))
	m.crashed++
	return nil
}

// scan compares what Scan sees with the model, and checks that it leaves everything alone.
func (m *modelRun) scan() error {
	var found []batch
	_, _, err := segment.Scan(m.s.fs, logDir, collect(&found))
	if n := m.disk.MutatingCalls(); n > 0 {
		return violationf("Scan made %d calls that change the disk", n)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the directory was not made yet
	}
	if err != nil {
		return err
	}
	return m.s.h.check(found, m.promise)
}

func TestModel(t *testing.T) {
	t.Parallel()
	count := *seedCount
	switch {
	case count > 0:
	case isSample():
		count = 30
	case testing.Short():
		count = 100
	default:
		count = 300
	}
	for seed := *firstSeed; seed < *firstSeed+count; seed++ {
		m := newModelRun(seed, sound)
		for range 20 {
			if err := m.life(); err != nil {
				t.Errorf("after %d crashes: %v\nreplay: go test -run TestModel -seed %d -seeds 1",
					m.crashed, err, seed)
				break
			}
		}
	}
	t.Logf("seeds %d to %d", *firstSeed, *firstSeed+count-1)
}
