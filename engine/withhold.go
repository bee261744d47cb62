package engine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/queuename"
	"github.com/kestrelmq/kestrel/engine/internal/replay"
	"github.com/kestrelmq/kestrel/segment"
)

// WithheldQueue is a queue that Open found in the journal and could not bring back whole. The file of a run is missing,
// cut short or unreadable, or its records do not fit together. The engine does not serve it, and changes or removes
// nothing of it. Its runs stay, and so does every segment from the first one that mentions it. All other queues are
// served. A start after a repair, or after a good copy of the file has been put in its place, brings it back.
type WithheldQueue struct {
	Name   string
	Number uint64 // names the queue in the journal
	Reason error  // wraps ErrWithheld
}

// withheld is what of a data directory is not served. It does not change after Open.
type withheld struct {
	queues []WithheldQueue // by name and number
	names  map[string]error
	oldest uint64          // the first segment of the journal that any of them is in; zero without any
	runs   map[uint64]bool // numbers of their runs
}

// Withheld returns the queues that are not served, sorted by name.
func (e *Engine) Withheld() []WithheldQueue {
	defer contain()
	return e.withheld.queues
}

// refusal returns why the queue called name is not served; nil if it is, or does not exist.
func (w *withheld) refusal(name string) error {
	if len(w.names) == 0 {
		return nil
	}
	return w.names[name]
}

// has reports whether the queue of a number is withheld.
func (w *withheld) has(number uint64) bool {
	return slices.ContainsFunc(w.queues, func(q WithheldQueue) bool { return q.Number == number })
}

// withholds reports whether an error that kept a queue from being brought back is about that queue
// alone. What the process lacks is not: another start may have it.
func withholds(err error) bool {
	return !segment.OutOfFiles(err) && !errors.Is(err, syscall.ENOMEM)
}

// withhold leaves a queue out, because of err, and gives back what there is of the live one, which may be nil.
func (r *revival) withhold(q *replay.Queue, live *queue, err error) {
	w, s := &r.e.withheld, r.e.spool
	q.Window.Clear(&r.pool)
	if live != nil {
		r.giveUp(live)
	}
	if w.names == nil {
		w.names, w.runs = make(map[string]error), make(map[uint64]bool)
	}
	for _, run := range q.Runs {
		s.reader.Forget(s.dir.File(run.ID))
		w.runs[run.ID.Number] = true
	}
	for _, h := range q.Hidden {
		s.reader.Forget(s.dir.File(h.Run))
		w.runs[h.Run.Number] = true
	}
	if m := q.Marked.Run; m.Number != 0 {
		s.reader.Forget(s.dir.File(m))
		w.runs[m.Number] = true
	}
	if w.oldest == 0 || q.Oldest < w.oldest {
		w.oldest = q.Oldest
	}
	reason := fmt.Errorf("%w: queue %q: %w", ErrWithheld, q.Name, err)
	w.names[q.Name] = reason
	r.e.shardOf([]byte(q.Name)).withholdChild(q.Name, reason)
	w.queues = append(w.queues, WithheldQueue{q.Name, q.Number, reason})
	slices.SortFunc(w.queues, func(a, b WithheldQueue) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
}

// giveUp gives back what a queue holds that nobody has seen.
func (r *revival) giveUp(q *queue) {
	if q.backlog != nil {
		r.e.spool.unregister(r.e.spool.queues, q)
		q.backlog = nil
	}
	q.window.Clear(&r.pool)
	if q.aside == nil {
		return
	}
	r.e.clearAlarm(q)
	for q.aside.Len() > 0 {
		q.dropAside(aside.Ref(q.aside.Len() - 1))
	}
	q.aside.Clear()
	q.aside.hidden.DropIf(func(*hidden.Run) bool { return true })
	r.e.spool.unregister(r.e.spool.hiders, q)
	q.aside = nil
}

// withholdChild notes that a fanout child is not served: what is put to its parent would miss it.
func (sh *shard) withholdChild(name string, err error) {
	parent, ok := queuename.Parent(name)
	if !ok {
		return
	}
	if sh.families[parent] == nil {
		sh.addFamily(parent)
	}
	sh.families[parent].withheld = err
}

// maxWithheldLines is how many queues that are withheld the log names one by one.
const maxWithheldLines = 20

// logWithheld logs what is not served, and what to do.
func (e *Engine) logWithheld() {
	const repair = "put a good copy of the file in its place and start again; or stop the server:" +
		" 'kestrel journal repair' says what is lost, and with --apply saves the rest"
	all := e.withheld.queues
	for i, q := range all {
		if i == maxWithheldLines {
			e.log.Error("more queues are withheld", "queues", len(all)-i, "repair", repair)
			return
		}
		e.log.Error("queue is withheld: the server refuses its requests and leaves its files alone",
			"queue", q.Name, "number", q.Number, "err", q.Reason, "repair", repair)
	}
}
