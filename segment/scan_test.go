package segment_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestScanLeavesLiveLogAlone scans a log that is in use.
func TestScanLeavesLiveLogAlone(t *testing.T) {
	s, disk := start(t, smallOptions, appends(700, 700), syncs, prepares, appends(10), syncs)
	before, calls := dump(t, disk), disk.MutatingCalls()
	var found []batch
	segments, tear, err := segment.Scan(disk, logDir, collect(&found))
	must(t, err)
	must(t, s.h.check(found, promiseWritten))
	if tear != nil || fmt.Sprint(segments) != fmt.Sprint(s.log.Segments()) {
		t.Errorf("Scan = %+v, %+v, want %+v and no tear", segments, tear, s.log.Segments())
	}
	after := dump(t, disk)
	for name := range before {
		if before[name] != after[name] {
			t.Errorf("Scan changed %s", name)
		}
	}
	if n := disk.MutatingCalls() - calls; n != 0 || len(before) != len(after) {
		t.Errorf("Scan made %d calls that change the disk", n)
	}
	must(t, s.run([]step{appends(700), closes}))
	must(t, leaks(disk))
}

func TestScanErrors(t *testing.T) {
	if _, _, err := segment.Scan(segmenttest.New(), "none", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Scan of a missing directory = %v, want ErrNotExist", err)
	}
	s, disk := start(t, smallOptions, appends(700, 700))
	stop := errors.New("enough")
	_, _, err := segment.Scan(disk, logDir, func(segment.Frame) error { return stop })
	if err != stop {
		t.Errorf("Scan with a failing visitor = %v, want its error as it is", err)
	}
	for _, kind := range []segmenttest.OpKind{
		segmenttest.OpList, segmenttest.OpOpenReadOnly, segmenttest.OpSize, segmenttest.OpReadAt,
	} {
		failNext(disk, kind, syscall.EIO)
		_, _, err := segment.Scan(disk, logDir, collect(new([]batch)))
		if !errors.Is(err, syscall.EIO) || errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("Scan with a failing %v = %v, want EIO and no talk of damage", kind, err)
		}
		disk.SetFault(nil)
	}
	must(t, s.close())
	must(t, leaks(disk))
}

// TestScanContradictions has frames whose checksums are right and which cannot be: those whose
// header is against the format are none, the others are damage.
func TestScanContradictions(t *testing.T) {
	const id = 0x0102030405060708
	frame := func(kind byte, position uint64, payload []byte) []byte {
		return refFrameBytes(id, kind, 0, position, uint32(len(payload)), payload)
	}
	link, hello := unhex(t, goldenFirstLink), unhex(t, goldenBatch)
	golden := unhex(t, goldenTrailer)
	wrongCount, wrongChain := bytes.Clone(golden[40:]), bytes.Clone(golden[40:])
	wrongCount[0]++
	wrongChain[8]++
	otherNumber := make([]byte, 32)
	otherNumber[0] = 1
	for _, tt := range []struct {
		name   string
		frames [][]byte
		offset int64 // of the damage; 0 for none; negative for a tear there
	}{
		{"all is well", [][]byte{link, hello, golden}, 0},
		{"no link", [][]byte{frame(1, 64, []byte("hello"))}, 64},
		{"link of the wrong number", [][]byte{frame(2, 64, otherNumber)}, 64},
		{"link too short", [][]byte{frame(2, 64, make([]byte, 24))}, -64},
		{"link too long", [][]byte{frame(2, 64, make([]byte, 40))}, -64},
		{"trailer too short", [][]byte{link, frame(3, 136, make([]byte, 8))}, -136},
		{"mark with payload", [][]byte{link, frame(4, 136, make([]byte, 8))}, -136},
		{"unknown kind", [][]byte{link, frame(5, 136, nil)}, -136},
		{"watermark above the position", [][]byte{link, refFrameBytes(id, 1, 144, 136, 0, nil)}, -136},
		{"two links", [][]byte{link, frame(2, 136, make([]byte, 32))}, 136},
		{"position of the frame before", [][]byte{link, frame(1, 64, []byte("hello"))}, 136},
		{"position of the frame behind", [][]byte{link, frame(1, 184, []byte("hello"))}, 136},
		{"link at another position", [][]byte{frame(2, 72, make([]byte, 32))}, 64},
		{"trailer with another count", [][]byte{link, hello, frame(3, 184, wrongCount)}, 184},
		{"trailer with another chain", [][]byte{link, hello, frame(3, 184, wrongChain)}, 184},
	} {
		disk := segmenttest.New()
		data := append(unhex(t, goldenHeader), bytes.Join(tt.frames, nil)...)
		must(t, disk.WriteFile(segmentPath('1'), append(data, make([]byte, 512-len(data))...)))
		_, tear, err := segment.Scan(disk, logDir, nil)
		got := int64(0)
		var damage *segment.CorruptionError
		if errors.As(err, &damage) {
			got = damage.Offset
		} else if tear != nil {
			got = -tear.Offset
		}
		if got != tt.offset {
			t.Errorf("%s: Scan = %+v, %v, want %d", tt.name, tear, err, tt.offset)
		}
	}
}

// TestList compares what names and sizes tell with what reading does.
func TestList(t *testing.T) {
	if _, err := segment.List(segmenttest.New(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("List of a missing directory = %v, want ErrNotExist", err)
	}
	s, disk := start(t, smallOptions, appends(700, 700), syncs, appends(700, 10), syncs)
	listed, err := segment.List(disk, logDir)
	must(t, err)
	read, _, err := segment.Scan(disk, logDir, nil)
	must(t, err)
	if len(listed) != len(read) || len(read) < 2 {
		t.Fatalf("List found %d segments, Scan %d, want the same and at least 2", len(listed), len(read))
	}
	for i := range read {
		if listed[i].Number != read[i].Number || listed[i].Size != read[i].Size {
			t.Errorf("List[%d] = %+v, Scan has %+v", i, listed[i], read[i])
		}
	}
	for _, kind := range []segmenttest.OpKind{
		segmenttest.OpList, segmenttest.OpOpenReadOnly, segmenttest.OpSize,
	} {
		failNext(disk, kind, syscall.EIO)
		if _, err := segment.List(disk, logDir); !errors.Is(err, syscall.EIO) {
			t.Errorf("List with a failing %v = %v, want EIO", kind, err)
		}
		disk.SetFault(nil)
	}
	must(t, s.close())
	must(t, leaks(disk))
}
