package engine

// What clients put is in the journal at once, and in memory; the disk takes it a second time, for
// the backlog, in the background. Clients that are faster than the disk would get ahead of it without
// bound: what waits to be written takes memory, and what is not recorded yet, or not synced, keeps
// the journal, which a restart reads. So puts say so, in Stored.Ahead, and their clients wait.

// maxLeaving is how many bytes of items a queue in read-behind may have in memory beyond its
// MaxMemorySize, because they wait to be written, before puts to it are ahead of the disk. More
// would not be faster, and takes new memory, which an event loop is the first to touch.
const maxLeaving = 8 << 20

// Ahead reports whether a client that puts to the queue called name, or to one that it stands for,
// should wait before it puts more; see Stored. Any goroutine may call it, at any time.
func (e *Engine) Ahead(name []byte) bool {
	defer contain()
	for _, target := range e.settings.Load().Aliases[string(name)] {
		if e.Ahead([]byte(target)) {
			return true
		}
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q := sh.queues[string(name)]
	if q == nil {
		return false
	}
	if q.family != nil {
		for _, child := range q.family.children {
			if e.ahead(child) {
				return true
			}
		}
	}
	return e.ahead(q)
}

// ahead reports whether q is ahead of the disk. One that fails is not waited for: puts are refused
// when there is no room for them any more. The caller holds the shard's mutex.
func (e *Engine) ahead(q *queue) bool {
	b := q.backlog
	behind := b != nil && b.inReadBehind
	if behind && q.inMemory()+b.leaving.Bytes > q.opts.MaxMemorySize+maxLeaving {
		return !e.spool.failing.Load()
	}
	return q.opts.KeepJournal && e.journal.Outgrown(behind) && !e.spool.failing.Load()
}
