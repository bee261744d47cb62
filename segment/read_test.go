package segment_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestProofAtBlockBoundary has the only frame that proves damage begin at every place around the
// end of what the search reads at a time.
func TestProofAtBlockBoundary(t *testing.T) {
	t.Parallel()
	for _, blocks := range []int{1, 2} {
		for away := -64; away <= 64; away += (stride() + 1) / 2 * 8 {
			distance := blocks*segment.ScanAhead + away // from the damaged frame to the proof
			const first = 104                           // size of the damaged frame
			s, disk := start(t, segment.Options{SegmentSize: 4 << 20},
				appends(64, distance-first-segment.FrameHeaderSize), syncs, appends(8))
			if got := s.h.batches[2].position - s.h.batches[0].position; int(got) != distance {
				t.Fatalf("the proof is %d bytes away, want %d", got, distance)
			}
			must(t, disk.FlipBit(segmentPath('1'), int64(s.h.batches[0].position)+20, 3))
			_, _, err := segment.Scan(disk, logDir, collect(new([]batch)))
			if !errors.Is(err, segment.ErrCorrupt) {
				t.Errorf("with the proof %d bytes from the damage, Scan = %v, want ErrCorrupt",
					distance, err)
			}
		}
	}
}

// TestReadAcrossBlocks reads frames that begin and end at every place around block boundaries, and
// some longer than a block.
func TestReadAcrossBlocks(t *testing.T) {
	t.Parallel()
	for _, size := range []int{
		segment.ScanAhead - 40, segment.ScanAhead, 1<<19 - 40, 1<<19 - 32, 333333, 3<<20 + 5,
	} {
		s, disk := start(t, segment.Options{SegmentSize: 8 << 20})
		for i := range 5 {
			must(t, s.append(size+i))
		}
		must(t, s.on(disk.Kill()).open(promiseWritten))
		must(t, s.close())
	}
}

// TestSearchReadsOnce tears a log in front of many frames that were never synced.
func TestSearchReadsOnce(t *testing.T) {
	const size = 4 << 20
	s, disk := start(t, segment.Options{SegmentSize: size})
	for s.log.Room() > 200 {
		must(t, s.append(8))
	}
	must(t, disk.FlipBit(segmentPath('1'), int64(s.h.batches[1].position), 0))
	reads := disk.Calls(segmenttest.OpReadAt)
	_, tear, err := segment.Scan(disk, logDir, collect(new([]batch)))
	must(t, err)
	if tear == nil {
		t.Error("Scan finds no tear")
	}
	if got := disk.Calls(segmenttest.OpReadAt) - reads; got > size/segment.ScanAhead+3 {
		t.Errorf("Scan makes %d reads of 1 MiB for a file of %d bytes", got, size)
	}
}

// TestReaderTrustsNoLength has headers with lengths that are not so, with and without the checksum
// that makes them look true.
func TestReaderTrustsNoLength(t *testing.T) {
	const id = 77
	head := unhex(t, goldenHeader)
	copy(head[24:], []byte{id, 0, 0, 0, 0, 0, 0, 0})
	head = refixHeader(head)
	frame := refFrameBytes(id, 1, 0, 64, 1<<30, nil)
	for _, valid := range []bool{true, false} {
		disk := segmenttest.New()
		data := append(append([]byte{}, head...), frame...)
		if !valid {
			data[70] = 0xff
		}
		must(t, disk.WriteFile(segmentPath('1'), append(data, make([]byte, 512-len(data))...)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, tear, err := segment.Scan(disk, logDir, collect(new([]batch)))
		runtime.ReadMemStats(&after)
		if err != nil || tear == nil || tear.Offset != 64 {
			t.Errorf("Scan = %+v, %v, want a tear at 64", tear, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("Scan allocates %d bytes for a file of 512", got)
		}
	}
}

// TestPayloadLooksLikeFrames stores, as payload, the very frames of the log that would prove
// damage, in front of a torn end.
func TestPayloadLooksLikeFrames(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 64 << 10}, appends(10))
	var fake []byte
	for i := range 100 { // as a client would who knows everything but the segment's id
		position := uint64(s.log.Segments()[0].End) + 40 + uint64(48*i)
		fake = append(fake, refFrameBytes(1, 1, position, position, 8, []byte("whatever"))...)
	}
	_, _, err := s.log.Append(append(make([]byte, segment.FrameHeaderSize), fake...))
	must(t, err)
	must(t, disk.FlipBit(segmentPath('1'), int64(s.h.batches[0].position), 1))
	_, tear, err := segment.Scan(disk, logDir, collect(new([]batch)))
	if err != nil || tear == nil {
		t.Errorf("Scan = %+v, %v, want a tear: nothing was synced", tear, err)
	}
}
