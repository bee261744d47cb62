package engine

import (
	"fmt"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// MaxKeySize is the longest key of an item, in bytes.
const MaxKeySize = item.MaxKeySize

// Why is why a queue has given an item up.
type Why = item.Why

const (
	TooOften = item.TooOften // it was delivered as often as the queue allows
	Rejected = item.Rejected // a client said so
)

// Duplicate says what a put does with a key that an item of the queue has, or none has.
type Duplicate uint8

const (
	// Overwrite gives the item of the key the new body, flags and expiry, in its place and with its id. It is
	// visible, unless the put has a delay; its lease, or open read, has ended, and its deliveries are forgotten.
	Overwrite Duplicate = iota
	// OnlyNew refuses a key that an item has.
	OnlyNew
	// OnlyReplace refuses a key that no item has, and overwrites otherwise.
	OnlyReplace
)

// ValidateKey returns an error that wraps ErrBadKey unless an item may have that key.
func ValidateKey(key []byte) error {
	if len(key) == 0 {
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	}
	if len(key) > MaxKeySize {
		return fmt.Errorf("%w: it has %d bytes, above %d", ErrBadKey, len(key), MaxKeySize)
	}
	for _, c := range key {
		if c < ' ' || c == 0x7f || c == '/' {
			return fmt.Errorf("%w: it has a control byte or a slash", ErrBadKey)
		}
	}
	return nil
}

// index returns the keys of q, which it makes if there are none. The mutex of the shard guards them.
func (q *queue) index() *keyindex.Keys {
	if q.keys == nil {
		q.keys = keyindex.NewKeys(q.shard.pool.Memory)
	}
	return q.keys
}

// keySeed is the seed of the keys of q, which never changes; nil as long as no item has had a key.
func (q *queue) keySeed() *keyindex.Seed {
	if q.keys == nil {
		return nil
	}
	return &q.keys.Seed
}

// noteKey notes that it, which has a key, is the item of that.
func (q *queue) noteKey(it *Item) { q.index().Note(it.Key(), it.ID) }

// isOfKey reports whether it, which has a key, is the item of that.
func (q *queue) isOfKey(it *Item) bool {
	if q.keys == nil {
		return false
	}
	id, ok := q.keys.Of(it.Key())
	return ok && id == it.ID
}

// leaves notes that nobody can have it any more.
func (q *queue) leaves(it *Item) {
	if it.HasKey() {
		q.forgetKey(it)
	}
}

// forgetKey is leaves for an item that has a key.
func (q *queue) forgetKey(it *Item) {
	if q.keys != nil {
		q.keys.Forget(it.Key(), it.ID)
	}
}

// noteNewest is noteKey, unless it has no key, or a newer item has that.
func (q *queue) noteNewest(it *Item) {
	if it.HasKey() {
		q.index().NoteNewest(it.Key(), it.ID)
	}
}

// indexKeys makes the index of a queue that has just been brought back. inJournal says that its items that are in
// memory may have keys.
func (e *Engine) indexKeys(q *queue, inJournal bool) error {
	inRuns, err := e.spool.indexRuns(q)
	if err != nil || !inJournal && !inRuns {
		return err
	}
	note := func(it Item) bool {
		q.noteNewest(&it)
		return true
	}
	q.window.Each(note)
	if q.backlog != nil {
		q.backlog.recent.Each(note)
	}
	for id := range q.asideIDs() {
		r, _ := q.aside.Find(id)
		note(q.aside.Item(r))
	}
	for r := q.returned.First(); r != nil; r = r.link.Next() {
		note(r.item)
	}
	return nil
}

// indexRuns notes the keys of the items of q that are on disk alone, and reports whether a run may have keys.
func (s *spool) indexRuns(q *queue) (rich bool, err error) {
	files, err := s.keyFiles(q)
	if err != nil || len(files) == 0 {
		return false, err
	}
	return true, s.reader.IndexKeys(files, q.index, func(f runs.File, err error) {
		s.e.log.Warn("keys of a backlog file cannot be used: reading them from its items",
			"queue", q.name, "file", f.Path, "err", err)
	})
}

// keyFiles returns the runs of q in which items may have keys, and notes which of a backlog these are.
func (s *spool) keyFiles(q *queue) (files []runs.KeyFile, err error) {
	add := func(f runs.KeyFile) (extended bool, err error) {
		if extended, f.Keyed, err = s.reader.Extended(f.File); err == nil && extended {
			files = append(files, f)
		}
		return extended, err
	}
	if b := q.backlog; b != nil {
		lives := func(id uint64) bool { return id >= b.nextID && !b.gone.Has(id) }
		for _, r := range b.runs {
			r.extended, err = add(runs.KeyFile{
				File: r.File, First: segment.RunStart, End: r.recorded.End,
				OnDisk: func(id uint64) bool { return r.recorded.Contains(id) && lives(id) },
				Each: func(note func(Item)) error {
					return s.reader.Each(r.File, r.recorded.End, func(it Item) {
						if lives(it.ID) {
							note(it)
						}
					})
				},
			})
			if err != nil {
				return nil, err
			}
		}
	}
	if q.aside == nil {
		return files, nil
	}
	for _, r := range q.aside.hidden.Runs() {
		_, err := add(runs.KeyFile{
			File: r.File, First: r.Index, End: r.End, OnDisk: r.OnDisk,
			Each: func(note func(Item)) error {
				return s.eachIn(r, r.Next(), func(e hidden.Entry) bool {
					if r.OnDisk(e.ID) {
						note(e.Item)
					}
					return true
				})
			},
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}
