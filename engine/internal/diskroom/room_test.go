package diskroom

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// sized is a file system on a disk of some size.
type sized struct {
	segment.FS
	free, total int64
	err         error
}

func (f *sized) Space(string) (free, total int64, err error) { return f.free, f.total, f.err }

// TestRoom fills and empties a disk.
func TestRoom(t *testing.T) {
	const gib = 1 << 30
	log := slog.New(slog.DiscardHandler)
	fsys := &sized{FS: segmenttest.New(), total: 80 * gib} // a twentieth is 4 GiB
	var r Room
	if _, ok, err := r.Measure(fsys.FS, "", log); ok || err != nil || r.Free() != -1 || r.Reserve() != 0 {
		t.Errorf("of a disk that does not know, %d bytes are free, and %d stay", r.Free(), r.Reserve())
	}
	for _, tt := range []struct {
		free int64
		low  bool
	}{
		{4 * gib, false}, {4*gib - 1, true}, {4*gib + gib/2 - 1, true}, {4*gib + gib/2, false},
	} {
		fsys.free = tt.free
		free, ok, err := r.Measure(fsys, "", log)
		if !ok || err != nil || free != tt.free || r.Free() != tt.free || r.Low.Load() != tt.low || r.Reserve() != 4*gib {
			t.Errorf("%+v: %d are free, low %t, %v", tt, r.Free(), r.Low.Load(), err)
		}
	}
	if fsys.err = errors.New("no disk"); r.Free() != 4*gib+gib/2 {
		t.Errorf("%d bytes are free", r.Free())
	}
	if _, ok, err := r.Measure(fsys, "", log); ok || err != fsys.err {
		t.Errorf("measured %t, %v", ok, err)
	}
	for total, want := range map[int64]int64{5 * gib: gib / 2, 15 * gib: gib, 100 * gib: 5 * gib} {
		r.size.Store(total)
		if got := r.Reserve(); got != want {
			t.Errorf("of %d bytes %d stay free, want %d", total, got, want)
		}
	}
	if r.Least = 7; r.Reserve() != 7 {
		t.Errorf("%d bytes stay free, want 7", r.Reserve())
	}
}
