package netloop

import (
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// pollerTest is a poller whose turns only note what has happened.
type pollerTest struct {
	poller
	bell *bell
	took chan []int     // a turn has happened, on these descriptors
	next chan afterTurn // … and this is what comes behind it

	fds    []int        // of the turn that is taken
	during func(fd int) // is called when something has happened; nil: nothing is
}

func (b *bell) itself() *bell { return b }

// startPoller returns a poller that stops when the test ends. It has not begun to wait.
func startPoller(t *testing.T, eventLoop string) *pollerTest {
	t.Helper()
	p := &pollerTest{poller: Options{EventLoop: eventLoop}.newPoller(), took: make(chan []int), next: make(chan afterTurn)}
	p.bell = p.poller.(interface{ itself() *bell }).itself()
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		if <-p.next == thenEnds {
			ended <- nil
			return
		}
		ended <- p.run(p)
	}()
	t.Cleanup(func() {
		p.next <- thenEnds
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.close()
	})
	return p
}

func (p *pollerTest) serveBulk() (waits bool) { return false }

func (p *pollerTest) happened(fd int, _ bool) {
	p.fds = append(p.fds, fd)
	if p.during != nil {
		p.during(fd)
	}
}

func (p *pollerTest) finish() afterTurn {
	fds := p.fds
	p.fds = nil
	p.took <- fds
	return <-p.next
}

// turn takes a turn, and returns the descriptors on which something has happened.
func (p *pollerTest) turn() []int {
	p.next <- thenWaits
	return <-p.took
}

// socketPair returns two connected sockets.
func socketPair(t *testing.T) (a, b int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if err := unix.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		unix.Close(fds[0])
		unix.Close(fds[1])
	})
	return fds[0], fds[1]
}

// Every ring makes a turn, whether it comes before the wait or during it, and rings that no turn has
// begun for are one.
func TestPollerRing(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		ours, peer := socketPair(t)
		if err := p.add(ours); err != nil {
			t.Fatal(err)
		}
		p.ring()
		p.ring()
		if got := p.turn(); len(got) != 0 {
			t.Errorf("after two rings: %v, want nothing but a turn", got)
		}
		for range 100 {
			p.next <- thenWaits
			p.ring()
			if got := <-p.took; len(got) != 0 {
				t.Errorf("a ring while waiting: %v, want nothing but a turn", got)
			}
		}
		unix.Write(peer, []byte("x"))
		if got := p.turn(); !slices.Equal(got, []int{ours}) {
			t.Errorf("%v, want %d: no turn may be left of the rings", got, ours)
		}
	})
}

// A turn behind which another is to come at once has one, and takes along what has happened meanwhile.
func TestPollerGoesOn(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		ours, peer := socketPair(t)
		if err := p.add(ours); err != nil {
			t.Fatal(err)
		}
		p.ring()
		p.turn()
		for range 3 {
			p.next <- thenGoesOn
			if got := <-p.took; len(got) != 0 {
				t.Errorf("%v, want nothing but a turn", got)
			}
		}
		unix.Write(peer, []byte("x"))
		p.next <- thenGoesOn
		if got := <-p.took; !slices.Equal(got, []int{ours}) {
			t.Errorf("%v, want %d", got, ours)
		}
	})
}

// What can be read is reported once for everything that comes, also if it was there before add, and so is
// the end. Nothing is reported after remove.
func TestPollerReadable(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		ours, peer := socketPair(t)
		unix.Write(peer, []byte("x"))
		if err := p.add(ours); err != nil {
			t.Fatal(err)
		}
		if got := p.turn(); !slices.Equal(got, []int{ours}) {
			t.Errorf("what was there before add: %v, want %d", got, ours)
		}
		p.ring()
		if got := p.turn(); len(got) != 0 {
			t.Errorf("%v is reported twice", got)
		}
		for range 2 {
			unix.Write(peer, []byte("x"))
			if got := p.turn(); !slices.Equal(got, []int{ours}) {
				t.Errorf("more has come: %v, want %d", got, ours)
			}
		}
		var buf [8]byte
		if n, errno := receiveNow(ours, buf[:]); n != 3 || errno != 0 {
			t.Errorf("receive = %d, %v", n, errno)
		}
		if _, errno := receiveNow(ours, buf[:]); errno != unix.EAGAIN {
			t.Errorf("receive of nothing = %v, want EAGAIN", errno)
		}
		unix.Shutdown(peer, unix.SHUT_WR)
		if got := p.turn(); !slices.Equal(got, []int{ours}) {
			t.Errorf("an end: %v, want %d", got, ours)
		}
		p.remove(ours)
		unix.Shutdown(peer, unix.SHUT_RD)
		p.ring()
		if got := p.turn(); len(got) != 0 {
			t.Errorf("%v is reported after remove", got)
		}
	})
}

