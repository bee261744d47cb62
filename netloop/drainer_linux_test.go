package netloop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestStopOfClosedDrainer stops a drainer that has just closed: its goroutine may see that it is to stop
// before stop has rung. What has its descriptor by then gets nothing.
func TestStopOfClosedDrainer(t *testing.T) {
	d, err := newDrainer(func(int64) {}, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	wake := d.outlets.event
	d.close()
	for reused := -1; reused != wake; {
		if reused, err = unix.Eventfd(0, unix.EFD_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		defer unix.Close(reused)
		if reused > wake {
			t.Skipf("descriptor %d is in use", wake)
		}
	}
	d.stop()
	if _, err := unix.Read(wake, make([]byte, 8)); err != unix.EAGAIN {
		t.Errorf("the event descriptor that is %d now was rung: %v", wake, err)
	}
}
