package engine

import (
	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// rubbish is what a queue held when it was flushed or deleted, and nobody can see any more. To give
// all of it back at once would keep the shard locked for long.
type rubbish struct {
	q     *queue // with waits to be ended, if it was deleted
	parts [3]item.Window
	reads [2]readList
	aside *aside.Set // nil without any
}

func (r *rubbish) empty() bool { return r.q == nil }

// dispose gives up to n chunks and reads back, or ends as many waits, and returns how many.
func (r *rubbish) dispose(n int) (done int) {
	sh := r.q.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for ; done < n; done++ {
		if !r.disposeOne(sh) {
			*r = rubbish{}
			break
		}
	}
	return done
}

func (r *rubbish) disposeOne(sh *shard) bool {
	for i := range r.parts {
		if r.parts[i].GiveChunk(&sh.pool) {
			return true
		}
	}
	for i := range r.reads {
		if read := r.reads[i].First(); read != nil {
			r.reads[i].remove(read)
			sh.freeRead(read)
			return true
		}
	}
	if r.aside != nil && r.aside.Len() == 0 {
		r.aside.Clear()
		r.aside = nil
	}
	if r.aside != nil {
		last := aside.Ref(r.aside.Len() - 1)
		sh.pins.add(r.aside.Segment(last), -1, -pinSize(r.aside.Item(last)))
		r.aside.Remove(last)
		return true
	}
	if w := r.q.waiters.First(); w != nil && r.q.deleted {
		w.Err = ErrDeleted
		r.q.endWait(w, ReadRef{})
		return true
	}
	return false
}
