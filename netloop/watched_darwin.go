package netloop

import (
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// watched are the sockets of a gnetPoller that are muted, or removed and perhaps not closed yet. gnet's reactor leaves
// it to the system to forget a descriptor that is closed, and has no way to forget another.
//
// There is no wait behind a turn: Go's scheduler hears of every wait here.
type watched struct{ silent map[int]bool }

func (w *watched) start(*netpoll.Poller, int) { w.silent = map[int]bool{} }

func (w *watched) add(fd int)    { delete(w.silent, fd) }
func (w *watched) mute(fd int)   { w.silent[fd] = true }
func (w *watched) remove(fd int) { w.silent[fd] = true }

// unmute adds what mute has left in place once more: that reports what has come meanwhile.
func (w *watched) unmute(r *netpoll.Poller, fd int) {
	delete(w.silent, fd)
	at := netpoll.PollAttachment{FD: fd}
	r.ModRead(&at, true) // ends the wait for room to write
	r.AddRead(&at, true)
}

// read returns what an event of a connection says: whether there is something to be read, and whether
// the peer sends no more.
func (w *watched) read(fd int, event netpoll.IOEvent, flags netpoll.IOFlags) (readable, ended bool) {
	if w.silent[fd] {
		// The peer can end its half of a connection that is muted; the end of both is for the driver.
		return event == unix.EVFILT_WRITE && flags&unix.EV_EOF != 0, true
	}
	return event == unix.EVFILT_READ, flags&(unix.EV_EOF|unix.EV_ERROR) != 0
}

// more reports that nobody knows whether there is another event behind the one that is handled.
func (w *watched) more() (more, known bool) { return false, false }

func (w *watched) unknown() {}
func (w *watched) linger()  {}
