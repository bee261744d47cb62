package main

import (
	"errors"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// keyer is what a link can do with keys.
type keyer interface {
	// putKeyed puts an item with a key. It returns errRefused if there is one, or none, and how wants it otherwise.
	putKeyed(queue, key string, how engine.Duplicate, data []byte) error
	// removeKey removes the item of a key. It returns errNone if there is none.
	removeKey(queue, key string) error
}

func (l *engineLink) putKeyed(queue, key string, how engine.Duplicate, data []byte) error {
	extra := &engine.PutExtra{Key: []byte(key), OnDuplicate: how}
	t, err := l.e.Put(engine.Now(), []byte(queue), engine.PutRequest{Data: data, Extra: extra})
	if err == nil {
		err = l.e.Commit(t)
	}
	return outcome(err)
}

func (l *engineLink) removeKey(queue, key string) error {
	t, err := l.e.Remove(engine.Now(), []byte(queue), "", engine.Which{Key: []byte(key)})
	if err == nil {
		err = l.e.Commit(t)
	}
	if errors.Is(err, engine.ErrNoSuchItem) {
		return errNone
	}
	return outcome(err)
}

func (l *memcacheLink) putKeyed(queue, key string, how engine.Duplicate, data []byte) error {
	o := memcache.SetOptions{Key: []byte(key), New: how == engine.OnlyNew, Replace: how == engine.OnlyReplace}
	l.conn.Write(memcache.AppendSetWith(nil, []byte(queue), o, 0, 0, data))
	return l.stored(1)[0]
}

func (l *memcacheLink) removeKey(queue, key string) error {
	err := l.ask(memcache.AppendDeleteItem(nil, []byte(queue), 0, []byte(key)))
	if err == nil && l.r.Kind == memcache.KindNotFound {
		return errNone
	}
	return l.outcome(err)
}

// putsKeyed begins a put of an item with a key. Until it has ended, nobody knows whether the others of the key are
// there.
func (l *ledger) putsKeyed(queue, key string, size int, how engine.Duplicate) (*entry, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if how != engine.OnlyNew {
		l.unsureKey(queue, key, nil)
	}
	n, data := l.puttingKeyed(queue, key, size, 0, 0)
	return l.items[n].in[0], data
}

// unsureKey notes that a request is under way that may end the items of a key but one. The caller holds mu.
func (l *ledger) unsureKey(queue, key string, but *entry) {
	for _, e := range l.queues[queue] {
		if e.key == key && e != but && e.state == here {
			e.state = maybe
		}
	}
}

// isSure reports whether e is in its queue for certain, if all requests that may end it are known to have ended. The
// caller holds mu.
func (l *ledger) isSure(e *entry) bool {
	return e.put == confirmed && e.state == here && !e.lost && l.taking[e.queue] == 0 && l.allowed[e.queue] == 0 && e.cleared.IsZero()
}

// keyedEnded says what came of a put with a key: those before it are gone if it was acknowledged.
func (l *ledger) keyedEnded(e *entry, how engine.Duplicate, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.unheard = err == errBroken; l.frozen || e.put == refused {
		return
	}
	if e.put != confirmed {
		l.unsureKey(e.queue, e.key, e)
		return
	}
	for _, x := range l.queues[e.queue] {
		if x == e || x.key != e.key || x.put == refused || x.state == gone || x.lost {
			continue
		}
		before := !x.unheard && !x.ended.IsZero() && x.ended.Before(e.started)
		if before && how == engine.OnlyNew && l.isSure(x) {
			l.violate("key", "%v was put as a new one of its key, and %v is there", e, x)
		}
		if before {
			l.endKeyed(x, e.sync)
			continue
		}
		if x.state == here { // nobody knows which came first
			x.state = maybe
		}
		if e.state == here {
			e.state = maybe
		}
	}
}

// endKeyed notes that an item is gone on account of a request that was acknowledged. The caller holds mu.
func (l *ledger) endKeyed(e *entry, sync engine.SyncPolicy) {
	l.trace(e, "replaced, or removed by its key")
	e.state, e.goneAt, e.goneSync, e.holder = gone, l.now(), sync, nil
	l.live[e.queue] -= int64(len(l.items[e.n].data))
}

// removal is a request that removes the item of a key.
type removal struct {
	queue, key string
	began      time.Time
}

// removes begins a removal.
func (l *ledger) removes(queue, key string) removal {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsureKey(queue, key, nil)
	return removal{queue, key, l.now()}
}

// removalEnded says what came of it: nil, or errNone if there was no item; either way those that were there when it
// began are gone.
func (l *ledger) removalEnded(r removal, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen {
		return
	}
	for _, e := range l.queues[r.queue] {
		if e.key != r.key || e.put == refused || e.state == gone || e.lost {
			continue
		}
		if e.state == here {
			e.state = maybe // it was put meanwhile
		}
		if err == nil && !e.unheard && !e.ended.IsZero() && e.ended.Before(r.began) {
			l.endKeyed(e, l.set.For(r.queue).Sync)
		}
	}
}