// What comes while a socket is muted is reported after unmute, and not before; nor is the end of what the
// peer sends. The end of the connection is reported at once.
func TestPollerMute(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		silent := func(when string) {
			t.Helper()
			p.ring()
			if got := p.turn(); len(got) != 0 {
				t.Errorf("%s: %v is reported", when, got)
			}
		}
		ours, peer := socketPair(t)
		if err := p.add(ours); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			p.mute(ours)
			silent("muted")
			unix.Write(peer, []byte("x"))
			silent("something has come while it is muted")
			p.unmute(ours)
			if got := p.turn(); !slices.Equal(got, []int{ours}) {
				t.Errorf("unmuted: %v, want %d", got, ours)
			}
		}
		p.mute(ours)
		unix.Shutdown(peer, unix.SHUT_WR)
		silent("the peer sends no more")
		unix.Shutdown(peer, unix.SHUT_RDWR)
		if got := p.turn(); !slices.Equal(got, []int{ours}) {
			t.Errorf("the connection has ended: %v, want %d", got, ours)
		}
	})
}

// A bell that is closed rings nobody: its descriptor is somebody else's by then.
// Negative control: without the look at open in ring, the byte arrives.
func TestPollerRingAfterClose(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		bell := p.bell.fd
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
	})
}

// A turn ends although an event that was to come does not. One of several sockets that have something is muted, or
// removed, while the turn handles another.
func TestPollerFewer(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		drop := []func(int){p.mute, p.remove}
		var ours, peers [4]int
		for i := range ours {
			ours[i], peers[i] = socketPair(t)
			if err := p.add(ours[i]); err != nil {
				t.Fatal(err)
			}
		}
		p.ring()
		p.turn()
		var buf [8]byte
		for len(drop) > 0 {
			dropped := 0
			p.during = func(fd int) {
				for i := range ours {
					if dropped == 0 && ours[i] != fd && peers[i] != 0 {
						dropped = ours[i]
						drop[0](dropped)
						peers[i] = 0
					}
				}
			}
			var live []int
			for i := range ours {
				if peers[i] != 0 {
					unix.Write(peers[i], []byte("x"))
					live = append(live, ours[i])
				}
			}
			got := p.turn()
			for _, fd := range live {
				if fd != dropped && !slices.Contains(got, fd) {
					t.Errorf("a turn of %v, want %d in it", got, fd)
				}
				receiveNow(fd, buf[:])
			}
			p.during = nil
			p.ring()
			p.turn() // epoll reports what it has taken before it was dropped
			drop = drop[1:]
		}
	})
}

// A muted connection that has failed, and stays open, is not waited for.
func TestPollerMutedFailure(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		p := startPoller(t, eventLoop)
		failed, gone := socketPair(t)
		ours, peer := socketPair(t)
		for _, fd := range []int{failed, ours} {
			if err := p.add(fd); err != nil {
				t.Fatal(err)
			}
		}
		p.mute(failed)
		unix.Shutdown(gone, unix.SHUT_RDWR)
		if got := p.turn(); !slices.Equal(got, []int{failed}) {
			t.Fatalf("the end of a muted connection: %v, want %d", got, failed)
		}
		var buf [8]byte
		for range 40 { // more than look and rest
			unix.Write(peer, []byte("x"))
			if got := p.turn(); !slices.Equal(got, []int{ours}) {
				t.Fatalf("%v, want %d", got, ours)
			}
			receiveNow(ours, buf[:])
		}
	})
}

// However many sockets there are, and whichever of them are muted or removed, one turn reports each that has
// something, once, and no other.
func TestPollerSockets(t *testing.T) {
	onEventLoops(t, func(t *testing.T, eventLoop string) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		p := startPoller(t, eventLoop)
		type socket struct {
			ours, peer           int
			added, muted, unread bool
		}
		var sockets [12]socket // few, and more
		for i := range sockets {
			sockets[i].ours, sockets[i].peer = socketPair(t)
		}
		p.ring()
		p.turn()
		var buf [1 << 10]byte
		for step := range 300 {
			s := &sockets[random.IntN(len(sockets))]
			switch {
			case !s.added:
				if err := p.add(s.ours); err != nil {
					t.Fatal(err)
				}
				s.added, s.muted = true, false
			case random.IntN(3) > 0:
				if s.muted = !s.muted; s.muted {
					p.mute(s.ours)
				} else {
					p.unmute(s.ours)
				}
			default:
				p.remove(s.ours)
				s.added = false
			}
			for i := range sockets {
				if s := &sockets[i]; random.IntN(2) == 0 {
					unix.Write(s.peer, []byte("x"))
					s.unread = true
				}
			}
			var want []int
			for i := range sockets {
				if s := &sockets[i]; s.added && !s.muted && s.unread {
					want = append(want, s.ours)
				}
			}
			if len(want) == 0 {
				p.ring()
			}
			got := slices.Sorted(slices.Values(p.turn()))
			if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("step %d: a turn of %v, want %v", step, got, want)
			}
			for i := range sockets {
				if s := &sockets[i]; s.added && !s.muted && s.unread {
					receiveNow(s.ours, buf[:])
					s.unread = false
				}
			}
		}
	})
}
