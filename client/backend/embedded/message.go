package embedded

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// aheadPause is how long a producer that outruns the disk waits before it looks again.
const aheadPause = 5 * time.Millisecond

// Put implements [backend.Backend]. While the caller outruns the disk it waits for that.
func (s *Store) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (bool, error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	if err := orCheck(k.Check(), a.Check); err != nil {
		return false, err
	}
	now, name := engine.Now(), nameOf(k.Queue)
	extra := engine.PutExtra{Key: []byte(k.ID), Delay: a.Hidden()}
	put := []engine.PutRequest{{Data: body, Expiry: expiryOf(now, a.Lifetime()), Extra: &extra}}
	stored, err := s.engine.PutAll(now, name, put)
	if err != nil {
		return false, worded(err)
	}
	if err := s.commit(stored.Ticket); err != nil {
		return false, err
	}
	for stored.Ahead && s.engine.Ahead(name) && ctx.Err() == nil {
		pause := time.NewTimer(aheadPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
	}
	return stored.Replaced == 0, nil
}

// expiryOf returns when a message expires that lives for d; 0 is for ever.
func expiryOf(now engine.Time, d time.Duration) engine.Time {
	if d == 0 {
		return 0
	}
	return now.After(d)
}

// changes returns what an update changes.
func changes(now engine.Time, to backend.Attributes) (a engine.Changes) {
	if to.TTL != 0 {
		a.SetExpiry, a.Expiry = true, expiryOf(now, to.Lifetime())
	}
	if to.Hide != 0 {
		a.SetDelay, a.Delay = true, to.Hidden()
	}
	return a
}

// Message implements [backend.Backend].
func (s *Store) Message(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	which, err := s.which(ctx, k)
	if err != nil {
		return backend.Message{}, err
	}
	return s.look(k, which, d, false)
}

// UpdateMessage implements [backend.Backend].
func (s *Store) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	which, err := s.which(ctx, k)
	if err = orCheck(err, to.Check); err != nil {
		return backend.Message{}, err
	}
	if now := engine.Now(); to != (backend.Attributes{}) {
		t, err := s.engine.Change(now, nameOf(k.Queue), &engine.LookRequest{Which: which, Wait: true}, changes(now, to))
		if err != nil {
			return backend.Message{}, s.notThere(k, err)
		}
		if err := s.commit(t); err != nil {
			return backend.Message{}, err
		}
		if d == backend.None {
			return backend.Message{}, nil
		}
	}
	return s.look(k, which, d, false)
}

// orCheck returns err, or if that is nil what check says.
func orCheck(err error, check func() error) error {
	if err == nil {
		err = check()
	}
	return err
}

// DeleteMessage implements [backend.Backend].
func (s *Store) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	which, err := s.which(ctx, k)
	if err != nil {
		return backend.Message{}, err
	}
	if d != backend.None {
		return s.look(k, which, d, true)
	}
	t, err := s.engine.Remove(engine.Now(), nameOf(k.Queue), "", which)
	if failed := s.engine.Commit(t); failed != nil {
		err = failed // also if the message is gone: that may not be durable
	}
	if err != nil {
		return backend.Message{}, s.notThere(k, err)
	}
	return backend.Message{}, nil
}

// look returns one message, which it may remove.
func (s *Store) look(k backend.Key, which engine.Which, d backend.Detail, remove bool) (backend.Message, error) {
	g := s.gather(k.Queue, d)
	var delivery engine.Delivery
	g.delivery = func() *engine.Delivery { return &delivery }
	ask := &engine.LookRequest{Which: which, Wait: true, Remove: remove, Delivery: &delivery}
	t, err := s.engine.Look(engine.Now(), nameOf(k.Queue), ask, g)
	if failed := s.engine.Commit(t); failed != nil {
		err = failed
	}
	if err != nil {
		return backend.Message{}, s.notThere(k, err)
	}
	if d == backend.None {
		return backend.Message{}, nil
	}
	return g.list[0], nil
}

// notThere returns what an error about one message means to callers.
func (s *Store) notThere(k backend.Key, err error) error {
	if errors.Is(err, engine.ErrNoSuchItem) {
		return s.missing(k.Queue)
	}
	return worded(err)
}

// which returns how the engine names a message.
func (s *Store) which(ctx context.Context, k backend.Key) (engine.Which, error) {
	if err := s.begin(ctx); err != nil {
		return engine.Which{}, err
	}
	if k.ID == "" || k.ID[0] != burrow.ReservedPrefix {
		return engine.Which{Key: []byte(k.ID)}, k.Check()
	}
	if err := k.Queue.Check(); err != nil {
		return engine.Which{}, err
	}
	id, ok := s.place(nameOf(k.Queue), k.ID)
	if !ok {
		return engine.Which{}, s.missing(k.Queue)
	}
	return engine.Which{ID: id}, nil
}

// place returns the place of an item without a key, whose id is @N.ID: N is the number of the queue.
func (s *Store) place(name []byte, id string) (place uint64, ok bool) {
	number, rest, found := strings.Cut(id[1:], ".")
	n, err := strconv.ParseUint(number, 10, 64)
	place, err2 := strconv.ParseUint(rest, 10, 64)
	have, exists := s.engine.QueueNumber(name)
	return place, found && err == nil && err2 == nil && exists && n == have
}
