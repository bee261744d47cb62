package engine

// abortBatch is how many reads Return ends at most before the shard is unlocked for a moment.
const abortBatch = 1024

// Return ends open reads of one queue by giving their items back, in the order in which they were opened:
// the oldest comes to the head, or to the first in line, unless it is delayed or goes to the dead-letter
// queue. It returns what the reply must wait for, how many reads there were that had not ended by
// themselves, and ErrDelayTooLong, having ended none.
//
// It brings many back in pieces, newest first, and unlocks the shard between them. Whoever fetches
// from the queue meanwhile waits, so nobody sees a part of them.
func (e *Engine) Return(now Time, refs []ReadRef, how Return) (t Ticket, ended int, err error) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return t, 0, nil
	}
	p := returning{how: how}
	for len(refs) > 0 && err == nil {
		refs, err = e.returnPiece(now, refs, &p)
	}
	return p.ticket, p.ended, err
}

// returning is a Return under way.
type returning struct {
	how    Return
	held   *queue // whose aborting counts it; nil: none's yet
	ticket Ticket
	ended  int
}

// returnPiece ends the newest of refs, of which there is one at least, and returns the others.
func (e *Engine) returnPiece(now Time, refs []ReadRef, p *returning) (rest []ReadRef, err error) {
	from := max(len(refs)-abortBatch, 0)
	sh, q := refs[0].r.shard, p.held
	sh.mu.Lock()
	for i := len(refs) - 1; i >= from; i-- {
		ref := refs[i]
		if !ref.live() {
			continue
		}
		if q == nil {
			q = ref.r.q
			if err = q.admitDelay(p.how.Delay); err != nil {
				break
			}
		}
		p.ticket = p.ticket.Merge(e.giveBack(ref.r, p.how))
		p.ended++
	}
	switch {
	case err != nil:
	case from > 0 && p.held == nil && q != nil:
		p.held = q
		q.aborting++
	case from == 0 && p.held != nil:
		p.held.aborting--
	}
	if q != nil {
		e.serve(q, now)
	}
	moved := q != nil && len(sh.moves) > 0
	e.unlock(sh, now)
	if moved && p.how.How != Lost { // the items have arrived in the other queue
		p.ticket = p.ticket.Merge(e.ticketSoFar(q))
	}
	return refs[:from], err
}

// Abort is Return of one read that is Lost. It reports false if the read has ended by itself.
func (e *Engine) Abort(now Time, ref ReadRef) bool {
	defer contain()
	_, ended, _ := e.Return(now, []ReadRef{ref}, Return{How: Lost})
	return ended == 1
}

// AbortAll is Return of reads that are Lost. It returns how many there were that had not ended by
// themselves.
func (e *Engine) AbortAll(now Time, refs []ReadRef) (ended int) {
	defer contain()
	_, ended, _ = e.Return(now, refs, Return{How: Lost})
	return ended
}

// AbortFirst is AbortAll for a caller that has no time for many reads: it brings the newest back, and
// returns how many there were, and a function that does so with the others, which any goroutine may call
// and one must; nil: there are none. Until that has returned, whoever fetches from the queue waits.
func (e *Engine) AbortFirst(now Time, refs []ReadRef) (ended int, others func() int) {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return 0, nil
	}
	p := &returning{how: Return{How: Lost}}
	refs, _ = e.returnPiece(now, refs, p) // there is no delay to be refused
	if len(refs) == 0 {
		return p.ended, nil
	}
	first := p.ended
	return first, func() (ended int) {
		defer contain()
		for len(refs) > 0 {
			refs, _ = e.returnPiece(Now(), refs, p)
		}
		return p.ended - first
	}
}
