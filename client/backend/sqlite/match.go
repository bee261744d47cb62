package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

const (
	pageRows   = 256     // rows that a list reads at a time at most
	pageBytes  = 1 << 20 // and about so many bytes of bodies
	wholeMatch = 4 << 20 // bytes of messages that a request shows which changes them
)

// watch is what calls wait for that look at one queue.
type watch struct {
	news  chan struct{} // closed when something of the queue has changed
	calls int           // guarded by the store's mu
}

// changed wakes the calls that wait for a message of q.
func (s *Store) changed(q backend.Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.waits[q]; w != nil {
		close(w.news)
		delete(s.waits, q)
	}
}

// watch begins to watch q. The caller calls end.
func (s *Store) watch(q backend.Queue) (news <-chan struct{}, end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waits[q]
	if w == nil {
		w = &watch{news: make(chan struct{})}
		s.waits[q] = w
	}
	w.calls++
	return w.news, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if w.calls--; w.calls == 0 && s.waits[q] == w {
			delete(s.waits, q)
		}
	}
}

// waiting calls try until it finds something, or the wait is over.
func (s *Store) waiting(ctx context.Context, q backend.Queue, m backend.Match, try func() error) error {
	until := time.Now().Add(min(m.Wait, backend.LongestWait))
	for {
		if again, err := s.wait(ctx, q, until, try); !again {
			return err
		}
	}
}

// wait calls try once. If it finds nothing, wait waits for something, and reports whether to try again.
func (s *Store) wait(ctx context.Context, q backend.Queue, until time.Time, try func() error) (again bool, err error) {
	news, end := s.watch(q)
	defer end()
	if err := try(); !errors.Is(err, backend.ErrNotFound) || time.Until(until) <= 0 {
		return false, err
	}
	timer := time.NewTimer(min(time.Until(until), s.nextShow(ctx, q)))
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	return true, nil
}

// nextShow returns how long it is until a hidden message of q shows, a second at most.
func (s *Store) nextShow(ctx context.Context, q backend.Queue) time.Duration {
	var shows sql.NullInt64
	now := now()
	err := s.db.QueryRowContext(ctx, "SELECT min(shows) FROM messages WHERE account = ? AND queue = ? AND shows > ?",
		q.Account, q.Name, now).Scan(&shows)
	if err != nil || !shows.Valid {
		return lookEvery
	}
	return min(lookEvery, time.Duration(shows.Int64-now)*time.Millisecond)
}

// read reads the next rows that match, behind a place; those that are over the bytes stay, but for the first.
func read(ctx context.Context, tx *sql.Tx, q backend.Queue, m backend.Match, behind int64, rows, bytes int) (list []row, more bool, err error) {
	now := now()
	if m.Limit > 0 {
		rows = min(rows, m.Limit)
	}
	found, err := tx.QueryContext(ctx, "SELECT "+columns(m.Detail)+` FROM messages
		WHERE account = ? AND queue = ? AND place > ? AND (expires = 0 OR expires > ?) AND (? OR shows <= ?)
		ORDER BY place LIMIT ?`, q.Account, q.Name, behind, now, m.Hidden, now, rows)
	if err != nil {
		return nil, false, err
	}
	defer found.Close()
	for size := 0; found.Next(); {
		r := row{now: now}
		if err := found.Scan(&r.place, &r.id, &r.expires, &r.shows, &r.body); err != nil {
			return nil, false, err
		}
		if list = append(list, r); m.Detail >= backend.IDs {
			size += len(r.id) + len(r.body)
		}
		if size >= bytes {
			return list, true, found.Err()
		}
	}
	return list, len(list) == rows, found.Err()
}

// marked returns the place of the marker; 0 if there is none.
func marked(ctx context.Context, tx *sql.Tx, q backend.Queue, m backend.Match) (place int64, err error) {
	if m.Marker == "" {
		return 0, nil
	}
	err = tx.QueryRowContext(ctx, "SELECT place FROM messages WHERE account = ? AND queue = ? AND id = ? AND (expires = 0 OR expires > ?)",
		q.Account, q.Name, m.Marker, now()).Scan(&place)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return place, err
}

