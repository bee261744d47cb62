package embedded

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

const (
	pieceSize  = 64 << 10 // bytes of items that a walk does at a time, about
	wholeMatch = 4 << 20  // bytes of messages that a request shows which changes them
)

// gatherer copies the items of a walk, or one item.
type gatherer struct {
	detail   backend.Detail
	number   uint64                  // of the queue
	delivery func() *engine.Delivery // of the item being received
	list     []backend.Message
	place    uint64 // in the queue, of the message received last
	size     int    // bytes of bodies and ids in list
}

// gather returns a gatherer for messages of q.
func (s *Store) gather(q backend.Queue, d backend.Detail) *gatherer {
	number, _ := s.engine.QueueNumber(nameOf(q))
	return &gatherer{detail: d, number: number}
}

// Receive implements engine.Receiver.
func (g *gatherer) Receive(it engine.Item) bool {
	now := engine.Now()
	m := backend.Message{ID: string(it.Key())}
	if m.ID == "" {
		m.ID = fmt.Sprintf("%c%d.%d", burrow.ReservedPrefix, g.number, it.ID)
	}
	if it.Expiry != 0 {
		m.TTL = max(secondsUntil(it.Expiry, now), time.Second)
	}
	if due := g.delivery().Due; due != 0 {
		m.Hide = secondsUntil(due, now)
	}
	if g.detail >= backend.Bodies {
		m.Body = append([]byte{}, it.Data...)
	}
	g.list = append(g.list, m)
	g.place = it.ID
	g.size += len(m.ID) + len(m.Body)
	return true
}

// secondsUntil returns how long it is from now to t in whole seconds, rounded up.
func secondsUntil(t, now engine.Time) time.Duration {
	return time.Duration(max(int64(t-now)+999, 0)/1000) * time.Second
}

// matching is one request about the messages that match.
type matching struct {
	store *Store
	queue backend.Queue
	name  []byte
	match backend.Match
	begin func(engine.Match) *engine.Scan
	take  func(engine.ReadRef, *backend.Message) error // of a request that waits for a message; nil: it watches

	walk   *engine.Scan
	gather *gatherer
	more   bool
}

// matching checks a request about the messages that match; begin returns its walk.
func (s *Store) matching(
	ctx context.Context, q backend.Queue, m backend.Match, begin func(name []byte, m engine.Match) *engine.Scan,
) (*matching, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	if err := orCheck(q.Check(), m.Check); err != nil {
		return nil, err
	}
	name := nameOf(q)
	return &matching{store: s, queue: q, name: name, match: m,
		begin: func(m engine.Match) *engine.Scan { return begin(name, m) }}, nil
}

// first does the first piece of the walk that has matches. It waits for one if it may.
func (r *matching) first(ctx context.Context) (n int, err error) {
	deadline := time.Now().Add(min(r.match.Wait, backend.LongestWait))
	for {
		if err := r.store.begin(ctx); err != nil {
			return 0, err
		}
		left := time.Until(deadline)
		if left > 0 && r.take != nil {
			if n, err := r.inLine(ctx, left); n > 0 || err != nil {
				return n, err
			}
			continue
		}
		var come *arrival
		if left > 0 {
			if come, err = r.store.watch(r.name); err != nil {
				return 0, worded(err)
			}
		}
		n, err = r.start()
		if n > 0 || err != nil || left <= 0 {
			come.cancel()
			if err == nil && n == 0 {
				err = r.store.missing(r.queue)
			}
			return n, err
		}
		if err := come.wait(ctx, left); err != nil {
			return 0, worded(err)
		}
	}
}

