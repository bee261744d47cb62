package segment_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// watchWriteOut has the disk note what is written out, as "segment offset+length".
func watchWriteOut(disk *segmenttest.FS) *[]string {
	var seen []string
	disk.SetFault(func(op segmenttest.Op) segmenttest.Fault {
		if op.Kind == segmenttest.OpWriteOut {
			number, _, _ := segment.ParseFileName(filepath.Base(op.Path))
			seen = append(seen, fmt.Sprintf("%d %d+%d", number, op.Offset, op.Size))
		}
		return segmenttest.Fault{}
	})
	return &seen
}

// TestWriteOut writes out what was appended and not synced, once, in pieces of one file each.
func TestWriteOut(t *testing.T) {
	const piece = segment.WriteOutPiece
	s, disk := start(t, segment.Options{SegmentSize: 4 * piece}, appends(piece), syncs)
	seen := watchWriteOut(disk)
	synced := int64(s.log.Watermark())
	must(t, s.append(2*piece)) // to the end of the first segment
	must(t, s.append(3*piece/2))
	sealed, tail := int64(s.log.Segments()[0].End), int64(s.log.Segments()[1].End)
	must(t, s.log.WriteOut())
	want := []string{
		fmt.Sprintf("1 %d+%d", synced, 2*piece-synced),
		fmt.Sprintf("1 %d+%d", 2*piece, piece),
		fmt.Sprintf("1 %d+%d", 3*piece, sealed-3*piece),
		fmt.Sprintf("2 %d+%d", 0, piece),
		fmt.Sprintf("2 %d+%d", piece, tail-sealed-piece),
	}
	if !slices.Equal(*seen, want) {
		t.Errorf("WriteOut:\n%q, want\n%q", *seen, want)
	}
	if got := int64(s.log.Watermark()); got != synced {
		t.Errorf("Watermark = %d after WriteOut, was %d", got, synced)
	}
	must(t, s.log.WriteOut())
	if len(*seen) != len(want) {
		t.Errorf("WriteOut with nothing to do: %q", (*seen)[len(want):])
	}
	must(t, s.sync())
	must(t, s.append(10)) // not worth it
	must(t, s.log.WriteOut())
	if len(*seen) != len(want) {
		t.Errorf("WriteOut of 10 bytes: %q", (*seen)[len(want):])
	}
	disk.SetFault(nil)
	must(t, s.close())
}

// TestWriteOutSealed: SyncSealed writes out what it syncs, and nothing of the tail.
func TestWriteOutSealed(t *testing.T) {
	s, disk := start(t, smallOptions, appends(600))
	seen := watchWriteOut(disk)
	must(t, s.log.SyncSealed())
	if len(*seen) > 0 {
		t.Errorf("SyncSealed writes out %q, and nothing is sealed", *seen)
	}
	must(t, s.append(600))
	must(t, s.log.SyncSealed())
	end := s.log.Segments()[0].End
	base := int64(136) // behind the first link, which was synced when the segment was made
	if want := fmt.Sprintf("1 %d+%d", base, int64(end)-base); !slices.Equal(*seen, []string{want}) {
		t.Errorf("SyncSealed writes out %q, want %q", *seen, want)
	}
	disk.SetFault(nil)
	must(t, s.close())
}

// TestSyncSealedLeavesLater has a segment be sealed while SyncSealed writes out. It is left to the
// next call, and what the call says it made durable is durable.
func TestSyncSealedLeavesLater(t *testing.T) {
	disk := segmenttest.New()
	var s *session
	during := func() {}
	s = newSession(wrapFS{disk, func(_ string, f segment.File) segment.File {
		return &writeOutHook{f, &during}
	}}, smallOptions)
	must(t, s.open(promiseWritten))
	must(t, s.run([]step{appends(600, 600)}))
	during = func() {
		during = func() {}
		must(t, s.append(600))
	}
	must(t, s.log.SyncSealed())
	all := s.log.Segments()
	if got := s.log.Watermark(); len(all) != 3 || got != all[0].End {
		t.Errorf("Watermark = %d with %d segments, want the end of the first, %d", got, len(all), all[0].End)
	}
	must(t, s.log.SyncSealed())
	if got := s.log.Watermark(); got != all[1].End {
		t.Errorf("Watermark = %d after the next call, want %d", got, all[1].End)
	}
	must(t, s.close())
}

// writeOutHook calls a function before anything is written out.
type writeOutHook struct {
	segment.File
	before *func()
}

func (f *writeOutHook) WriteOut(off, n int64) error {
	(*f.before)()
	return f.File.WriteOut(off, n)
}

// TestWriteOutFails: what could not be written out may be lost, whatever a later sync says.
func TestWriteOutFails(t *testing.T) {
	s, disk := start(t, segment.Options{SegmentSize: 1 << 20}, appends(segment.WriteOutPiece))
	failNext(disk, segmenttest.OpWriteOut, syscall.EIO)
	if err := s.log.WriteOut(); !errors.Is(err, segment.ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("WriteOut on a failing disk = %v, want ErrPoisoned and EIO", err)
	}
	if err := s.sync(); !errors.Is(err, segment.ErrPoisoned) {
		t.Errorf("Sync behind it = %v, want ErrPoisoned", err)
	}
	if err := s.log.WriteOut(); !errors.Is(err, segment.ErrPoisoned) {
		t.Errorf("WriteOut behind it = %v, want ErrPoisoned", err)
	}
	s.log.Close()
	if err := s.log.WriteOut(); !errors.Is(err, segment.ErrClosed) {
		t.Errorf("WriteOut of a closed log = %v, want ErrClosed", err)
	}
}

// TestOSWriteOut writes parts of a real file out, in any order; it is the same file then.
func TestOSWriteOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := segment.OS{}.Create(name)
	must(t, err)
	want := make([]byte, 3<<20)
	for i := range want {
		want[i] = byte(i >> 12)
	}
	_, err = f.WriteAt(want, 0)
	must(t, err)
	for _, off := range []int64{0, 1 << 20, 2 << 20, 3 << 20, 4096, 100} {
		must(t, f.WriteOut(off, 1<<20))
	}
	must(t, f.Datasync())
	got, err := os.ReadFile(name)
	must(t, err)
	if !slices.Equal(got, want) {
		t.Error("the file has changed")
	}
	must(t, f.Close())
	if err := f.WriteOut(0, 1<<20); !errors.Is(err, os.ErrClosed) && !errors.Is(err, syscall.EBADF) {
		t.Errorf("WriteOut of a closed file = %v, want that it is closed", err)
	}
}

// TestTrimSpares gives spares back that were not needed between two calls, and no others.
func TestTrimSpares(t *testing.T) {
	o := smallOptions
	o.Spares = 4
	s, disk := start(t, o, appends(600, 600, 600, 600, 600, 600), syncs, drops(1))
	spares := func(want int, when string) {
		t.Helper()
		got := 0
		for _, name := range names(t, disk) {
			if filepath.Ext(name) == ".spare" {
				got++
			}
		}
		if got != want {
			t.Errorf("%d spares %s, want %d", got, when, want)
		}
	}
	spares(4, "after a drop")
	must(t, s.run([]step{trims(1)}))
	spares(4, "of which none was idle for long")
	must(t, s.run([]step{appends(600, 600), syncs, drops(1)}))
	spares(4, "after two were used and dropped")
	must(t, s.run([]step{trims(1)}))
	spares(2, "after the two that were not needed went")
	must(t, s.run([]step{trims(1), trims(1)}))
	spares(1, "as many as are kept")
	must(t, s.close())
}
