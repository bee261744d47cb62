package segment_test

import (
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestAppendAndVisit(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 4096})
	first := s.log.Watermark() // all of a new log is durable
	buf := append(bytes.Repeat([]byte{0xff}, segment.FrameHeaderSize), "hello"...)
	at, buf, err := s.log.Append(buf) // what was in the header room does not matter
	must(t, err)
	if at.Segment != 1 || at.End != first+48 {
		t.Errorf("Append = %+v, want the end at %d in segment 1", at, first+48)
	}
	if got := s.log.Watermark(); got != first {
		t.Errorf("Watermark after Append = %d, want %d still", got, first)
	}
	synced, err := s.log.Sync()
	must(t, err)
	if synced != at.End || s.log.Watermark() != at.End {
		t.Errorf("Sync = %d, Watermark %d, want %d", synced, s.log.Watermark(), at.End)
	}
	buf = append(buf[:segment.FrameHeaderSize], "again"...)
	_, _, err = s.log.Append(buf)
	must(t, err)

	var frames []segment.Frame
	_, tear, err := segment.Scan(disk, logDir, func(f segment.Frame) error {
		f.Payload = bytes.Clone(f.Payload)
		frames = append(frames, f)
		return nil
	})
	must(t, err)
	if len(frames) != 2 || tear != nil {
		t.Fatalf("Scan visits %d frames, tear %+v, want 2 and none", len(frames), tear)
	}
	for i, want := range []segment.Frame{
		{Payload: []byte("hello"), Offset: int64(first), Position: first, Watermark: first},
		{Payload: []byte("again"), Offset: int64(at.End), Position: at.End, Watermark: at.End},
	} {
		f := frames[i]
		if f.Kind != segment.KindBatch || f.Segment != 1 || f.Path != segmentPath('1') ||
			!bytes.Equal(f.Payload, want.Payload) || f.Offset != want.Offset ||
			f.Position != want.Position || f.Watermark != want.Watermark ||
			f.Next() != f.Position+48 {
			t.Errorf("frame %d = %+v, want %+v", i, f, want)
		}
	}
}

func TestAppendRefusesSizes(t *testing.T) {
	s, disk := start(t, smallOptions)
	if err := segment.CheckPayloadSize(segment.MaxPayloadSize); err != nil {
		t.Errorf("a payload of MaxPayloadSize: %v", err)
	}
	err := segment.CheckPayloadSize(segment.MaxPayloadSize + 1)
	if !errors.Is(err, segment.ErrTooLarge) {
		t.Errorf("a payload of MaxPayloadSize+1: %v, want ErrTooLarge", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Append of a buffer without header room does not panic")
		}
		must(t, s.close()) // no lock is left held
		must(t, leaks(disk))
	}()
	s.log.Append(make([]byte, segment.FrameHeaderSize-1))
}

// shortWriter breaks the contract of io.WriterAt: it writes less than asked and says nothing.
type shortWriter struct {
	segment.File
	short *bool
}

func (w shortWriter) WriteAt(p []byte, off int64) (int, error) {
	if *w.short {
		return w.File.WriteAt(p[:len(p)/2], off)
	}
	return w.File.WriteAt(p, off)
}

func TestAppendAfterFailedWrite(t *testing.T) {
	for _, whole := range []int{0, 1, 39, 40, 41, 200, 1000} {
		s, disk := start(t, smallOptions, appends(30))
		last := s.h.batches[0].position
		disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			return segmenttest.Fault{Err: syscall.EIO, Bytes: whole}
		})
		if err := s.append(100); !errors.Is(err, syscall.EIO) {
			t.Errorf("Append with a failing write = %v, want EIO", err)
		}
		disk.SetFault(nil)
		must(t, s.append(20)) // smaller: what is left of the failed one is behind it
		if got := s.h.batches[1].position; got != last+72 {
			t.Errorf("after a write that failed behind %d bytes, Append goes to %d, want %d",
				whole, got, last+72)
		}
		must(t, s.on(disk.Kill()).open(promiseWritten))
	}
}

func TestAppendAfterShortWrite(t *testing.T) {
	disk, short := segmenttest.New(), false
	s := newSession(wrapFS{disk, func(_ string, f segment.File) segment.File {
		return shortWriter{f, &short}
	}}, smallOptions)
	must(t, s.run([]step{opens, appends(30)}))
	short = true
	if err := s.append(100); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Append with a short write = %v, want ErrShortWrite", err)
	}
	short = false
	must(t, s.append(20))
	must(t, s.on(disk.Kill()).open(promiseWritten))
}

func TestSyncSyncsWhatIsNew(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10))
	for i, want := range []int{1, 0, 0} {
		before := disk.Calls(segmenttest.OpDatasync)
		must(t, s.sync())
		if got := disk.Calls(segmenttest.OpDatasync) - before; got != want {
			t.Errorf("Sync %d syncs %d files, want %d", i, got, want)
		}
	}
	must(t, s.run([]step{appends(600), appends(600), appends(600)})) // three segments
	before := disk.Calls(segmenttest.OpDatasync)
	must(t, s.sync())
	if got := disk.Calls(segmenttest.OpDatasync) - before; got != 3 {
		t.Errorf("Sync syncs %d files, want 3", got)
	}
	if open := disk.OpenFiles(); len(open) != 1 {
		t.Errorf("open files after Sync: %q, want the tail", open)
	}
}

