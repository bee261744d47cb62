package netloop

import (
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// syncer waits for syncs, or for writes, on behalf of loops, on a goroutine of its own. While one sync runs, the loops
// go on reading, and what they gather shares the next.
type syncer struct {
	engine *engine.Engine
	took   func(time.Duration) // takes how long a sync took
	kick   chan struct{}       // capacity 1

	mu    sync.Mutex
	want  engine.Ticket // guarded by mu
	loops []*loop       // that asked since the last sync began; guarded by mu
}

func newSyncer(e *engine.Engine, took func(time.Duration)) *syncer {
	return &syncer{engine: e, took: took, kick: make(chan struct{}, 1)}
}

// request asks for t, and for l to be rung when it is good, or has failed.
func (y *syncer) request(l *loop, t engine.Ticket) {
	y.mu.Lock()
	y.want = y.want.Merge(t)
	known := false
	for _, have := range y.loops {
		known = known || have == l
	}
	if !known {
		y.loops = append(y.loops, l)
	}
	y.mu.Unlock()
	select {
	case y.kick <- struct{}{}:
	default:
	}
}

// run serves requests until stop is closed.
func (y *syncer) run(stop <-chan struct{}) {
	var loops []*loop
	for {
		select {
		case <-stop:
			return
		case <-y.kick:
		}
		y.mu.Lock()
		want := y.want
		y.want = engine.Ticket{}
		loops, y.loops = y.loops, loops[:0]
		y.mu.Unlock()
		began := time.Now()
		err := y.engine.Commit(want)
		y.took(time.Since(began))
		for _, l := range loops {
			if err != nil {
				l.fail(want, err)
			}
			l.ring()
		}
	}
}
