package segment_test

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest/failingdisk"
)

// failingDisk shows the files of a directory, until the test ends.
type failingDisk struct {
	*failingdisk.Disk
	mount string
}

func newFailingDisk(t *testing.T, dir string) failingDisk {
	t.Helper()
	mount := t.TempDir()
	d, err := failingdisk.New(mount, dir)
	if errors.Is(err, failingdisk.ErrUnavailable) {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return failingDisk{d, mount}
}

// TestMappedDiskFails reads a run from a disk that fails in the middle. It fails before the next piece is mapped, and
// below existing maps, of which the kernel has dropped the pages. What comes before is read, and then the error is the
// disk's: not the end of the process, and not damage. So it is without maps. Negative control: without SetPanicOnFault
// in copyMapped, a SIGBUS ends the process.
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
			disk := newFailingDisk(t, filepath.Dir(run.path))
			run.path = filepath.Join(disk.mount, filepath.Base(run.path))
			fs := new(mapFS)
			if !tt.mapped {
				fs.fail = errors.ErrUnsupported
			}
			r := openMapped(t, fs, run, segment.NewSmallReadAhead(testPiece))
			half := len(run.frames) / 2
			must(t, run.read(t, r, 0, half))
			if mapped := fs.maps.Load() > 0; mapped != tt.mapped {
				t.Fatalf("the run was mapped: %v, want %v", mapped, tt.mapped)
			}
			must(t, disk.Fail())
			if tt.below {
				must(t, disk.Forget())
			}
			err := run.read(t, r, half, len(run.frames))
			var damage *segment.CorruptionError
			if !errors.Is(err, unix.EIO) || errors.As(err, &damage) {
				t.Errorf("read of a disk that fails = %v, want EIO", err)
			}
			if failed, err := disk.Failed(); failed == 0 || err != nil {
				t.Errorf("%d reads of the disk have failed, %v", failed, err)
			}
		})
	}
}
