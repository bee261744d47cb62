package segment_test

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestVersions tests that a segment says version 2 only from the first frame on that needs it. That holds also if the
// next segment was prepared before. A log that is opened again begins with version 1.
func TestVersions(t *testing.T) {
	for _, prepared := range []bool{false, true} {
		disk := segmenttest.New()
		opts := segment.Options{FS: disk, SegmentSize: 4096}
		log, _, err := segment.Open(logDir, opts, collect(new([]batch)))
		must(t, err)
		frame := func(version segment.Version, payload string) uint64 {
			buf := append(make([]byte, segment.FrameHeaderSize), payload...)
			at, _, err := log.AppendAs(version, buf)
			must(t, err)
			return at.Segment
		}
		if at := frame(segment.Version1, "plain"); at != 1 {
			t.Errorf("the first frame went to segment %d", at)
		}
		if prepared {
			must(t, log.Prepare())
		}
		if at := frame(segment.Version2, "new"); at != 2 {
			t.Errorf("the first frame of version 2 went to segment %d, want 2", at)
		}
		for _, version := range []segment.Version{segment.Version1, segment.Version2} {
			if at := frame(version, "more"); at != 2 {
				t.Errorf("a frame of version %d behind it went to segment %d, want 2", version, at)
			}
		}
		must(t, log.Prepare())
		if at := frame(segment.Version1, string(make([]byte, 3900))); at != 3 {
			t.Errorf("a frame that does not fit went to segment %d, want 3", at)
		}
		must(t, log.Close())
		var found []batch
		log, _, err = segment.Open(logDir, opts, collect(&found))
		must(t, err)
		if len(found) != 5 {
			t.Errorf("%d frames are there again, want 5", len(found))
		}
		must(t, log.Close())
		for digit, want := range map[byte]byte{'1': 1, '2': 2, '3': 2, '4': 1} {
			data, err := disk.Bytes(segmentPath(digit))
			must(t, err)
			if data[8] != want {
				t.Errorf("prepared %v: segment %c says version %d, want %d", prepared, digit, data[8], want)
			}
			if _, ok := refRead(data); !ok {
				t.Errorf("segment %c is not as documented", digit)
			}
		}
	}
}

// TestNextIsEnoughForFullDisk fills the disk when the next segment is prepared. That takes a frame which needs a later
// version: it has the file already. If a frame needs more than the disk has, the next segment is still there for others.
func TestNextIsEnoughForFullDisk(t *testing.T) {
	for _, size := range []int{10, 5000} {
		s, disk := start(t, smallOptions, appends(600))
		must(t, s.log.Prepare())
		disk.DiskFull(0)
		_, _, err := s.log.AppendAs(segment.Version2, make([]byte, segment.FrameHeaderSize+size))
		if large := size > 1024; large != errors.Is(err, syscall.ENOSPC) || !large && err != nil {
			t.Errorf("a frame of %d bytes: %v", size, err)
		}
		wantNames(t, disk, "1.seg", "2.seg")
		if s.log.NeedsPrepare() != (size == 10) {
			t.Errorf("behind a frame of %d bytes, it needs a segment: %t", size, s.log.NeedsPrepare())
		}
		if _, _, err = s.log.AppendAs(segment.Version2, make([]byte, segment.FrameHeaderSize+10)); err != nil {
			t.Errorf("behind a frame of %d bytes: %v", size, err)
		}
		must(t, s.close())
		must(t, leaks(disk))
	}
}
