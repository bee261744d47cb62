package netloop

import (
	"errors"
	"reflect"
	"syscall"
	"unsafe"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/panjf2000/gnet/v2/pkg/queue"
	"golang.org/x/sys/unix"
)

// gnetPoller is a poller on the reactor of gnet. The sockets, their reading and their writing are ours.
//
// The reactor does not say when it has reported all events of a batch, but it runs tasks only then. So
// the first event of a turn queues a task, which the reactor runs behind the batch that comes next, and
// the task ends the turn. If there is only one connection, its event is the whole turn, which ends at
// once.
//
// Behind a turn the poller lingers: it waits for some milliseconds in a raw system call, because the
// reactor tells Go's scheduler when it waits, and that costs more than a short wait is worth. It must
// not linger when an event of the batch may be left, and a ring must end it. So rings have a descriptor
// of their own: while tasks run, the reactor's does not notice new ones.
type gnetPoller struct {
	bell
	reactor *netpoll.Poller // nil: closed
	turns   turns
	end     queue.Func // endTurn, made once
	ending  bool       // it is queued
	conns   int        // that have been added
	set     [1]unix.PollFd
	brief   unix.Timespec
}

var _ poller = (*gnetPoller)(nil)

func (p *gnetPoller) start() (err error) {
	if p.reactor, err = netpoll.OpenPoller(); err != nil {
		p.reactor = nil
		return err
	}
	if err = p.bell.start(); err == nil {
		err = p.reactor.AddRead(&netpoll.PollAttachment{FD: p.bell.fd}, true)
	}
	if err != nil {
		p.close()
		return err
	}
	p.end = p.endTurn
	p.set[0] = unix.PollFd{Fd: int32(reactorDescriptor(p.reactor, p.bell.fd)), Events: unix.POLLIN}
	return nil
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

func (p *gnetPoller) add(fd int) error {
	err := p.reactor.AddRead(&netpoll.PollAttachment{FD: fd}, true)
	if err == nil {
		p.conns++
	}
	return err
}

// mute has the reactor wait for room to write, which happened passes over: the kernel reports failures
// along with whatever is asked for.
func (p *gnetPoller) mute(fd int) {
	p.reactor.Delete(fd)
	p.reactor.AddWrite(&netpoll.PollAttachment{FD: fd}, true)
}

func (p *gnetPoller) unmute(fd int) {
	at := netpoll.PollAttachment{FD: fd}
	if p.reactor.ModRead(&at, true) != nil {
		p.reactor.AddRead(&at, true) // mute had no memory to add it
	}
}

func (p *gnetPoller) remove(fd int) {
	if p.reactor.Delete(fd) == nil {
		p.conns--
	}
}

func (p *gnetPoller) run(t turns) error {
	p.turns = t
	if err := p.reactor.Polling(p.happened); !errors.Is(err, gneterrors.ErrEngineShutdown) {
		return err
	}
	return nil
}

// happened handles one event. The reactor goes on unless it returns ErrEngineShutdown.
func (p *gnetPoller) happened(fd int, events netpoll.IOEvent, _ netpoll.IOFlags) error {
	switch {
	case fd == p.bell.fd:
		p.heard()
	case events&(unix.EPOLLIN|failEvents) == 0:
		return nil // room to write, or the end of a peer that is muted
	default:
		alone := p.conns == 1 && !p.ending && !p.rung.Load()
		p.turns.happened(fd, events&endEvents != 0)
		if alone {
			return p.endTurn(nil)
		}
	}
	if p.ending {
		return nil
	}
	p.ending = true
	return p.reactor.Trigger(queue.HighPriority, p.end, nil)
}

// endTurn ends a turn. No event of a batch is left when it is called.
func (p *gnetPoller) endTurn(any) error {
	p.ending = false
	p.turns.serve()
	switch p.turns.finish() {
	case nextIsNone:
		return gneterrors.ErrEngineShutdown
	case nextGoesOn:
		p.ring()
	default:
		p.linger()
	}
	return nil
}

// linger waits until the reactor has events, but not for long. It leaves them to the reactor.
func (p *gnetPoller) linger() {
	if p.set[0].Fd < 0 {
		return
	}
	p.brief = unix.Timespec{Nsec: briefWait * 1e6} // the kernel writes to it
	syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&p.set[0])), uintptr(len(p.set)),
		uintptr(unsafe.Pointer(&p.brief)), 0, 0, 0)
}

func (p *gnetPoller) close() {
	p.bell.close()
	if p.reactor != nil {
		p.reactor.Close()
		p.reactor = nil
	}
}
