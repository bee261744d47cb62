package netloop

import (
	"reflect"
	"syscall"
	"unsafe"

	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"golang.org/x/sys/unix"
)

// fewSockets is up to how many connections linger polls their sockets, and not the reactor.
const fewSockets = 4

// watched are the sockets of a gnetPoller, for the wait behind a turn.
//
// With few connections, linger polls their sockets. It then knows how many of them have something, and
// so whether the next event is alone. And it may be called in the middle of a batch: a socket of which
// an event is still to be handled ends the poll at once.
//
// With more, linger polls the reactor, and must come behind a batch: the reactor's descriptor has
// nothing to say of events that the reactor has taken and not yet handled.
type watched struct {
	reactor [1]unix.PollFd
	sockets []unix.PollFd // the bell, then all connections; of one that is muted, failures only
	at      []int         // by descriptor: its place in sockets; 0: none
	ready   int           // connections that had something when linger ended; -1: unknown
	brief   unix.Timespec
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
	w.listen(fd, pollRead)
	at := netpoll.PollAttachment{FD: fd}
	if r.ModRead(&at, true) != nil {
		r.AddRead(&at, true) // mute had no memory to add it
	}
}

func (w *watched) listen(fd int, events int16) {
	if at := w.at[fd]; at > 0 {
		w.sockets[at].Events = events
	}
}

func (w *watched) remove(fd int) {
	at, last := w.at[fd], len(w.sockets)-1
	if at == 0 {
		return
	}
	w.sockets[at] = w.sockets[last]
	w.at[w.sockets[at].Fd] = at
	w.sockets, w.at[fd] = w.sockets[:last], 0
}

// read returns what an event of a connection says: whether there is something to be read, and whether
// the peer sends no more.
func (w *watched) read(_ int, event netpoll.IOEvent, _ netpoll.IOFlags) (readable, ended bool) {
	return event&(unix.EPOLLIN|failEvents) != 0, event&endEvents != 0
}

// alone reports whether the event that is handled is all that there is to handle.
func (w *watched) alone() bool {
	return w.few() && (w.ready == 1 || len(w.sockets) == 2)
}

func (w *watched) few() bool { return len(w.sockets) <= 1+fewSockets }

// unknown is called instead of linger.
func (w *watched) unknown() { w.ready = -1 }

// linger waits until the reactor has events, but not for long. It leaves them to the reactor.
func (w *watched) linger() {
	w.unknown()
	if !w.few() {
		if w.reactor[0].Fd >= 0 {
			w.poll(w.reactor[:])
		}
		return
	}
	if n := w.poll(w.sockets); n > 0 && w.sockets[0].Revents == 0 {
		w.ready = n
	}
}

// poll waits until one of set has something, and returns how many have. It is a raw system call: see
// waitRaw.
func (w *watched) poll(set []unix.PollFd) int {
	w.brief = unix.Timespec{Nsec: briefWait * 1e6} // the kernel writes to it
	n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&set[0])), uintptr(len(set)),
		uintptr(unsafe.Pointer(&w.brief)), 0, 0, 0)
	if errno != 0 {
		return 0
	}
	return int(n)
}
