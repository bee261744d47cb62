package segment_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// FuzzParseFrame checks that a frame header is accepted if it is what the format says. If the id or any bit of the
// header differs, it is refused.
func FuzzParseFrame(f *testing.F) {
	for _, frame := range []string{goldenFirstLink, goldenBatch, goldenMark, goldenTrailer} {
		f.Add(unhex(f, frame), uint64(0x0102030405060708), false)
		f.Add(unhex(f, frame), uint64(1), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, id uint64, fix bool) {
		if len(b) < segment.FrameHeaderSize {
			return
		}
		head := b[:segment.FrameHeaderSize:segment.FrameHeaderSize]
		if fix {
			binary.LittleEndian.PutUint64(head[32:], xxhash.Sum64(
				append(binary.LittleEndian.AppendUint64(nil, id), head[:32]...)))
		}
		kind, length, ok := segment.ParseFrameHeader(b, id)
		if !ok {
			return
		}
		watermark, position := binary.LittleEndian.Uint64(head[8:]), binary.LittleEndian.Uint64(head[16:])
		if kind < segment.KindBatch || kind > segment.KindMark || length > segment.MaxPayloadSize ||
			head[5]|head[6]|head[7] != 0 || watermark > position {
			t.Errorf("header %x is taken for one of kind %d, length %d", head, kind, length)
		}
		for bit := range 8 * len(head) {
			head[bit/8] ^= 1 << (bit % 8)
			if _, _, ok := segment.ParseFrameHeader(b, id); ok {
				t.Errorf("header %x is taken, and with bit %d flipped", head, bit)
			}
			head[bit/8] ^= 1 << (bit % 8)
		}
		if _, _, ok := segment.ParseFrameHeader(b, id+1); ok {
			t.Errorf("header %x is taken with ids %d and %d", head, id, id+1)
		}
	})
}

// repair gives whatever stands where frames could the checksums that make it frames.
func repair(data []byte) {
	if len(data) < 64 {
		return
	}
	copy(data, "KESTRLOG\x01\x00\x00\x00")
	refixHeader(data)
	id := data[24:32]
	for off := 64; off+40 <= len(data); {
		h := data[off : off+40]
		length := int(binary.LittleEndian.Uint32(h))
		if length == 0 && h[4] == 0 || length > len(data)-off-40 {
			return
		}
		binary.LittleEndian.PutUint64(h[24:], xxhash.Sum64(data[off+40:off+40+length]))
		binary.LittleEndian.PutUint64(h[32:], xxhash.Sum64(append(bytes.Clone(id), h[:32]...)))
		off += (40 + length + 7) &^ 7
	}
}

// FuzzScan takes any bytes as a segment. Scan hands over only what the reference reader finds, in memory bounded by
// the size of the file. A log that opens stays the same ever after.
func FuzzScan(f *testing.F) {
	for _, body := range []string{
		"", goldenEndMark, goldenBatch, goldenBatch + goldenMark, goldenBatch + goldenTrailer,
		goldenBatch + goldenEndMark + goldenBatch, goldenTrailer + goldenBatch, "ff",
	} {
		data := unhex(f, goldenHeader+goldenFirstLink+body)
		f.Add(data, false)
		f.Add(append(data, make([]byte, 512)...), false)
		f.Add(append(data, make([]byte, 512)...), true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, fix bool) {
		data = bytes.Clone(data)
		if fix {
			repair(data)
		}
		disk := segmenttest.New()
		must(t, disk.WriteFile(segmentPath('1'), data))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var found []batch
		_, _, err := segment.Scan(disk, logDir, collect(&found))
		runtime.ReadMemStats(&after)
		if got, most := after.TotalAlloc-before.TotalAlloc, uint64(1<<20+8*len(data)); got > most {
			t.Errorf("Scan of %d bytes allocates %d", len(data), got)
		}
		ref, _ := refRead(data)
		var want []refFrame
		for _, frame := range ref.frames {
			if frame.kind == 1 {
				want = append(want, frame)
			}
		}
		if len(found) > len(want) {
			t.Fatalf("Scan hands over %d frames, of which only %d are some", len(found), len(want))
		}
		for i, b := range found {
			if !bytes.Equal(b.payload, want[i].payload) || uint64(b.position) != want[i].position {
				t.Fatalf("frame %d is %+v, want %+v", i, b, want[i])
			}
		}
		if err != nil && !errors.Is(err, segment.ErrCorrupt) {
			t.Errorf("Scan = %v, want nil or ErrCorrupt", err)
		}
		fuzzOpen(t, disk, found, err)
	})
}

// fuzzOpen opens what Scan said this of.
func fuzzOpen(t *testing.T, disk *segmenttest.FS, scanned []batch, scanErr error) {
	s := newSession(disk, smallOptions)
	s.h = &history{batches: scanned}
	err := s.open(promiseWritten)
	if (err == nil) != (scanErr == nil) {
		t.Fatalf("Scan = %v, but Open = %v", scanErr, err)
	}
	if err != nil {
		return
	}
	must(t, s.append(10))
	for range 2 {
		must(t, s.on(disk.Kill()).open(promiseWritten))
		must(t, s.close())
		must(t, s.open(promiseWritten))
		if s.found.Tear != nil {
			t.Errorf("a log that was repaired is torn again: %+v", *s.found.Tear)
		}
	}
}
