package netloop

import (
	"bytes"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// A flush of all queues, or of one with millions of items, would keep the other sessions of a loop
// waiting for seconds. A loop does a little of it at once, which is all if there is little to do, and
// leaves the rest to a job. See engine.Clearing for the numbers.
const (
	clearAtOnce = 64
	clearPiece  = 1024
)

// clear does what a flush, a deletion or a removal of expired items of a queue asks for, or of all if name is nil. Then
// it calls done on the loop with how many expired items were removed, or the error. Nothing else of the session runs
// meanwhile.
func (s *session) clear(kind Command, name []byte, c *engine.Clearing, done func(*session, int64, error)) {
	l := s.loop
	if !c.Do(l.now, clearAtOnce) {
		n, t, err := c.Result()
		s.claim(t)
		l.latencies.count(kind, nil, t, 1)
		done(s, n, err)
		return
	}
	began, n := l.began, need{access.Manage, onQueue}
	if name == nil {
		n.scope = everywhere
	}
	client := s.standing(n, bytes.Clone(name))
	s.startJob(func() error { return l.server.finishClearing(c, client) }, func(s *session, stopped error) {
		n, t, err := c.Result()
		s.claim(t)
		s.loop.latencies.late(kind, t, began)
		if s.noteJobDenied(stopped); stopped != nil {
			err = stopped
		}
		done(s, n, err)
	})
}

// finishClearing does all that there is to do, a piece at a time. It gives up if a reload has taken the client's right to
// it, unless nothing but memory is left to give back. It returns engine.ErrClosed if it has given up because the server has stopped.
func (s *Server) finishClearing(c *engine.Clearing, client *standing) error {
	for {
		if err := client.denied(); err != nil && c.GiveUp() {
			return err
		} else if err != nil {
			return nil // all was done already
		}
		if !s.clearPiece(c) {
			return nil
		}
		c.Wait()
		for waited := 0; c.Ahead() && waited < maxPace && !s.cutOff.Load(); waited++ {
			time.Sleep(time.Millisecond)
		}
		if s.cutOff.Load() {
			c.GiveUp()
			return engine.ErrClosed
		}
	}
}

// clearPiece does one piece, and reports whether there is more to do. However many clients flush, that
// takes no more than one processor.
func (s *Server) clearPiece(c *engine.Clearing) (more bool) {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	return c.Do(engine.Now(), clearPiece)
}
