package netloop

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// startPoller returns a poller that is closed when the test ends.
func startPoller(t *testing.T) *poller {
	t.Helper()
	p := &poller{}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

// socketPair returns two connected sockets.
func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

// happened returns the descriptors that a wait tells of.
func happened(t *testing.T, p *poller) (fds []int) {
	t.Helper()
	events, err := p.wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range events {
		fds = append(fds, int(ev.Fd))
	}
	return fds
}

// Every ring ends one wait, whether it comes before the wait or during it, and rings that nobody
// has waited for are one.
func TestPollerRing(t *testing.T) {
	p := startPoller(t)
	bell := []int{p.bell}
	p.ring()
	p.ring()
	if got := happened(t, p); !slices.Equal(got, bell) {
		t.Errorf("after two rings: %v, want %v", got, bell)
	}
	for range 3 {
		rung := make(chan struct{})
		go func() {
			defer close(rung)
			p.ring()
		}()
		if got := happened(t, p); !slices.Equal(got, bell) {
			t.Errorf("a ring while waiting: %v, want %v", got, bell)
		}
		<-rung
	}
}

// What can be read is told again until it has been, and not after remove.
func TestPollerReadable(t *testing.T) {
	p := startPoller(t)
	ours, peer := socketPair(t)
	if err := p.add(ours); err != nil {
		t.Fatal(err)
	}
	if got := p.ready(); len(got) != 0 {
		t.Errorf("ready = %v before anything has happened", got)
	}
	unix.Write(peer, []byte("xy"))
	if got := p.ready(); len(got) != 1 || int(got[0].Fd) != ours {
		t.Errorf("ready = %v, want %d", got, ours)
	}
	for range 2 {
		if got := happened(t, p); !slices.Equal(got, []int{ours}) {
			t.Errorf("wait = %v, want %d", got, ours)
		}
	}
	var buf [8]byte
	if n, errno := receiveNow(ours, buf[:]); n != 2 || errno != 0 {
		t.Errorf("receive = %d, %v", n, errno)
	}
	if _, errno := receiveNow(ours, buf[:]); errno != unix.EAGAIN {
		t.Errorf("receive of nothing = %v, want EAGAIN", errno)
	}
	unix.Close(peer)
	if got := happened(t, p); !slices.Equal(got, []int{ours}) {
		t.Errorf("wait for an end = %v, want %d", got, ours)
	}
	p.remove(ours)
	p.ring()
	if got := happened(t, p); !slices.Equal(got, []int{p.bell}) {
		t.Errorf("wait after remove = %v, want the bell %d", got, p.bell)
	}
}

// A bell that is closed rings nobody: its descriptor is somebody else's by then.
// Negative control: without the look at open in ring, the byte arrives.
func TestPollerRingAfterClose(t *testing.T) {
	p := startPoller(t)
	bell := p.bell
	p.close()
	ours, peer := socketPair(t)
	if _, err := unix.FcntlInt(uintptr(bell), unix.F_GETFD, 0); err != nil {
		if err := unix.Dup2(peer, bell); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(bell) })
	}
	p.ring()
	p.close() // once more is once too many for nobody
	var buf [8]byte
	if n, errno := receiveNow(ours, buf[:]); errno != unix.EAGAIN {
		t.Errorf("%d bytes, %v, want none", n, errno)
	}
}
