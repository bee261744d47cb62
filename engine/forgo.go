package engine

import "slices"

// forgo writes to the journal what must stand there before something goes that its records rely on (B6).
// Code that removes such a thing calls it first:
//
//   - the files of runs: forgo rewrites the open reads whose place is in them, and the removals of what is
//     gone of them;
//   - q itself, if runs is nil: it leaves the journal, because it is deleted or no longer has one. Its
//     number goes with it, so that no later record can name it.
//
// A file may be removed once the journal is synced up to the LSN that forgo returns. The caller holds
// the shard's mutex.
func (e *Engine) forgo(q *queue, runs []*run) LSN {
	if runs == nil {
		end := e.journal.Delete(q.number)
		q.number = 0
		return end
	}
	if q.inJournal() {
		e.keepReads(q, runs)
		for _, r := range runs {
			e.recordRuns(q, nil, r.recorded.IDs())
		}
	}
	return e.journal.End()
}

// keepReads records open reads, and what is aside, whose place is in one of the runs in the journal.
func (e *Engine) keepReads(q *queue, runs []*run) {
	for _, list := range [...]*readList{&q.returned, &q.open} {
		for r := list.First(); r != nil; r = r.link.Next() {
			in := func(o *run) bool { return r.liesIn(o) }
			if slices.ContainsFunc(runs, in) {
				e.keepRead(q, r)
			}
		}
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		in := func(o *run) bool { return o.recorded.Count > 0 && o.recorded.Holds(id) }
		if q.aside.Segment(r) == 0 && slices.ContainsFunc(runs, in) {
			e.rewriteAside(q, r)
		}
	}
}