// start begins the walk, and does pieces of it until one has matches.
func (r *matching) start() (n int, err error) {
	m := engine.Match{Limit: r.match.Limit, Hidden: r.match.Hidden}
	if marker := r.match.Marker; marker != "" {
		if place, ok := r.store.position(r.name, marker); ok {
			m.From = place + 1
		}
	}
	r.gather = r.store.gather(r.queue, r.match.Detail)
	r.walk = r.begin(m)
	r.gather.delivery = r.walk.Delivery
	for {
		r.more = r.walk.Do(engine.Now(), r.gather, pieceSize)
		if n, err = r.committed(); n > 0 || err != nil || !r.more {
			return n, err
		}
		r.walk.Wait()
	}
}

// next does one more piece.
func (r *matching) next() error {
	r.walk.Wait()
	r.more = r.walk.Do(engine.Now(), r.gather, pieceSize)
	_, err := r.committed()
	return err
}

// committed returns how many have matched so far, once that is safe.
func (r *matching) committed() (n int, err error) {
	n, t, err := r.walk.Result()
	if err == engine.ErrNoSuchItem {
		err = nil
	}
	if err == nil {
		err = r.store.engine.Commit(t)
	}
	return n, worded(err)
}

// rest does the whole walk, or as much of it as may be shown.
func (r *matching) rest(ctx context.Context) ([]backend.Message, error) {
	if _, err := r.first(ctx); err != nil {
		return nil, err
	}
	shown := r.match.Detail != backend.None
	for r.more && (!shown || r.gather.size < wholeMatch) {
		if !shown {
			r.gather.list = r.gather.list[:0]
		}
		err := r.next()
		if _, _, broke := r.walk.Result(); shown && broke != nil {
			break // as at the limit: nobody else shows what was changed, and the next request hears the error
		}
		if err != nil {
			return nil, err
		}
	}
	if !shown {
		return nil, nil
	}
	return r.gather.list, nil
}

// position returns the place of the message with that id.
func (s *Store) position(name []byte, id string) (place uint64, ok bool) {
	if id[0] == burrow.ReservedPrefix {
		return s.place(name, id)
	}
	return s.engine.Find(engine.Now(), name, []byte(id))
}

// Messages implements [backend.Backend].
func (s *Store) Messages(ctx context.Context, q backend.Queue, m backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		if m.Detail == backend.None {
			m.Limit = 1
		}
		r, err := s.matching(ctx, q, m, s.engine.List)
		if err == nil {
			_, err = r.first(ctx)
		}
		if err != nil {
			yield(backend.Message{}, err)
			return
		}
		if m.Detail == backend.None {
			yield(backend.Message{}, nil)
			return
		}
		for {
			for _, m := range r.gather.list {
				if !yield(m, nil) {
					return
				}
			}
			r.gather.list = slices.Delete(r.gather.list, 0, len(r.gather.list))
			if !r.more {
				return
			}
			err := s.begin(ctx)
			if err = orCheck(err, r.next); err != nil {
				yield(backend.Message{}, err)
				return
			}
		}
	}
}

// UpdateMessages implements [backend.Backend].
func (s *Store) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, m backend.Match) ([]backend.Message, error) {
	if err := to.Check(); err != nil {
		return nil, err
	}
	r, err := s.matching(ctx, q, m, func(name []byte, m engine.Match) *engine.Scan {
		if to == (backend.Attributes{}) {
			return s.engine.List(name, m)
		}
		return s.engine.Changing(name, "", m, changes(engine.Now(), to))
	})
	if err != nil {
		return nil, err
	}
	if to.Hide > 0 && m.Marker == "" && !m.Hidden {
		r.take = func(ref engine.ReadRef, m *backend.Message) error { return r.hide(ref, m, to) }
	}
	return r.rest(ctx)
}

// DeleteMessages implements [backend.Backend].
func (s *Store) DeleteMessages(ctx context.Context, q backend.Queue, m backend.Match) ([]backend.Message, error) {
	r, err := s.matching(ctx, q, m, func(name []byte, m engine.Match) *engine.Scan {
		return s.engine.Removing(name, "", m)
	})
	if err != nil {
		return nil, err
	}
	if m.Marker == "" && !m.Hidden {
		r.take = r.remove
	}
	return r.rest(ctx)
}
