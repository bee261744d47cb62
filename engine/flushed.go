package engine

import (
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/segment"
)

// flushedPart is what of a queue was on disk alone when the queue was flushed. Its expired items
// still go to the queue that takes those, once they have been read. The journal says that they are
// gone: a process that dies before has dropped them.
type flushedPart struct {
	at     place
	runs   []*run // oldest first
	ends   []int64
	gone   []idRange
	left   int64 // items
	now    Time
	target string
}

// expireFlushed has the expired items of q that sweep does not reach go where they should, before q
// is cleared: those on disk alone, and behind them. The caller holds the shard's mutex, and
// finishes the moves.
func (e *Engine) expireFlushed(q *queue, now Time) {
	b := q.backlog
	if _, ok := q.first(); ok || q.opts.ExpireTo == "" || b == nil {
		return // what comes first has not expired: the others are dropped
	}
	for _, part := range [...]*window{&b.leaving, &b.recent} {
		part.each(func(it Item) bool {
			if q.expired(it, now) {
				q.counters.expired++
				e.moving(q, q.shard.newRead(q, it, q.segmentOf(it.ID)), q.opts.ExpireTo)
			}
			return true
		})
	}
	if b.onDisk == 0 || b.failed != nil {
		return
	}
	p := &flushedPart{
		at: b.next, runs: slices.Clone(b.runs), gone: slices.Clone(b.gone), left: b.onDisk,
		now: now, target: q.opts.ExpireTo,
	}
	for _, r := range p.runs {
		r.flushed++
		p.ends = append(p.ends, r.written.end)
	}
	b.flushed = append(b.flushed, p)
	e.spool.fills.add(q)
}

// moveFlushed does for q a piece of what flushes have left to do: a frame, so that other queues
// have their turn. The caller holds readMu.
func (s *spool) moveFlushed(q *queue) {
	q.shard.mu.Lock()
	b := q.backlog
	if b == nil || len(b.flushed) == 0 {
		q.shard.mu.Unlock()
		return
	}
	p := b.flushed[0]
	q.shard.mu.Unlock()
	err := s.moveFrame(q, p)
	if err != nil {
		s.e.log.Error("read backlog: expired items of a queue that was flushed are lost",
			"queue", q.name, "err", err)
	}
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if err == nil && p.left > 0 {
		s.fills.add(q)
		return
	}
	for _, r := range p.runs {
		r.flushed--
	}
	if b.flushed = b.flushed[1:]; len(b.flushed) > 0 {
		s.fills.add(q)
	}
	s.wantRecord(q)
}

// moveFrame moves the expired items of the next frame of p.
func (s *spool) moveFrame(q *queue, p *flushedPart) error {
	i := slices.Index(p.runs, p.at.run)
	frame, tag, err := s.seek(&p.at, p.ends[i])
	if err != nil {
		return err
	}
	if frame.Size == 0 {
		if i+1 == len(p.runs) {
			return fmt.Errorf("%d items are missing behind the last run", p.left)
		}
		p.at = place{p.runs[i+1], segment.RunStart, p.at.id}
		return nil
	}
	body, _, err := s.body(p.at.run, frame, tag, nil)
	if err != nil {
		return err
	}
	var expired []move
	q.shard.mu.Lock()
	eachImage(body, tag.firstID, func(it Item) bool {
		if it.ID < p.at.id || inRanges(p.gone, it.ID) {
			return true
		}
		if p.left--; q.expired(it, p.now) {
			q.counters.expired++
			expired = append(expired, move{r: &read{item: it}, target: p.target})
		}
		return true
	})
	q.shard.mu.Unlock()
	for _, m := range expired {
		s.e.finishMoves(p.now, s.e.moveIn(p.now, m))
	}
	p.at.offset, p.at.id = frame.Next, tag.lastID+1
	return nil
}
