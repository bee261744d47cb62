package accountname

import (
	"slices"
	"sync"
)

// tablePiece is how many values, or accounts, are listed before a Table is unlocked.
const tablePiece = 1024

// Table has values, which stand for queues, by the accounts of these. The zero Table is empty. Its methods may be called
// from any goroutine. Those that change it may be called with other locks held, and do not wait for a long list.
type Table[T comparable] struct {
	Yield func() // is called between two pieces of a list; it is set before anything is listed

	mu     sync.Mutex
	values map[string]map[T]struct{}
}

// Add adds a value that stands for the queue called name.
func (t *Table[T]) Add(name string, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	account := Of(name)
	of := t.values[account]
	if of == nil {
		of = make(map[T]struct{})
		if t.values == nil {
			t.values = make(map[string]map[T]struct{})
		}
		t.values[account] = of
	}
	of[value] = struct{}{}
}

// Remove takes it out.
func (t *Table[T]) Remove(name string, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	account := Of(name)
	of := t.values[account]
	delete(of, value)
	if len(of) == 0 {
		delete(t.values, account)
	}
}

// List returns the values of an account, in no order. most bounds how many they are; 0 does not.
func (t *Table[T]) List(account string, most int) []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return collect(t, t.values[account], most)
}

// Accounts returns the accounts, in the order of their names.
func (t *Table[T]) Accounts() []string {
	t.mu.Lock()
	accounts := collect(t, t.values, 0)
	t.mu.Unlock()
	slices.Sort(accounts)
	return slices.Compact(accounts) // one that has gone and come back meanwhile may have been met twice
}

// collect returns the keys of a map of t, in pieces. most bounds how many they are, as in List. The map may change
// while t, which the caller has locked, is unlocked: range allows that.
func collect[T comparable, K comparable, V any](t *Table[T], from map[K]V, most int) (keys []K) {
	for key := range from {
		if keys = append(keys, key); len(keys) == most {
			break
		}
		if len(keys)%tablePiece == 0 {
			t.mu.Unlock()
			keys = slices.Grow(keys, tablePiece)
			t.Yield()
			t.mu.Lock()
		}
	}
	return keys
}
