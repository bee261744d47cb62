package segment_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestOpenSetsSegmentsAside cuts a log in a segment behind which others were begun but never
// synced.
func TestOpenSetsSegmentsAside(t *testing.T) {
	l := store(t, opens, appends(10), syncs, appends(660, 660, 660, 20), prepares)
	must(t, l.disk.FlipBit(segmentPath('1'), 300, 0))
	must(t, l.disk.WriteFile(logDir+"/0000000003.torn", nil)) // the name is taken
	for range 2 {
		image := l.disk.Kill()
		s := l.on(image)
		s.h = &history{batches: l.h.batches[:1]}
		must(t, s.open(promiseWritten))
		wantNames(t, image, "1.seg", "1.torn", "2.seg", "2.torn", "3.torn", "3.torn.2")
		for from, to := range map[string]string{"2.seg": "2.torn", "3.seg": "3.torn.2"} {
			want, err := l.disk.Bytes(logDir + "/000000000" + from)
			must(t, err)
			if got, _ := image.Bytes(logDir + "/000000000" + to); !bytes.Equal(got, want) {
				t.Errorf("%s does not hold what %s did", to, from)
			}
		}
		r := s.found
		slices.Sort(r.Saved)
		want := []string{"1.torn", "2.torn", "3.torn.2"}
		for i := range want {
			want[i] = logDir + "/000000000" + want[i]
		}
		const torn = (704 + 96) + (72 + 704 + 96) + (72 + 704 + 64) // to behind the last frame, or the mark, of each
		if r.Tear == nil || !slices.Equal(r.Saved, want) || r.TornBytes != torn {
			t.Errorf("Recovery = %+v, want %q and %d bytes", r, want, torn)
		}
		must(t, s.open(promiseWritten)) // once is enough
		if s.found.Tear != nil || len(s.found.Saved) > 0 {
			t.Errorf("Recovery of the next Open = %+v, want no tear", s.found)
		}
	}
}

// TestOpenOnFullDisk has no room to save the torn tail: no start may leave another file.
func TestOpenOnFullDisk(t *testing.T) {
	l := store(t, opens, appends(10), syncs, appends(300, 300))
	must(t, l.disk.FlipBit(segmentPath('1'), 300, 0))
	l.disk.DiskFull(1100)
	for range 3 {
		if err := l.open(promiseSynced); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Open = %v, want ENOSPC", err)
		}
		wantNames(t, l.disk, "1.seg")
	}
	l.disk.DiskFull(-1)
	l.h.batches = l.h.batches[:1]
	must(t, l.open(promiseSynced))
}

// TestMissingFrame loses a frame that was never synced, but not those behind it. The log ends
// there, as if cleanly, and what is behind is kept for a human.
func TestMissingFrame(t *testing.T) {
	l := store(t, opens, appends(10, 300, 20))
	lost := l.segments[l.last].frames[2]
	data, err := l.disk.Bytes(l.last)
	must(t, err)
	erase(t, l.disk, l.last, lost.offset, lost.end)
	want := verdict{tear: true, offset: lost.offset, keep: 1}
	must(t, l.judge(t, l.disk, l.last, want))
	saved, err := l.disk.Bytes(logDir + "/0000000001.torn")
	must(t, err)
	last := lost.next() - lost.offset // the third batch, in the copy
	if !bytes.Equal(saved[last:], data[lost.next():lost.next()+64]) || !isZero(saved[:last]) {
		t.Errorf("saved %d bytes, want %d of zeros and a frame of 64", len(saved), last)
	}
}

func isZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }

// TestMissingLink loses the link of a segment, which shares a sector with its header, behind a torn
// one. What else is in it counts all the same.
func TestMissingLink(t *testing.T) {
	for _, synced := range []bool{false, true} {
		steps := []step{opens, appends(700, 500, 10), appends(5)}
		if synced {
			steps = slices.Insert(steps, 2, syncs)
		}
		l := store(t, steps...)
		second := segmentPath('2')
		erase(t, l.disk, second, 64, 136)
		first := l.segments[segmentPath('1')].frames
		trailer := first[len(first)-1]
		must(t, l.disk.FlipBit(segmentPath('1'), trailer.offset, 0))
		want := verdict{tear: true, offset: trailer.offset, keep: 1}
		if synced { // the last batch says that it was
			want = verdict{damage: true, offset: trailer.offset}
		}
		if err := l.judge(t, l.disk, segmentPath('1'), want); err != nil {
			t.Errorf("with synced = %v: %v", synced, err)
		}
		if !synced {
			wantNames(t, l.disk, "1.seg", "1.torn", "2.seg", "2.torn")
		}
	}
}

// TestTornCopyComesFirst stops recovery at every call and cuts the power: what is cut from the log
// is in the copy or still where it was.
func TestTornCopyComesFirst(t *testing.T) {
	l := store(t, opens, appends(10, 300), appends(20))
	torn := l.segments[l.last].frames[2]
	must(t, l.disk.FlipBit(l.last, torn.offset+50, 0))
	data, err := l.disk.Bytes(l.last)
	must(t, err)
	want := data[torn.offset:l.segments[l.last].end()]
	l.h.batches, l.h.synced = l.h.batches[:1], 1
	for n, done := 1, false; !done; n++ {
		image := l.disk.Kill()
		image.StopAt(n)
		done = l.on(image).open(promiseSynced) == nil
		for _, how := range crashes(uint64(n), 2) {
			after := how.image(image)
			files := dump(t, after)
			kept := strings.HasPrefix(files[l.last][min(torn.offset, int64(len(files[l.last]))):],
				string(want))
			for name, data := range files {
				if strings.Contains(name, ".torn") && data == string(want) {
					kept = true
				}
			}
			if !kept {
				t.Errorf("stop at %d, %v: the torn bytes are gone", n, how)
			}
			must(t, l.on(after).open(promiseSynced))
		}
	}
}