func TestPoison(t *testing.T) {
	watch := &syncWatch{}
	disk := segmenttest.New()
	s := newSession(watch.on(disk), smallOptions)
	must(t, s.run([]step{opens, appends(10), prepares}))
	failNext(disk, segmenttest.OpDatasync, syscall.EIO)
	before := s.log.Watermark()
	if _, err := s.log.Sync(); !errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Sync = %v, want ErrPoisoned and EIO", err)
	}
	if got := s.log.Watermark(); got != before {
		t.Errorf("Watermark = %d after a failed sync, want %d still", got, before)
	}
	if s.log.NeedsPrepare() {
		t.Error("a poisoned log wants a segment prepared")
	}
	calls := disk.MutatingCalls()
	run := &faultRun{session: s, disk: disk, cause: syscall.EIO}
	must(t, run.poisoned())
	if got := disk.MutatingCalls() - calls; got != 0 || len(watch.broken) > 0 {
		t.Errorf("a poisoned log makes %d calls that change the disk: %v", got, watch.broken)
	}
	must(t, s.on(disk.Kill()).open(promiseWritten))
	must(t, s.on(disk.PowerCut(segmenttest.CutOptions{})).open(promiseSynced))
}

func TestClosed(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10), prepares, closes)
	_, _, appendErr := s.log.Append(make([]byte, segment.FrameHeaderSize))
	_, syncErr := s.log.Sync()
	_, markErr := s.log.Mark()
	_, dropErr := s.log.DropBefore(9)
	for what, err := range map[string]error{
		"Append": appendErr, "Sync": syncErr, "Mark": markErr, "DropBefore": dropErr,
		"Prepare": s.log.Prepare(), "Close": s.log.Close(),
	} {
		if !errors.Is(err, segment.ErrClosed) {
			t.Errorf("%s of a closed log = %v, want ErrClosed", what, err)
		}
	}
	if s.log.NeedsPrepare() {
		t.Error("a closed log wants a segment prepared")
	}
	must(t, leaks(disk))
}

func TestCloseSealsAndTruncates(t *testing.T) {
	s, disk := start(t, smallOptions, appends(10, 20), closes)
	data, err := disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Keep}).Bytes(segmentPath('1'))
	must(t, err)
	ref, ok := refRead(data)
	if !ok || !ref.sealed || ref.end() != int64(len(data)) || len(ref.frames) != 4 {
		t.Fatalf("after Close: %d bytes, %+v, want a sealed segment and nothing behind it",
			len(data), ref)
	}
	if last := ref.frames[3]; last.watermark != last.position {
		t.Errorf("trailer has watermark %d at position %d, want it to vouch for all before it",
			last.watermark, last.position)
	}
	// All of it is durable but the truncation, which need not be.
	must(t, s.on(disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})).open(promiseWritten))
}

func TestCloseOfUnusedLogAddsNothing(t *testing.T) {
	s, disk := start(t, smallOptions, closes)
	for range 5 {
		must(t, s.run([]step{opens, closes}))
	}
	wantNames(t, disk, "1.seg")
	must(t, s.run([]step{opens, appends(1), closes}))
	for range 5 {
		must(t, s.run([]step{opens, closes}))
	}
	wantNames(t, disk, "1.seg", "2.seg")
	for range 5 { // and without closing
		must(t, s.run([]step{opens}))
	}
	wantNames(t, disk, "1.seg", "2.seg")
}

func TestMark(t *testing.T) {
	s, disk := start(t, smallOptions)
	mark := func(want bool, when string) {
		t.Helper()
		before := disk.Calls(segmenttest.OpWriteAt)
		got, err := s.log.Mark()
		if got != want || err != nil {
			t.Errorf("Mark %s = %v, %v, want %v", when, got, err, want)
		}
		if wrote := disk.Calls(segmenttest.OpWriteAt) - before; (wrote > 0) != want {
			t.Errorf("Mark %s makes %d writes", when, wrote)
		}
	}
	mark(false, "of an empty log")
	must(t, s.append(10))
	mark(false, "before a sync")
	must(t, s.sync())
	mark(true, "after a sync")
	mark(false, "a second time")
	must(t, s.sync())
	mark(false, "after its own sync")
	must(t, s.append(10))
	must(t, s.sync())
	disk.SetFault(segmenttest.FailAllFrom(segmenttest.OpWriteAt, 1, syscall.EIO))
	if got, err := s.log.Mark(); got || !errors.Is(err, syscall.EIO) {
		t.Errorf("Mark with a failing write = %v, %v, want EIO", got, err)
	}
	disk.SetFault(nil)
	mark(true, "after it failed")
	must(t, s.append(int(s.log.Room()-segment.FrameHeaderSize)&^7))
	must(t, s.sync())
	mark(false, "without room for it")
	must(t, s.on(disk.Kill()).open(promiseWritten))
}