// Messages implements [backend.Backend]. It reads page by page, so others write in between.
func (s *Store) Messages(ctx context.Context, q backend.Queue, m backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		if err := s.list(ctx, q, m, yield); err != nil {
			yield(backend.Message{}, err)
		}
	}
}

// list yields what matches. The error is nil once yield has asked to stop.
func (s *Store) list(ctx context.Context, q backend.Queue, m backend.Match, yield func(backend.Message, error) bool) error {
	for _, err := range []error{q.Check(), m.Check()} {
		if err != nil {
			return err
		}
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	var page []row
	var more bool
	err = s.waiting(ctx, q, m, func() error {
		return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
			behind, err := marked(ctx, tx, q, m)
			if err != nil {
				return err
			}
			if page, more, err = read(ctx, tx, q, m, behind, pageRows, pageBytes); err == nil && len(page) == 0 {
				err = missing(ctx, tx, q)
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	if m.Detail == backend.None {
		yield(backend.Message{}, nil)
		return nil
	}
	for {
		for _, r := range page {
			if !yield(r.message(), nil) {
				return nil
			}
		}
		if m.Limit > 0 {
			if m.Limit -= len(page); m.Limit == 0 {
				return nil
			}
		}
		if !more {
			return nil
		}
		behind := page[len(page)-1].place
		err := s.transact(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
			page, more, err = read(ctx, tx, q, m, behind, pageRows, pageBytes)
			return err
		})
		if err != nil {
			return err
		}
	}
}

// UpdateMessages implements [backend.Backend].
func (s *Store) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, m backend.Match) ([]backend.Message, error) {
	if err := to.Check(); err != nil {
		return nil, err
	}
	list, err := s.each(ctx, q, m, func(ctx context.Context, tx *sql.Tx, r *row) error { return r.update(ctx, tx, to) })
	if err == nil {
		s.changed(q)
	}
	return list, err
}

// DeleteMessages implements [backend.Backend].
func (s *Store) DeleteMessages(ctx context.Context, q backend.Queue, m backend.Match) ([]backend.Message, error) {
	return s.each(ctx, q, m, func(ctx context.Context, tx *sql.Tx, r *row) error { return r.remove(ctx, tx) })
}

// each does something to each message that matches, in one transaction, and returns the messages.
func (s *Store) each(
	ctx context.Context, q backend.Queue, m backend.Match, do func(context.Context, *sql.Tx, *row) error,
) (all []backend.Message, err error) {
	for _, err := range []error{q.Check(), m.Check()} {
		if err != nil {
			return nil, err
		}
	}
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	err = s.waiting(ctx, q, m, func() error {
		return s.transact(ctx, func(ctx context.Context, tx *sql.Tx) error {
			behind, err := marked(ctx, tx, q, m)
			if err != nil {
				return err
			}
			all = nil
			return s.eachOf(ctx, tx, q, m, behind, do, func(m backend.Message) { all = append(all, m) })
		})
	})
	return all, err
}

// eachOf does something to each message that matches behind a place, and shows it.
func (s *Store) eachOf(
	ctx context.Context, tx *sql.Tx, q backend.Queue, m backend.Match, behind int64,
	do func(context.Context, *sql.Tx, *row) error, show func(backend.Message),
) error {
	count, room, left := 0, wholeMatch, m
	for {
		page, more, err := read(ctx, tx, q, left, behind, pageRows, room)
		if err != nil {
			return err
		}
		for i := range page {
			r := &page[i]
			if err := do(ctx, tx, r); err != nil {
				return err
			}
			if m.Detail != backend.None {
				show(r.message())
				room -= len(r.id) + len(r.body)
			}
			behind = r.place
		}
		count += len(page)
		if left.Limit -= len(page); m.Limit > 0 && left.Limit <= 0 || !more || room <= 0 {
			break
		}
		left.Limit = max(left.Limit, 0)
	}
	if count == 0 {
		return missing(ctx, tx, q)
	}
	return nil
}
