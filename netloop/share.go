package netloop

import "time"

// A turn has so much time for each kind of work: for what clients who wait for nobody else have sent, for
// the line of those that move much, for sessions that go on, for news, and for replies that were held.
// What does not fit in keeps its place, and the next turn begins with it. So a turn is short however many
// clients ask for much at once.
const maxShare = time.Millisecond

// share is the time that a turn has for one kind of work. It costs nothing: the watchdog reads the clock
// behind each part of a turn.
type share struct {
	watch *watchdog
	from  time.Duration // since the turn began
}

func (l *loop) newShare() share { return share{&l.watch, l.watch.at} }

// spent reports whether the time is over.
func (s share) spent() bool { return s.watch.at-s.from >= maxShare }

// later has s go on when its turn comes: it is stalled, and may have more to do.
func (l *loop) later(s *session) {
	if !s.behind {
		s.behind = true
		l.behind = append(l.behind, s)
	}
}

// goOn runs what is stalled, those first that have waited longest. Who has to wait again comes behind
// the others, and not before the next turn.
func (l *loop) goOn() {
	if len(l.behind) == 0 {
		return
	}
	l.begin()
	done, turn := 0, l.newShare()
	for n := len(l.behind); done < n && !turn.spent(); done++ {
		s := l.behind[done]
		s.behind = false
		l.guard(s, (*session).unstall)
		l.watch.end("requests that had to wait", s)
	}
	rest := copy(l.behind, l.behind[done:])
	clear(l.behind[rest:])
	l.behind = l.behind[:rest]
}

// unfinished reports whether another turn is to come without an event.
func (l *loop) unfinished() bool { return len(l.behind) > 0 || len(l.news) > 0 }

// heedNews takes in what other goroutines have posted, and ends waits whose time is over.
func (l *loop) heedNews() {
	if len(l.news) == 0 {
		l.news = l.mailbox.take()
	}
	for turn := l.newShare(); len(l.news) > 0 && !turn.spent(); {
		s := l.news[0]
		l.news = l.news[1:]
		l.guard(s, (*session).heed)
		l.watch.end("news of a session", s)
	}
	for turn := l.newShare(); !turn.spent(); {
		s := l.deadlines.due(l.clock)
		if s == nil {
			break
		}
		l.guard(s, (*session).deadlinePassed)
		l.watch.end("deadline", s)
	}
}
