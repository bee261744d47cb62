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
	const want = "[rename sync directory rename sync directory remove sync directory]"
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

// dropFaults are the ways in which a call of DropBefore can fail, and pass.
func dropFaults() map[string]segmenttest.Fault {
	return map[string]segmenttest.Fault{
		"failed":     {Err: syscall.EIO},
		"not tried":  {Err: syscall.EMFILE, KeepDirty: true},
		"out of RAM": {Err: syscall.ENOMEM, KeepDirty: true},
	}
}

// TestDropGoesOn has one call of DropBefore fail. The log loses nothing, and the next DropBefore drops
// what was left: no power cut brings a segment back from behind a gap.
func TestDropGoesOn(t *testing.T) {
	kinds := []segmenttest.OpKind{segmenttest.OpRename, segmenttest.OpSyncDir, segmenttest.OpRemove}
	for name, fault := range dropFaults() {
		for _, kind := range kinds {
			for nth := 1; nth <= 3; nth++ {
				t.Run(fmt.Sprintf("%v %d %s", kind, nth, name), func(t *testing.T) {
					testDropGoesOn(t, kind, nth, fault)
				})
			}
		}
	}
}

func testDropGoesOn(t *testing.T, kind segmenttest.OpKind, nth int, fault segmenttest.Fault) {
	options := segment.Options{SegmentSize: 1024, Spares: 1}
	s, disk := start(t, options, appends(700, 700, 700, 700, 700), syncs)
	at, struck := disk.Calls(kind)+nth, false
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind != kind || op.KindN != at {
			return segmenttest.Fault{}
		}
		struck = true
		return fault
	})
	s.h.askedTo = 4
	n, err := s.log.DropBefore(4)
	if err != nil && (!struck || !errors.Is(err, fault.Err)) {
		t.Fatalf("DropBefore = %d, %v, with a fault: %t", n, err, struck)
	}
	disk.SetFault(nil)
	if left := s.log.Segments(); left[0].Number != uint64(n)+1 {
		t.Errorf("%d segments are dropped, and the first of the others is %d", n, left[0].Number)
	}
	s.h.goneTo = uint64(n) + 1
	for _, how := range crashes(1, 5) {
		must(t, s.on(how.image(disk)).open(how.promise()))
	}
	more, err := s.log.DropBefore(4)
	if n+more != 3 || err != nil {
		t.Errorf("DropBefore behind the fault = %d, %v, want %d", more, err, 3-n)
	}
	s.h.goneTo = 4
	must(t, s.run([]step{appends(700), syncs}))
	for _, how := range crashes(1, 5) {
		must(t, s.on(how.image(disk)).open(how.promise()))
	}
	must(t, s.close())
	wantNames(t, disk, "4.seg", "5.seg", "6.seg") // the last was the first
	must(t, leaks(disk))
}

// TestFailedRemoveIsTriedAgain fails to remove the files of segments that could not be made or are no longer needed.
// They stay on the disk until the log can remove them.
func TestFailedRemoveIsTriedAgain(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 1024, Spares: 2}, appends(700, 700, 700, 700), syncs)
	if n, err := s.log.DropBefore(3); n != 2 || err != nil {
		t.Fatalf("DropBefore = %d, %v, want 2", n, err)
	}
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpOpen || op.Kind == segmenttest.OpRemove {
			return segmenttest.Fault{Err: syscall.EMFILE}
		}
		return segmenttest.Fault{}
	})
	if err := s.log.Prepare(); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Prepare = %v, want EMFILE", err)
	}
	for range 2 { // the first call finds out what nobody needs
		if err := s.log.TrimSpares(0); err != nil && !errors.Is(err, syscall.EMFILE) {
			t.Errorf("TrimSpares = %v, want EMFILE", err)
		}
	}
	wantNames(t, disk, "1.spare", "2.spare", "3.seg", "4.seg")
	disk.SetFault(nil)
	if err := s.log.TrimSpares(0); err != nil {
		t.Errorf("TrimSpares = %v", err)
	}
	wantNames(t, disk, "3.seg", "4.seg")
	must(t, s.close())
}
