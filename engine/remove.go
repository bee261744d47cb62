package engine

// Flush removes every item of the queue called name that is queued; open reads stay. Expired items
// go where the queue's options say, up to the first that has not expired; those on disk alone, and
// behind them, all, but only once they have been read: a process that dies before has dropped them.
// It does not make the queue, and an alias is left alone. It returns a *NotAdmittedError, having
// changed nothing.
func (e *Engine) Flush(now Time, name []byte, clientID string) (Ticket, error) {
	sh := e.shardOf(name)
	sh.mu.Lock()
	q := sh.queues[string(name)]
	sh.mu.Unlock()
	if q == nil {
		return Ticket{}, nil
	}
	return e.flush(q, now, clientID)
}

func (e *Engine) flush(q *queue, now Time, clientID string) (Ticket, error) {
	sh := q.shard
	sh.mu.Lock()
	if err := q.admitDequeue(clientID); err != nil {
		sh.mu.Unlock()
		return Ticket{}, err
	}
	for q.opts.ExpireTo != "" && !e.swept(q, now) { // let others in between batches
		moves := sh.takeMoves()
		sh.mu.Unlock()
		e.finishMoves(now, moves)
		sh.mu.Lock()
	}
	e.expireFlushed(q, now)
	e.clear(q)
	if q.waiters.head != nil {
		e.serve(q, now)
	}
	q.counters.flushes++
	moves := sh.takeMoves()
	sh.mu.Unlock()
	e.finishMoves(now, moves)
	return e.ticketSoFar(q), nil
}

// ticketSoFar is what an operation on q must wait for that relies on all that has happened to it so
// far, also by others.
func (e *Engine) ticketSoFar(q *queue) Ticket {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if !q.opts.KeepJournal {
		return Ticket{}
	}
	return q.ticket(e.journal, e.journal.appendedEnd())
}

// clear drops every queued item in one step, whatever their number. The caller holds the shard's
// mutex.
func (e *Engine) clear(q *queue) {
	if q.inJournal() && q.items() > 0 {
		var except []uint64
		for _, list := range [...]*readList{&q.open, &q.moving} {
			for r := list.head; r != nil; r = r.next {
				except = append(except, r.item.ID)
			}
		}
		e.journal.record(q.number, func(b []byte) []byte {
			return appendFlush(b, q.number, q.nextID, except)
		})
	}
	q.window.clear(&q.shard.pool)
	if q.backlog != nil {
		e.dropBacklog(q)
	}
	q.segments = q.segments[:0]
	for q.returned.head != nil {
		r := q.returned.head
		q.returned.remove(r)
		q.shard.freeRead(r)
	}
}

// FlushAll flushes every queue, or none: it returns a *NotAdmittedError, that of the first queue by
// name, if any queue does not admit the client. A queue that Reload closes to it meanwhile is left
// out, and the others are flushed.
func (e *Engine) FlushAll(now Time, clientID string) (t Ticket, err error) {
	refusing := ""
	e.eachQueue(func(q *queue) {
		q.shard.mu.Lock()
		defer q.shard.mu.Unlock()
		if refused := q.admitDequeue(clientID); refused != nil && (err == nil || q.name < refusing) {
			refusing, err = q.name, refused
		}
	})
	if err != nil {
		return Ticket{}, err
	}
	e.eachQueue(func(q *queue) {
		u, failed := e.flush(q, now, clientID)
		t = t.Merge(u)
		if err == nil {
			err = failed
		}
	})
	return t, err
}

// Delete removes the queue called name with all its items, also those in open reads, and ends its
// waits. The next use of the name makes a new queue. Deleting a queue that does not exist, or an
// alias, does nothing.
func (e *Engine) Delete(now Time, name []byte) Ticket {
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.queues[string(name)]
	if q == nil {
		return Ticket{}
	}
	return e.delete(q, now)
}

// delete removes q. The caller holds the shard's mutex.
func (e *Engine) delete(q *queue, now Time) (t Ticket) {
	if q.opts.KeepJournal {
		t = q.ticket(e.journal, e.forgo(q, nil))
	}
	q.deleted = true
	q.forgetMeter()
	q.shard.unlink(q)
	e.queueCount.Add(-1)
	e.deletes.Add(1)
	e.clear(q)
	for q.open.head != nil {
		r := q.open.head
		q.open.remove(r)
		q.shard.freeRead(r)
	}
	q.endWaits(ErrDeleted)
	return t
}

// eachQueue calls f for every queue that exists when its shard's turn comes, with no lock held.
func (e *Engine) eachQueue(f func(*queue)) {
	var queues []*queue
	for i := range e.shards {
		queues = e.shards[i].list(queues[:0])
		for _, q := range queues {
			f(q)
		}
	}
}
