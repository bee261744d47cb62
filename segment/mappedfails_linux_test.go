package segment_test

import (
	"errors"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// TestMappedDiskFails reads a run from a disk that fails in the middle: before the next piece is mapped, and
// below maps that are there, of which the kernel has dropped the pages. What comes before is read, and then
// the error is the disk's: not the end of the process, and not damage. So it is without maps.
// Negative control: without SetPanicOnFault in copyMapped, a SIGBUS ends the process.
func TestMappedDiskFails(t *testing.T) {
	for _, tt := range []struct {
		name          string
		mapped, below bool
	}{
		{"read directly", false, false},
		{"before a map", true, false},
		{"below a map", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run := newMappedRun(t, 12<<20)
			disk := newFailingDisk(t, run.path)
			run.path = disk.path
			var mu sync.Mutex
			var maps [][]byte
			fs := &mapFS{mapped: func(mem []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				maps = append(maps, mem) // Unmap leaves it
				return mem
			}}
			if !tt.mapped {
				fs.fail = errors.ErrUnsupported
			}
			r := openMapped(t, fs, run, segment.NewSmallReadAhead(testPiece))
			half := len(run.frames) / 2
			must(t, run.read(t, r, 0, half))
			if mapped := fs.maps.Load() > 0; mapped != tt.mapped {
				t.Fatalf("the run was mapped: %v, want %v", mapped, tt.mapped)
			}
			disk.fail(t)
			mu.Lock()
			f, err := os.Open(disk.path)
			must(t, err)
			for _, mem := range maps {
				if tt.below {
					must(t, unix.Madvise(mem, unix.MADV_DONTNEED))
				}
			}
			must(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
			must(t, f.Close())
			mu.Unlock()
			err = run.read(t, r, half, len(run.frames))
			var damage *segment.CorruptionError
			if !errors.Is(err, unix.EIO) || errors.As(err, &damage) {
				t.Errorf("read of a disk that fails = %v, want EIO", err)
			}
			if failed := disk.fail(t); failed == 0 {
				t.Error("no read of the disk has failed")
			}
			must(t, r.Close())
			mu.Lock()
			defer mu.Unlock()
			for _, mem := range maps {
				must(t, unix.Munmap(mem))
			}
		})
	}
}
