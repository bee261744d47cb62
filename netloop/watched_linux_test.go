package netloop

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReactorDescriptor tests that the descriptor of gnet's reactor is found: a new version of gnet may
// keep it elsewhere. Then reactorDescriptor has to look there, or every turn costs more.
func TestReactorDescriptor(t *testing.T) {
	p := startPoller(t, EventLoopGnet).poller.(*gnetPoller)
	if p.watched.reactor[0].Fd < 0 {
		t.Fatal("the reactor's epoll descriptor is not where reactorDescriptor looks for it")
	}
	ours, peer := socketPair(t)
	if err := p.add(ours); err != nil {
		t.Fatal(err)
	}
	unix.Write(peer, []byte("x"))
	if n, err := unix.Poll(p.watched.reactor[:], 0); n != 1 || err != nil {
		t.Errorf("poll of the reactor with an event = %d, %v, want 1", n, err)
	}
}

// TestReactorWithoutDescriptor tests that the loop works without.
func TestReactorWithoutDescriptor(t *testing.T) {
	p := startPoller(t, EventLoopGnet)
	p.poller.(*gnetPoller).watched.reactor[0].Fd = -1
	ours, peer := socketPair(t)
	if err := p.add(ours); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		unix.Write(peer, []byte("x"))
		if got := p.turn(); !slices.Equal(got, []int{ours}) {
			t.Errorf("%v, want %d", got, ours)
		}
		p.ring()
		if got := p.turn(); len(got) != 0 {
			t.Errorf("%v after a ring, want nothing but a turn", got)
		}
	}
}
