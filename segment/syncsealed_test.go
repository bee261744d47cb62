package segment_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// SyncSealed makes the sealed segments durable, and leaves the tail alone.
func TestSyncSealed(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600, 600, 600))
	must(t, s.log.SyncSealed())
	all := s.log.Segments()
	if got, want := s.log.Watermark(), all[len(all)-2].End; got != want {
		t.Errorf("Watermark after SyncSealed = %d, want the end of the last sealed segment, %d", got, want)
	}
	synced := disk.Calls(segmenttest.OpDatasync)
	must(t, s.log.SyncSealed()) // there is nothing left to do
	if got := disk.Calls(segmenttest.OpDatasync) - synced; got != 0 {
		t.Errorf("a second SyncSealed syncs %d files", got)
	}
	image := disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	batches := 0
	log, _, err := segment.Open(logDir, segment.Options{FS: image, SegmentSize: 1024}, func(segment.Frame) error {
		batches++
		return nil
	})
	must(t, err)
	must(t, log.Close())
	if batches != 2 {
		t.Errorf("%d batches survive, want the 2 in sealed segments", batches)
	}
	must(t, s.close())
}

// A later Sync does not move the watermark back, and a failed SyncSealed poisons the log.
func TestSyncSealedAfterSync(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600, 600), syncs)
	before := s.log.Watermark()
	must(t, s.log.SyncSealed())
	if got := s.log.Watermark(); got != before {
		t.Errorf("Watermark = %d after SyncSealed, was %d", got, before)
	}
	must(t, s.append(600))
	failNext(disk, segmenttest.OpDatasync, syscall.EIO)
	if err := s.log.SyncSealed(); !errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("SyncSealed on a failing disk = %v, want ErrPoisoned and EIO", err)
	}
}

// TestMaxUnsynced appends for long without a sync: no more sealed segments wait for one than may, and a
// sync that fails poisons the log.
func TestMaxUnsynced(t *testing.T) {
	options := segment.Options{SegmentSize: 1024, MaxUnsynced: 3}
	s, disk := start(t, options)
	for range 12 {
		must(t, s.append(600))
		if n, open := s.log.OpenFiles(), len(disk.OpenFiles()); n > 5 || n != open {
			t.Fatalf("the log has %d files open, the disk %d; want 3, the tail and the next at most", n, open)
		}
	}
	for _, how := range crashes(1, 3) {
		must(t, s.on(how.image(disk)).open(how.promise()))
	}
	for s.log.OpenFiles() < 4 {
		must(t, s.append(600))
	}
	failNext(disk, segmenttest.OpDatasync, syscall.EIO)
	err := s.append(600)
	if !errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("Append behind a sync that fails = %v, want ErrPoisoned", err)
	}
}
