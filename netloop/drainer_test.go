package netloop

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestLingeringIsBounded has more connections end behind unread replies than may be kept: the one that
// has not read for longest makes room, and gives its memory and its descriptor back.
func TestLingeringIsBounded(t *testing.T) {
	held := int64(0)
	d, err := newDrainer(func(n int64) { held += n }, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	var peers []int
	for i := range 3 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil {
			err = errors.Join(unix.SetNonblock(pair[0], true), unix.SetNonblock(pair[1], true))
		}
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[1])
		peers = append(peers, pair[1])
		d.linger(pair[0], 100, unsealed{}, make([]byte, 100))
		unix.Close(pair[0])
		if n := d.count(); n != int64(min(i+1, 2)) || held != 100*n {
			t.Errorf("after %d connections %d are kept, with %d bytes; want at most 2", i+1, n, held)
		}
	}
	for i, fd := range peers {
		n, err := unix.Read(fd, make([]byte, 1))
		if ended := n == 0 && err == nil; ended != (i == 0) {
			t.Errorf("connection %d has ended: %t; want that the oldest has", i, ended)
		}
	}
}
