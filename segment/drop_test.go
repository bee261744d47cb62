package segment_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

func TestDropBefore(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 1024, Spares: 1}, appends(700, 700, 700, 700))
	if n, err := s.log.DropBefore(9); n != 0 || err != nil {
		t.Errorf("DropBefore of what is not synced = %d, %v, want 0", n, err)
	}
	must(t, s.sync())
	var gone []string
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		switch op.Kind {
		case segmenttest.OpRename, segmenttest.OpRemove, segmenttest.OpSyncDir:
			gone = append(gone, op.Kind.String())
		}
		return segmenttest.Fault{}
	})
	if n, err := s.log.DropBefore(3); n != 2 || err != nil {
		t.Errorf("DropBefore(3) = %d, %v, want 2", n, err)
	}
	const want = "[rename sync directory remove sync directory]"
	if got := fmt.Sprint(gone); got != want {
		t.Errorf("DropBefore does %s, want %s", got, want)
	}
	wantNames(t, disk, "1.spare", "3.seg", "4.seg")
	if n, err := s.log.DropBefore(3); n != 0 || err != nil {
		t.Errorf("DropBefore(3) again = %d, %v, want 0", n, err)
	}
	if n, err := s.log.DropBefore(1 << 60); n != 1 || err != nil {
		t.Errorf("DropBefore of everything = %d, %v, want 1: the tail stays", n, err)
	}
	wantNames(t, disk, "1.spare", "4.seg")
	s.h.askedTo, s.h.goneTo = 4, 4
	for _, how := range crashes(1, 5) {
		must(t, s.on(how.image(disk)).open(how.promise()))
	}
}

// TestDropWaitsForTheLink syncs a segment to its end but not the link of the next.
func TestDropWaitsForTheLink(t *testing.T) {
	s, disk := start(t, smallOptions, appends(700), syncs, appends(700))
	if n, err := s.log.DropBefore(2); n != 0 || err != nil {
		t.Errorf("DropBefore before the link is synced = %d, %v, want 0", n, err)
	}
	must(t, s.on(disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})).open(promiseSynced))
	must(t, s.sync())
	if n, err := s.log.DropBefore(2); n != 1 || err != nil {
		t.Errorf("DropBefore after the sync = %d, %v, want 1", n, err)
	}
}

// TestDropWaitsForLateLink syncs a sealed segment to its end before its successor has a link.
func TestDropWaitsForLateLink(t *testing.T) {
	s, disk := start(t, smallOptions, appends(700))
	disk.SetFault(segmenttest.FailNth(
		segmenttest.OpWriteAt, disk.Calls(segmenttest.OpWriteAt)+3, syscall.EIO)) // header, trailer, link
	if err := s.append(700); !errors.Is(err, syscall.EIO) {
		t.Fatalf("Append = %v, want EIO", err)
	}
	disk.SetFault(nil)
	must(t, s.run([]step{syncs, appends(700)}))
	if n, err := s.log.DropBefore(2); n != 0 || err != nil {
		t.Errorf("DropBefore before the link is synced = %d, %v, want 0", n, err)
	}
	must(t, s.on(disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})).open(promiseSynced))
}

func TestDropFails(t *testing.T) {
	for _, kind := range []segmenttest.OpKind{segmenttest.OpRename, segmenttest.OpSyncDir} {
		s, disk := start(t, smallOptions, appends(700, 700, 700), syncs)
		failNext(disk, kind, syscall.EIO)
		for range 2 { // it stays so
			if n, err := s.log.DropBefore(3); n != 0 || !errors.Is(err, syscall.EIO) {
				t.Errorf("DropBefore with a failed %v = %d, %v, want EIO", kind, n, err)
			}
			disk.SetFault(nil)
		}
		if all := s.log.Segments(); all[0].Number != 1 {
			t.Errorf("Segments after it = %+v, want all", all)
		}
		must(t, s.run([]step{appends(700), syncs})) // the rest works
		s.h.askedTo = 2
		must(t, s.on(disk.Kill()).open(promiseWritten))
		must(t, s.close())
		must(t, leaks(disk))
	}
}
