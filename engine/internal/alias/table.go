package alias

import (
	"sync"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// Count is what was put to one alias.
type Count struct {
	Created      item.Time // when the table began to know it
	Items, Bytes int64     // offered
}

// Table has the counts of all aliases, by their names. The zero Table knows none. Any goroutine may use it.
type Table struct {
	mu     sync.Mutex
	counts map[string]*Count
}

// Put counts an item of size bytes that is put to an alias, if the table knows that.
func (t *Table) Put(name string, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.counts[name]; c != nil {
		c.Items++
		c.Bytes += int64(size)
	}
}

// Of returns what was put to an alias; ok is false if the table does not know it.
func (t *Table) Of(name string) (c Count, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.counts[name]; known != nil {
		return *known, true
	}
	return c, false
}

// Know starts counting for aliases that are new, and forgets those that are gone.
func (t *Table) Know(aliases map[string][]string, now item.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts := make(map[string]*Count, len(aliases))
	for name := range aliases {
		if counts[name] = t.counts[name]; counts[name] == nil {
			counts[name] = &Count{Created: now}
		}
	}
	t.counts = counts
}
