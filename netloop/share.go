package netloop

import "time"

// A turn has so much time for each kind of work. The kinds are requests of light connections, the bulk, sessions that
// go on, news, deadlines, replies that were held, and tasks. What does not fit in keeps its place, and the next turn
// begins with it. So a turn is short however many clients ask for much at once.
const maxShare = time.Millisecond

// share is the time that a turn has for one kind of work. It costs nothing: the watchdog reads the clock
// behind each part of a turn.
type share struct {
	watch *watchdog
	from  time.Duration // since the turn began
}

func (l *loop) newShare() share { return share{&l.watchdog, l.watchdog.at} }

// spent reports whether the time is over.
func (s share) spent() bool { return s.watch.at-s.from >= maxShare }

// later has s go on when its turn comes: it is stalled, and may have more to do.
func (l *loop) later(s *session) {
	if !s.resuming {
		s.resuming = true
		l.resuming = append(l.resuming, s)
	}
}
