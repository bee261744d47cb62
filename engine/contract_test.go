package engine

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
	"github.com/kestrelmq/kestrel/segment"
)

// history is what an engine was asked to do, as the states that it went through, and what it
// acknowledged. It is what the contract is checked against after a crash. What is found must be the state after some
// operation, not before the last that was acknowledged.
type history struct {
	states []durableState
	// Of the process that runs: its first state, and how far it has acknowledged.
	first           int
	written, synced LSN
	floor           int // the state that a clean end left, which nothing may undo
}

// durableState is what the journal should say after an operation, once it has been written up to
// end.
type durableState struct {
	end LSN
	durableWords
}

// durableWords are queues as words.
type durableWords struct {
	queues string
	// passed are the words of items whose delay was over, as the journal says it, and as it says them
	// once it has been rewritten. Either may be found.
	passed [][2]string
}

func newHistory() *history { return &history{states: []durableState{{}}} }

// did notes that an operation has led to a state.
func (h *history) did(end LSN, words durableWords) {
	h.states = append(h.states, durableState{end, words})
}

// acknowledged notes that a ticket has been committed.
func (h *history) acknowledged(t Ticket) {
	h.written = max(h.written, t.Written)
	h.synced = max(h.synced, t.Synced)
}

// ended notes that the process has closed its engine without an error.
func (h *history) ended() {
	h.floor = len(h.states) - 1
	h.first = len(h.states)
	h.written, h.synced = 0, 0
}

// oldest returns the oldest state that may be found if all that was acknowledged up to lsn must be.
func (h *history) oldest(lsn LSN) int {
	oldest := h.floor
	for i := max(h.first, 1); i < len(h.states) && h.states[i].end <= lsn; i++ {
		oldest = i
	}
	return oldest
}

// check opens the image that a crash has left and reports whether it keeps the contract. The state found is one of
// those from oldest on, and the engine is sound and can be used. Opening it once more finds the same.
func (h *history) check(fsys segment.FS, oldest int) error {
	o := testOptions(fsys)
	o.SegmentSize = 1024
	e, err := open(o)
	if err != nil {
		return fmt.Errorf("open the image: %w", err)
	}
	found := stateOf(e)
	if err := e.Verify(); err != nil {
		return err
	}
	if !h.explains(found, oldest) {
		return fmt.Errorf("found\n%s\nwhich is no state from number %d on%s, but\n%s\nto\n%s are",
			found, oldest, h.place(found),
			h.states[oldest].queues, h.states[len(h.states)-1].queues)
	}
	if err := tryPut(e, "new", "item"); err != nil {
		return fmt.Errorf("put after the crash: %w", err)
	}
	used := stateOf(e)
	if err := e.Close(); err != nil {
		return err
	}
	if e, err = open(o); err != nil {
		return fmt.Errorf("open once more: %w", err)
	}
	if got := stateOf(e); got != used {
		return fmt.Errorf("opened once more, found\n%s\nwant\n%s", got, used)
	}
	return e.Close()
}

// isFound reports whether the words of what was found are those of w.
func (w *durableWords) isFound(found string) bool {
	for _, p := range w.passed {
		found = strings.Replace(found, p[0], p[1], 1)
	}
	return found == w.queues
}

func (h *history) explains(found string, oldest int) bool {
	for _, s := range h.states[oldest:] {
		if s.isFound(found) {
			return true
		}
	}
	return false
}

// place says where in history a state is that should not be found.
func (h *history) place(found string) string {
	for i, s := range h.states {
		if s.isFound(found) {
			return fmt.Sprintf(" but number %d", i)
		}
	}
	return ""
}

// stateOf words what the queues of an engine hold, open reads included, and which item each of modelKeys finds.
func stateOf(e *Engine) string {
	var all []string
	for _, s := range e.Queues(0) {
		sh := e.shardOf([]byte(s.Name))
		q := sh.queues[s.Name]
		words := wordQueue(s.Name, q.nextID, q.created, contents(e, s.Name, true)) + wordItemsAside(e, q)
		all = append(all, words+wordKeys(func(key string) (uint64, bool) {
			at, ok := q.ofKey([]byte(key), 0)
			return at.it.ID, ok
		}))
	}
	return strings.Join(all, "\n")
}

func wordQueue(name string, nextID uint64, created Time, items []Item) string {
	b := fmt.Appendf(nil, "%s next %d created %d:", name, nextID, created)
	for _, it := range items { // a million of them in a test: not by fmt
		for _, n := range [...]uint64{it.ID, uint64(it.Flags), uint64(it.Added), uint64(it.Expiry)} {
			b = strconv.AppendUint(append(b, ' '), n, 10)
		}
		b = append(append(b, '='), it.Data...)
	}
	return string(b)
}

// wordModel is stateOf for the model.
func wordModel(queues []*modelQueue) (w durableWords) {
	byName := make(map[string]*modelQueue)
	var names []string
	for _, q := range queues {
		byName[q.name] = q
		names = append(names, q.name)
	}
	slices.Sort(names)
	var all []string
	for _, name := range names {
		q := byName[name]
		words := wordQueue(name, q.nextID, q.created, q.window)
		for _, a := range q.aside {
			said := wordAside(name, a.item, aside.Entry{State: a.state, Due: a.due, Token: a.token, Count: a.count})
			if a.passed {
				rewritten := wordAside(name, a.item, aside.Entry{State: aside.Ready, Count: a.count})
				w.passed = append(w.passed, [2]string{said, rewritten})
				said = rewritten
			}
			words += said
		}
		all = append(all, words+wordKeys(func(key string) (uint64, bool) { return q.ofKey(key, 0) }))
	}
	w.queues = strings.Join(all, "\n")
	return w
}

// wordItemsAside words what is aside, by id.
func wordItemsAside(e *Engine, q *queue) (words string) {
	ids := q.idsAside(func(s aside.State) bool { return s != aside.Restored })
	onDisk := hiddenEntries(e, q)
	ids = slices.AppendSeq(ids, maps.Keys(onDisk))
	slices.Sort(ids)
	for _, id := range ids {
		if it, ok := onDisk[id]; ok {
			words += wordAside(q.name, it.Item, aside.Entry{State: aside.Delayed, Due: it.Due, Count: it.Count})
			continue
		}
		r, _ := q.aside.Find(id)
		words += wordAside(q.name, q.aside.Item(r), q.aside.Get(r))
	}
	return words
}

// wordKeys words which item each key finds; nothing if it finds none.
func wordKeys(find func(key string) (id uint64, ok bool)) (words string) {
	for _, key := range modelKeys {
		if id, ok := find(key); ok {
			words += fmt.Sprintf(" key %q %d", key, id)
		}
	}
	return words
}

func wordAside(queue string, it Item, e aside.Entry) string {
	return fmt.Sprintf(" [%s %d %d %d %d %q: %+v]", queue, it.ID, it.Flags, it.Added, it.Expiry, it.Data, e)
}
