package segment_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/segment"
)

// TestUncachedFallback opens a file of a file system that has nothing to go past.
func TestUncachedFallback(t *testing.T) {
	const name = "/proc/self/stat"
	if f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT, 0); !errors.Is(err, unix.EINVAL) {
		f.Close()
		t.Skip("this system's procfs can be read directly: ", err)
	}
	f, err := segment.OS{}.Uncached().OpenReadOnly(name)
	must(t, err)
	defer f.Close()
	got := make([]byte, 3)
	if _, err := f.ReadAt(got, 0); err != nil || segment.PastCache(f) {
		t.Errorf("%s reads as %q, %v, past the page cache: %v", name, got, err, segment.PastCache(f))
	}
}
