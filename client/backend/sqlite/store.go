package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	driver "modernc.org/sqlite"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

const schema = `
CREATE TABLE IF NOT EXISTS messages (
	place   INTEGER PRIMARY KEY AUTOINCREMENT,
	account TEXT NOT NULL,
	queue   TEXT NOT NULL,
	id      TEXT NOT NULL,
	body    BLOB NOT NULL,
	expires INTEGER NOT NULL DEFAULT 0,
	shows   INTEGER NOT NULL DEFAULT 0,
	UNIQUE (account, queue, id)
);
CREATE INDEX IF NOT EXISTS messages_in_order ON messages (account, queue, place);
CREATE INDEX IF NOT EXISTS messages_expire ON messages (expires) WHERE expires > 0;
`

const (
	sweepEvery = 30 * time.Second // that expired rows are removed
	lookEvery  = time.Second      // that a wait looks for what other programs have added
	maxBody    = 32 << 20         // bytes, as a server has it
)

// Store is a [backend.Backend] over a file.
type Store struct {
	db     *sql.DB
	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup // and the sweep

	mu    sync.Mutex               // held while a call begins, and while Close does; guards waits
	waits map[backend.Queue]*watch // of the queues that calls look at
}

// Open opens the store in a file, which it makes if it is missing. Close it.
func Open(file string) (*Store, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return nil, err
	}
	options := "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+options)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(schema); err != nil {
		db.Close()
		return nil, fmt.Errorf("open the database %s: %w", file, err)
	}
	s := &Store{db: db, waits: make(map[backend.Queue]*watch)}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.calls.Go(s.sweep)
	return s, nil
}

// Close implements [backend.Backend].
func (s *Store) Close() error {
	s.mu.Lock()
	s.cancel(backend.ErrClosed)
	s.mu.Unlock()
	s.calls.Wait()
	return s.db.Close()
}

// begin returns a context for one call, and what ends it; or why the call cannot begin.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, nil, backend.ErrClosed
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(backend.ErrClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
		s.calls.Done()
	}, nil
}

// sweep removes what has expired, from time to time.
func (s *Store) sweep() {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			// What fails now, because another program is writing, the next sweep does.
			s.db.ExecContext(s.ctx, "DELETE FROM messages WHERE expires BETWEEN 1 AND ?", now())
		case <-s.ctx.Done():
			return
		}
	}
}

// Ping implements [backend.Backend].
func (s *Store) Ping(ctx context.Context) error {
	return s.change(ctx, func(context.Context, *sql.Tx) error { return nil })
}

// change does something in a transaction. If it returns an error, nothing has changed, unless it is not known.
func (s *Store) change(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	return s.transact(ctx, do)
}

func (s *Store) transact(ctx context.Context, do func(context.Context, *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return failure(ctx, err)
	}
	defer tx.Rollback() // a transaction that is committed stays so
	if err := do(ctx, tx); err != nil {
		return failure(ctx, err)
	}
	if err := tx.Commit(); isFull(err) {
		return failure(ctx, err) // it is rolled back
	} else if err != nil {
		return backend.Unknown(failure(ctx, err))
	}
	return nil
}

// isFull reports whether the database has no room for what a transaction has changed.
func isFull(err error) bool {
	const full = 13 // SQLITE_FULL
	var e *driver.Error
	return errors.As(err, &e) && e.Code() == full
}

// failure returns what an error of the database means to callers.
func failure(ctx context.Context, err error) error {
	var refused *backend.Error
	switch {
	case errors.As(err, &refused):
		return err
	case isFull(err):
		return backend.Refuse(backend.ErrFull, "out of disk space")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return backend.Unavailable(err)
}

func now() int64 { return time.Now().UnixMilli() }

// deadline returns when a time of d is over; 0 stands for d of 0.
func deadline(now int64, d time.Duration) int64 {
	if d == 0 {
		return 0
	}
	return now + d.Milliseconds()
}

// left returns how long it is until a deadline, in whole seconds, rounded up.
func left(now, deadline int64) time.Duration {
	return time.Duration((max(deadline-now, 0)+999)/1000) * time.Second
}

// missing returns the error for the outermost thing that is missing.
func missing(ctx context.Context, tx *sql.Tx, q backend.Queue) error {
	var account, queue bool
	err := tx.QueryRowContext(ctx, `SELECT
		EXISTS (SELECT 1 FROM messages WHERE account = ?1 AND (expires = 0 OR expires > ?3)),
		EXISTS (SELECT 1 FROM messages WHERE account = ?1 AND queue = ?2 AND (expires = 0 OR expires > ?3))`,
		q.Account, q.Name, now()).Scan(&account, &queue)
	if err != nil {
		return err
	}
	return backend.Missing(account, queue)
}

// tooLarge refuses a body.
var tooLarge = backend.Refuse(backend.ErrTooLarge, burrow.TextTooLarge)
