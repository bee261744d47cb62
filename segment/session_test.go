package segment_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

const logDir = "data/log"

// session is the use of one log over several lives, along with what it must hold. Its methods do
// what those of the log do, keep the history, and check it at every open.
type session struct {
	fs    segment.FS
	opts  segment.Options
	h     *history
	log   *segment.Log
	found segment.Recovery // by the last open
	buf   []byte
	count uint64 // batches made

	// namesInDoubt says that the directory could not be synced behind a drop. A kill does no harm
	// then, but after a power cut a dropped segment may be back.
	namesInDoubt bool
}

// idSource returns a source of segment ids that gives the same ones in every run.
func idSource() func() uint64 {
	n := uint64(0)
	return func() uint64 {
		n++
		return n * 0x9e3779b97f4a7c15
	}
}

func newSession(fsys segment.FS, opts segment.Options) *session {
	opts.FS = fsys
	return &session{fs: fsys, opts: opts.WithIDs(idSource()), h: &history{}}
}

// on returns a session that goes on with the same log on an image of the disk.
func (s *session) on(fsys segment.FS) *session {
	c := *s
	c.fs, c.opts.FS, c.h, c.log, c.buf = fsys, fsys, s.h.clone(), nil, nil
	return &c
}

// open opens the log and checks what it hands over.
func (s *session) open(p promise) error {
	var found []batch
	log, report, err := segment.Open(logDir, s.opts, collect(&found))
	s.found = report
	if errors.Is(err, segment.ErrCorrupt) {
		return violationf("sound log is taken for damaged: %v", err)
	}
	if err != nil {
		return err
	}
	s.log = log
	if err := s.h.check(found, p); err != nil {
		return err
	}
	if report.Frames != uint64(len(found)) {
		return violationf("Recovery.Frames = %d, but %d were handed over", report.Frames, len(found))
	}
	s.h.reopened(found)
	return checkSegments(log.Segments())
}

func checkSegments(all []segment.Segment) error {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.Number+1 != b.Number || a.End != b.Base {
			return violationf("segments %+v and %+v do not meet", a, b)
		}
	}
	return nil
}

// payload returns n bytes that no other call returns, so far as n bytes can differ.
func (s *session) payload(n int) []byte {
	s.count++
	rng := rand.New(rand.NewPCG(s.count, uint64(n)))
	p := make([]byte, (n+7)&^7)
	for i := 0; i < len(p); i += 8 {
		binary.LittleEndian.PutUint64(p[i:], rng.Uint64())
	}
	return p[:n]
}

// append appends a batch of n bytes.
func (s *session) append(n int) error { return s.appendAs(segment.Version1, n) }

func (s *session) appendAs(version segment.Version, n int) error {
	payload := s.payload(n)
	s.buf = append(append(s.buf[:0], make([]byte, segment.FrameHeaderSize)...), payload...)
	at, buf, err := s.log.AppendAs(version, s.buf)
	s.buf = buf
	if err != nil {
		if !errors.Is(err, segment.ErrPoisoned) && !errors.Is(err, segment.ErrClosed) {
			s.h.pending = payload
		}
		return err
	}
	size := segment.Position(segment.FrameHeaderSize+n+7) &^ 7
	s.h.batches = append(s.h.batches, batch{at.End - size, at.Segment, payload})
	s.h.pending = nil
	return nil
}

func (s *session) sync() error {
	n := len(s.h.batches)
	watermark, err := s.log.Sync()
	if err != nil {
		return err
	}
	s.h.synced = max(s.h.synced, n)
	if n > 0 && watermark <= s.h.batches[n-1].position {
		return violationf("Sync = %d, before the last batch at %d", watermark, s.h.batches[n-1].position)
	}
	return nil
}

// drop drops all segments but the last keep.
func (s *session) drop(keep int) error {
	all := s.log.Segments()
	if len(all) <= keep {
		return nil
	}
	number := all[len(all)-keep].Number
	s.h.askedTo = max(s.h.askedTo, number)
	n, err := s.log.DropBefore(number)
	s.h.goneTo = max(s.h.goneTo, all[n].Number)
	s.namesInDoubt = err != nil
	if left := s.log.Segments(); left[0].Number != all[n].Number {
		return violationf("DropBefore = %d, but the first segment went from %d to %d",
			n, all[0].Number, left[0].Number)
	}
	return err
}

// mark does what a caller does when the log is idle.
func (s *session) mark() error {
	if _, err := s.log.Mark(); err != nil {
		return err
	}
	return s.sync()
}

func (s *session) close() error {
	err := s.log.Close()
	if err == nil {
		s.h.synced = len(s.h.batches)
	}
	return err
}

// step is one call of a script.
type step struct {
	name string
	do   func(*session) error
}

func appends(sizes ...int) step {
	return step{fmt.Sprint("append ", sizes), func(s *session) error {
		for _, n := range sizes {
			if err := s.append(n); err != nil {
				return err
			}
		}
		return nil
	}}
}

func drops(keep int) step {
	return step{fmt.Sprint("drop all but ", keep), func(s *session) error { return s.drop(keep) }}
}

var (
	opens    = step{"open", func(s *session) error { return s.open(promiseWritten) }}
	syncs    = step{"sync", (*session).sync}
	marks    = step{"mark", (*session).mark}
	closes   = step{"close", (*session).close}
	prepares = step{"prepare", func(s *session) error { return s.log.Prepare() }}

	writesOut = step{"write out", func(s *session) error { return s.log.WriteOut() }}
	raises    = step{"append as version 2", func(s *session) error { return s.appendAs(segment.Version2, 80) }}
	// What it makes durable is not noted: a crash may leave more than was promised.
	syncsSealed = step{"sync sealed", func(s *session) error { return s.log.SyncSealed() }}
)

func trims(keep int) step {
	return step{fmt.Sprint("trim spares to ", keep), func(s *session) error {
		return s.log.TrimSpares(keep)
	}}
}

// life is a script in which everything a log does happens at least once. Segments rotate with and
// without a successor prepared, from new files and from spares. There are a frame larger than a
// segment, one of a later version, drops, marks, parts written out, spares given back, closing and reopening.
var life = []step{
	opens, appends(10), syncs, appends(200, 3), prepares, appends(600, 0), writesOut, syncs,
	appends(300, 300, 300), syncs, drops(2), marks, appends(2500), prepares, syncsSealed,
	appends(700, 40), syncs, drops(1), prepares, raises, closes,
	opens, appends(400, 500), drops(1), prepares, syncs, appends(600, 1), appends(700), drops(2),
	prepares, appends(800), marks, drops(1), trims(0), trims(0), prepares, appends(33), marks,
}

// smallOptions make every part of a log happen within a few kilobytes.
var smallOptions = segment.Options{SegmentSize: 1024, Spares: 1}

// run does the steps until one fails.
func (s *session) run(steps []step) error {
	for i, st := range steps {
		if err := st.do(s); err != nil {
			return fmt.Errorf("step %d, %s: %w", i, st.name, err)
		}
	}
	return nil
}

// leaks returns a violation if a file is open on f.
func leaks(f *segmenttest.FS) error {
	if open := f.OpenFiles(); len(open) > 0 {
		return violationf("files left open: %q", open)
	}
	return nil
}
