package netloop

import "time"

// This file buffers input, and says which session gives way when memory for that is short.

const (
	// staleTime is how long an incomplete request may stay in its class, and keep others from as much: it hardly comes.
	staleTime = 30 * time.Second
	// maxPassedOver is how many sessions of a class are looked at for one that may give way.
	maxPassedOver = 16
	// maxGivingWay is how many give way to one read: more than one if a buffer grows to twice what has come.
	maxGivingWay = 3
)

// buffer buffers bytes until the session can run them. If memory is short, a session that holds more gives way.
func (s *session) buffer(buf []byte) {
	for range maxGivingWay {
		if s.store(buf) {
			return
		}
		if !s.othersGiveWay(len(buf)) {
			break
		}
	}
	if !s.store(buf) {
		s.cutOff(errNoBuffers)
	}
}

// othersGiveWay has a session give way that holds more than the request of s is known to have. So many bytes more of
// that have come. It reports whether there is one.
func (s *session) othersGiveWay(more int) bool {
	size := len(s.in) - s.inStart + more
	request, come := sizeClass(max(size, s.need)), sizeClass(size)
	l := s.loop
	most := l
	for _, d := range l.server.loops {
		if d.bySize.top.Load() > most.bySize.top.Load() {
			most = d.loop
		}
	}
	if most != l && most.askToGiveWay(request, come, l.clock) {
		return true
	}
	v := l.largest(request, come)
	if v == nil || v == s {
		return false
	}
	v.giveWay()
	return true
}

// largest returns a session that is to give way, or nil. It is in a class above that of a request. Or it is stale, and in
// no class below that of what has come of the request.
func (l *loop) largest(request, come int) *session {
	b := &l.bySize
	for c := int(b.top.Load()); c >= max(come, 1); c-- {
		v := b.classes[c].first
		for n := 0; n < maxPassedOver && v != nil; n++ {
			if c <= request && v.bySize.since.after(staleTime) > l.clock {
				break // as all behind it
			}
			if !v.pinned && (v.state != waiting || v.wait.kind != waitJob) {
				return v
			}
			v = v.bySize.newer
		}
	}
	return nil
}

// giveWay cuts the client off.
func (s *session) giveWay() {
	l := s.loop
	if _, ok := l.server.logPaces.gaveWay.due(l.clock); ok {
		l.log.Warn("connection closed: memory for requests is short, and its request had most of it",
			"peer", s.sink.peer(), "bytes", s.kept)
	}
	before := len(l.spaces)
	s.cutOff(errNoBuffers)
	for i := range l.spaces[before:] {
		sp := &l.spaces[before+i]
		sp.gaveWay = true
		l.server.givenUp.Add(int64(sp.kept))
	}
}

// askToGiveWay has a session in the highest class of l give way to a request of another loop, as largest says. Until it
// has, others may take what it has at least. It reports whether one was asked for.
func (l *loop) askToGiveWay(request, come int, now moment) bool {
	b := &l.bySize
	top := b.top.Load()
	asked := top
	if int(top) <= request {
		if moment(b.since.Load()).after(staleTime) > now || int(top) < max(come, 1) {
			return false
		}
		asked = -top
	}
	if b.asked.CompareAndSwap(0, asked) {
		l.server.promised.Add(leastOf(top))
		l.ring()
	}
	return true
}

// giveWayIfAsked keeps the promise of askToGiveWay.
func (l *loop) giveWayIfAsked() {
	asked := l.bySize.asked.Load()
	if asked == 0 {
		return
	}
	class, request := asked, asked-1
	if asked < 0 {
		class, request = -asked, -asked
	}
	if v := l.largest(int(request), int(class)); v != nil {
		v.giveWay()
		l.watchdog.end("end of a session", v)
	}
	l.server.promised.Add(-leastOf(class))
	l.bySize.asked.Store(0)
}

// leastOf is how many bytes a session of a class holds at least.
func leastOf(class int32) int64 { return smallInput << class / 2 }
