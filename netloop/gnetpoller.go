package netloop

import (
	"errors"

	gneterrors "github.com/panjf2000/gnet/v2/pkg/errors"
	"github.com/panjf2000/gnet/v2/pkg/netpoll"
	"github.com/panjf2000/gnet/v2/pkg/queue"
)

// gnetPoller is a poller on the reactor of gnet. The sockets, their reading and their writing are ours.
//
// The reactor does not say when it has reported all events of a batch, but it runs tasks only then. So the first event
// of a turn queues a task, and the reactor runs the task behind the batch that comes next. The task ends the turn. With
// few connections the poller knows which have something to be read, and the event of the last of them ends the turn at
// once.
//
// Behind a turn the poller lingers: it waits for some milliseconds in a raw system call. The
// reactor waits through Go's scheduler, and that costs more than a short wait is worth. Rings have
// a descriptor of their own, which ends that: while tasks run, the reactor's does not notice new ones.
type gnetPoller struct {
	bell
	reactor *netpoll.Poller // nil: closed
	turns   turns
	end     queue.Func // endTurn, made once
	ending  bool       // it is queued
	watched watched
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
	p.watched.start(p.reactor, p.bell.fd)
	return nil
}

func (p *gnetPoller) add(fd int) error {
	err := p.reactor.AddRead(&netpoll.PollAttachment{FD: fd}, true)
	if err == nil {
		p.watched.add(fd)
	}
	return err
}

// mute has the reactor wait for room to write, which happened passes over: the system reports failures
// along with whatever is asked for.
func (p *gnetPoller) mute(fd int) {
	p.watched.mute(fd)
	p.reactor.Delete(fd)
	p.reactor.AddWrite(&netpoll.PollAttachment{FD: fd}, true)
}

func (p *gnetPoller) unmute(fd int) { p.watched.unmute(p.reactor, fd) }

func (p *gnetPoller) remove(fd int) {
	p.watched.remove(fd)
	p.reactor.Delete(fd)
}

func (p *gnetPoller) run(t turns) error {
	p.turns = t
	if err := p.reactor.Polling(p.happened); !errors.Is(err, gneterrors.ErrEngineShutdown) {
		return err
	}
	return nil
}

// happened handles one event. The reactor goes on unless it returns ErrEngineShutdown.
func (p *gnetPoller) happened(fd int, event netpoll.IOEvent, flags netpoll.IOFlags) error {
	if fd == p.bell.fd {
		p.silence()
		p.heard()
	} else {
		readable, ended := p.watched.read(fd, event, flags)
		if !readable {
			return nil // room to write, or the end of a peer that is muted
		}
		p.turns.happened(fd, ended)
		if !p.ending && !p.rung.Load() {
			switch more, known := p.watched.more(); {
			case more:
				return nil
			case known && !p.turns.serveBulk(): // if it waits for the disk, the next batch comes along
				return p.finish()
			}
		}
	}
	if p.ending {
		return nil
	}
	p.ending = true
	return p.reactor.Trigger(queue.HighPriority, p.end, nil)
}

// endTurn ends a turn behind a batch of events.
func (p *gnetPoller) endTurn(any) error {
	p.ending = false
	p.turns.serveBulk()
	return p.finish()
}

func (p *gnetPoller) finish() error {
	switch p.turns.finish() {
	case thenEnds:
		return gneterrors.ErrEngineShutdown
	case thenGoesOn:
		p.ring()
		p.watched.unknown()
	default:
		p.watched.linger()
	}
	return nil
}

func (p *gnetPoller) close() {
	p.bell.close()
	if p.reactor != nil {
		p.reactor.Close()
		p.reactor = nil
	}
}
