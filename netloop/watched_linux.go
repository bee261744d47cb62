package netloop

import (
	"reflect"
	"syscall"
	"unsafe"

	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// This file knows the sockets of a gnetPoller, and polls them behind a turn.

const (
	// fewSockets is up to how many connections linger looks at their sockets.
	fewSockets = 8
	// vainLooks is how many such looks in a row find nothing before linger leaves out restLooks.
	vainLooks = 4
	restLooks = 16
)

// watched are the sockets of a gnetPoller, for the wait behind a turn.
//
// With few connections, linger polls their sockets. It then knows which of them have something. The reactor has an
// event of each: a turn that leaves something unread goes on, and does not linger. So the event of the last of them
// ends the turn. The loop may call linger in the middle of a batch: a socket with an event still to be handled ends
// the poll at once.
//
// With more, linger polls the reactor, and must come behind a batch. The reactor's descriptor does not report events
// that the reactor has taken and not yet handled.
type watched struct {
	reactor [1]unix.PollFd
	sockets []unix.PollFd // the bell, then all connections; of one that is muted, failures only
	at      []int         // by descriptor: its place in sockets; 0: none
	// due is how many connections had something when linger ended, and no event since; -1: unknown. If it is
	// above zero, Revents of sockets says which.
	due   int
	vain  int // looks in a row that have found nothing
	rest  int // turns until linger looks again
	brief unix.Timespec
}

func (w *watched) start(r *netpoll.Poller, bell int) {
	w.reactor[0] = unix.PollFd{Fd: int32(reactorDescriptor(r, bell)), Events: unix.POLLIN}
	w.sockets = append(w.sockets[:0], unix.PollFd{Fd: int32(bell), Events: unix.POLLIN})
	w.unknown()
}

// reactorDescriptor returns the epoll descriptor of a reactor that watches fd, or -1. The reactor does
// not give it away; without it, the poller works and costs more.
func reactorDescriptor(r *netpoll.Poller, fd int) int {
	field := reflect.ValueOf(r).Elem().FieldByName("fd")
	if !field.IsValid() || !field.CanInt() {
		return -1
	}
	epoll := int(field.Int())
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
	if unix.EpollCtl(epoll, unix.EPOLL_CTL_MOD, fd, &event) != nil { // it is something else
		return -1
	}
	return epoll
}

const pollRead = unix.POLLIN | unix.POLLRDHUP

func (w *watched) add(fd int) {
	for fd >= len(w.at) {
		w.at = append(w.at, 0)
	}
	w.at[fd] = len(w.sockets)
	w.sockets = append(w.sockets, unix.PollFd{Fd: int32(fd), Events: pollRead})
}

func (w *watched) mute(fd int) { w.listen(fd, 0) }

func (w *watched) unmute(r *netpoll.Poller, fd int) {
	at := netpoll.PollAttachment{FD: fd}
	if r.ModRead(&at, true) != nil && r.AddRead(&at, true) != nil { // mute had no memory to add it
		return // nor is there any now: no event of it will come
	}
	w.listen(fd, pollRead)
}

func (w *watched) listen(fd int, events int16) {
	if at := w.at[fd]; at > 0 {
		w.came(at)
		w.sockets[at].Events = events
	}
}

func (w *watched) remove(fd int) {
	at, last := w.at[fd], len(w.sockets)-1
	if at == 0 {
		return
	}
	w.came(at)
	w.sockets[at] = w.sockets[last]
	w.at[w.sockets[at].Fd] = at
	w.sockets, w.at[fd] = w.sockets[:last], 0
}

// read returns what an event of a connection says: whether there is something to be read, and whether
// the peer sends no more.
func (w *watched) read(fd int, event netpoll.IOEvent, _ netpoll.IOFlags) (readable, ended bool) {
	if event&(unix.EPOLLIN|failEvents) == 0 {
		return false, false
	}
	if fd < len(w.at) && w.at[fd] > 0 {
		w.came(w.at[fd])
	}
	return true, event&endEvents != 0
}

// came notes that the event of a connection has come, or that none will.
func (w *watched) came(at int) {
	if w.due > 0 && w.sockets[at].Revents != 0 {
		w.due--
		w.sockets[at].Revents = 0
	}
}

// more reports whether the reactor has another event, which ends the turn or has one behind it, and
// whether that is known.
func (w *watched) more() (more, known bool) {
	if !w.few() {
		return false, false
	}
	return w.due > 0, w.due >= 0 || len(w.sockets) == 2
}

func (w *watched) few() bool { return len(w.sockets) <= 1+fewSockets }

// unknown is called instead of linger.
func (w *watched) unknown() { w.due = -1 }

// linger waits until the reactor has events, but not for long. It leaves them to the reactor.
func (w *watched) linger() {
	w.unknown()
	if !w.few() {
		w.await()
		return
	}
	// A look costs less than a wait for many sockets, but clients that wait for each reply have sent nothing
	// yet. Then most turns do without.
	wait := int64(0)
	if w.rest > 0 {
		w.rest--
		wait = briefWait
	}
	switch n := w.poll(w.sockets, wait); {
	case n > 0 && w.sockets[0].Revents == 0:
		w.vain = 0
		w.expect()
	case n == 0 && wait == 0: // so no event of this batch is left
		if w.vain++; w.vain == vainLooks {
			w.vain, w.rest = 0, restLooks
		}
		if w.await() {
			w.due = 0 // the first event is a turn: others would have to come meanwhile
		}
	}
}

// await waits for the reactor, and reports whether it has an event.
func (w *watched) await() bool {
	return w.reactor[0].Fd >= 0 && w.poll(w.reactor[:], briefWait) > 0
}

// expect counts the connections that have something, as poll has found.
func (w *watched) expect() {
	due := 0
	for i := range w.sockets {
		if s := &w.sockets[i]; s.Events == 0 {
			s.Revents = 0 // muted: its failure is an event once, and stays
		} else if s.Revents != 0 {
			due++
		}
	}
	if due > 0 {
		w.due = due
	}
}

// poll waits until one of set has something, and returns how many have. It is a raw system call: see
// waitRaw.
func (w *watched) poll(set []unix.PollFd, millis int64) int {
	w.brief = unix.Timespec{Nsec: millis * 1e6} // the kernel writes to it
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&set[0])), uintptr(len(set)),
		uintptr(unsafe.Pointer(&w.brief)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}
