package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kestrelmq/kestrel/client/backend"
)

// Put implements [backend.Backend].
func (s *Store) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (created bool, err error) {
	for _, err := range []error{k.Check(), a.Check()} {
		if err != nil {
			return false, err
		}
	}
	if len(body) > maxBody {
		return false, tooLarge
	}
	if body == nil {
		body = []byte{}
	}
	err = s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := now()
		if _, err := tx.ExecContext(ctx,
			"DELETE FROM messages WHERE account = ? AND queue = ? AND id = ? AND expires BETWEEN 1 AND ?",
			k.Account, k.Name, k.ID, now); err != nil {
			return err
		}
		expires, shows := deadline(now, a.Lifetime()), deadline(now, a.Hidden())
		done, err := tx.ExecContext(ctx,
			"UPDATE messages SET body = ?, expires = ?, shows = ? WHERE account = ? AND queue = ? AND id = ?",
			body, expires, shows, k.Account, k.Name, k.ID)
		if err != nil {
			return err
		}
		n, err := done.RowsAffected()
		if created = n == 0; err != nil || !created {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"INSERT INTO messages (account, queue, id, body, expires, shows) VALUES (?, ?, ?, ?, ?, ?)",
			k.Account, k.Name, k.ID, body, expires, shows)
		return err
	})
	if err == nil {
		s.changed(k.Queue)
	}
	return created, err
}

// Message implements [backend.Backend].
func (s *Store) Message(ctx context.Context, k backend.Key, d backend.Detail) (m backend.Message, err error) {
	return s.one(ctx, k, d, func(context.Context, *sql.Tx, *row) error { return nil })
}

// UpdateMessage implements [backend.Backend].
func (s *Store) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	if err := to.Check(); err != nil {
		return backend.Message{}, err
	}
	m, err := s.one(ctx, k, d, func(ctx context.Context, tx *sql.Tx, r *row) error { return r.update(ctx, tx, to) })
	if err == nil {
		s.changed(k.Queue)
	}
	return m, err
}

// DeleteMessage implements [backend.Backend].
func (s *Store) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return s.one(ctx, k, d, func(ctx context.Context, tx *sql.Tx, r *row) error { return r.remove(ctx, tx) })
}

// one does something to one message, and returns it.
func (s *Store) one(
	ctx context.Context, k backend.Key, d backend.Detail, do func(context.Context, *sql.Tx, *row) error,
) (m backend.Message, err error) {
	if err := k.CheckAny(); err != nil {
		return m, err
	}
	if err := (backend.Match{Detail: d}).Check(); err != nil {
		return m, err
	}
	err = s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		now := now()
		r := row{now: now}
		err := tx.QueryRowContext(ctx, "SELECT "+columns(d)+" FROM messages WHERE account = ? AND queue = ? AND id = ?"+
			" AND (expires = 0 OR expires > ?)", k.Account, k.Name, k.ID, now).Scan(&r.place, &r.id, &r.expires, &r.shows, &r.body)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return missing(ctx, tx, k.Queue)
		case err != nil:
			return err
		}
		if err := do(ctx, tx, &r); err != nil || d == backend.None {
			return err
		}
		m = r.message()
		return nil
	})
	return m, err
}

// row is a message that was read.
type row struct {
	now            int64 // when it was read
	place          int64
	id             string
	body           []byte
	expires, shows int64
}

// columns are those of a row; the body only if it is wanted.
func columns(d backend.Detail) string {
	if d >= backend.Bodies {
		return "place, id, expires, shows, body"
	}
	return "place, id, expires, shows, NULL"
}

func (r *row) message() backend.Message {
	return backend.Message{ID: r.id, TTL: left(r.now, r.expires), Hide: left(r.now, r.shows), Body: r.body}
}

// update gives the message the attributes.
func (r *row) update(ctx context.Context, tx *sql.Tx, to backend.Attributes) error {
	if to == (backend.Attributes{}) {
		return nil
	}
	if to.TTL != 0 {
		r.expires = deadline(r.now, to.Lifetime())
	}
	if to.Hide != 0 {
		r.shows = deadline(r.now, to.Hidden())
	}
	_, err := tx.ExecContext(ctx, "UPDATE messages SET expires = ?, shows = ? WHERE place = ?", r.expires, r.shows, r.place)
	return err
}

// remove removes the message.
func (r *row) remove(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "DELETE FROM messages WHERE place = ?", r.place)
	return err
}
