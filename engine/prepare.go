package engine

import (
	"errors"
	"syscall"
)

// prepare makes, on a goroutine of its own, the segment that the journal will need next, as soon as
// it has gone on to the one before. Maintain would be late: it waits for the disk for longer than a
// busy journal takes to fill a segment, and whoever writes then, an event loop, makes the next one.
func (e *Engine) prepare() {
	for {
		e.prepareSegment()
		select {
		case <-e.stop:
			return
		case <-e.journal.rotated:
		}
	}
}

// askPrepare asks for the segment that the journal will need next, if an earlier try has failed.
func (e *Engine) askPrepare() {
	if e.journal.log.NeedsPrepare() {
		signal(e.journal.rotated)
	}
}

// prepareSegment makes the segment that the journal will need next. A full disk is remembered: puts
// are then refused before the room at hand is used up.
func (e *Engine) prepareSegment() {
	e.prepareMu.Lock()
	defer e.prepareMu.Unlock()
	log := e.journal.current()
	err := log.Prepare()
	if log != e.journal.current() {
		return // a new journal has come, and a segment been made for it
	}
	switch {
	case err == nil:
		if e.journal.noDisk.Swap(false) {
			e.log.Info("disk has room again: puts are accepted")
		}
	case errors.Is(err, syscall.ENOSPC):
		if !e.journal.noDisk.Swap(true) {
			e.log.Warn("disk is full: puts will be refused", "err", err)
		}
	case !e.journal.failing(): // else it is tried again and again
		e.report("prepare segment", err)
	}
	e.journal.measureRoom(log)
}
