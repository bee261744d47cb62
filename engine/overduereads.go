package engine

// Open reads end by themselves when they have been open for longer than their queue allows. There may be hundreds of
// thousands of them, so they are brought back in pieces, as by Return. The newest comes first, and a fetch from the
// queue waits until the oldest is back.

// endOverdueReads brings back open reads that have been open for longer than their queue allows.
func (e *Engine) endOverdueReads(now Time) {
	for i := range e.shards {
		for _, q := range e.shards[i].listTimed() {
			e.endOverdueReadsOf(q, now)
		}
	}
}

// listTimed returns the queues whose open reads end by themselves.
func (sh *shard) listTimed() []*queue {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	queues := make([]*queue, 0, len(sh.timed))
	for q := range sh.timed {
		queues = append(queues, q)
	}
	return queues
}

func (e *Engine) endOverdueReadsOf(q *queue, now Time) {
	for o := (overdueReads{q: q, now: now}); !o.done; {
		e.endOverduePiece(&o)
	}
}

// overdueReads are the open reads of a queue that are overdue, as they are being brought back. They are first counted,
// from the oldest on, and then ended, from the newest on.
type overdueReads struct {
	q   *queue
	now Time
	// marks are places among them, each some abortBatch reads behind the one before. Some may have ended.
	marks []ReadRef
	found bool    // the newest is behind the last of marks, by no more than abortBatch
	above ReadRef // the oldest that has been looked at and stays, because it waits to be collected
	held  bool    // the queue's aborting counts this
	done  bool
}

// isOverdue reports whether an open read is to be brought back.
func (o *overdueReads) isOverdue(r *read) bool {
	most := o.q.opts.OpenReadTimeout
	return r != nil && most > 0 && r.opened.After(most) <= o.now
}

// endOverduePiece looks at abortBatch reads, about, before the shard is unlocked.
func (e *Engine) endOverduePiece(o *overdueReads) {
	q, sh := o.q, o.q.shard
	sh.mu.Lock()
	defer e.unlock(sh, o.now)
	if !o.found {
		o.find()
	}
	if o.found {
		o.done = e.endNewest(o)
	}
	switch {
	case !o.done && !o.held:
		o.held = true
		q.aborting++
	case o.done && o.held:
		q.aborting--
	}
	if !o.done {
		return
	}
	if q.open.Len() == 0 || q.opts.OpenReadTimeout == 0 {
		delete(sh.timed, q)
	}
	e.serveWaiters(q, o.now)
}

// from returns the last of marks that has not ended, and forgets those behind it; the oldest open read if all have.
func (o *overdueReads) from() *read {
	for n := len(o.marks) - 1; n >= 0; n-- {
		if ref := o.marks[n]; ref.live() && ref.r.state == readOpen {
			return ref.r
		}
		o.marks = o.marks[:n]
	}
	return o.q.open.First()
}

// find goes on to the newest read that is overdue, by abortBatch reads at most.
func (o *overdueReads) find() {
	r := o.from()
	for n := 0; o.isOverdue(r); n++ {
		if n == abortBatch {
			o.marks = append(o.marks, ReadRef{r, r.id})
			return
		}
		r = r.link.Next()
	}
	o.found = true
}

// endNewest brings the reads back that are behind the last mark, newest first, and reports whether there are no others.
func (e *Engine) endNewest(o *overdueReads) (all bool) {
	first := o.from()
	all = len(o.marks) == 0
	if !all {
		o.marks = o.marks[:len(o.marks)-1]
	}
	if !o.isOverdue(first) {
		return all
	}
	last := first
	for next := last.link.Next(); o.isOverdue(next) && !(o.above.r == next && o.above.live()); {
		last, next = next, next.link.Next()
	}
	for r := last; ; { // newest first, so that the oldest ends up at the head
		prev := r.link.Prev()
		if r.held {
			o.above = ReadRef{r, r.id}
		} else {
			e.giveBack(r, Return{How: Lost})
		}
		if r == first {
			return all
		}
		r = prev
	}
}
