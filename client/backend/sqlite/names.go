package sqlite

import (
	"context"
	"database/sql"

	"github.com/kestrelmq/kestrel/client/backend"
)

// Accounts implements [backend.Backend].
func (s *Store) Accounts(ctx context.Context, n backend.Names) ([]string, error) {
	return s.names(ctx, n, "", nil)
}

// Queues implements [backend.Backend].
func (s *Store) Queues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	if err := backend.CheckAccount(account); err != nil {
		return nil, err
	}
	return s.names(ctx, n, account, nil)
}

// DeleteAccounts implements [backend.Backend].
func (s *Store) DeleteAccounts(ctx context.Context, n backend.Names) ([]string, error) {
	return s.names(ctx, n, "", func(ctx context.Context, tx *sql.Tx, name string) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM messages WHERE account = ?", name)
		return err
	})
}

// DeleteQueues implements [backend.Backend].
func (s *Store) DeleteQueues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	if err := backend.CheckAccount(account); err != nil {
		return nil, err
	}
	return s.names(ctx, n, account, func(ctx context.Context, tx *sql.Tx, name string) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM messages WHERE account = ? AND queue = ?", account, name)
		return err
	})
}

// names returns the accounts that match, or the queues of an account that match, in the order of their oldest messages.
// First it calls do with each.
func (s *Store) names(
	ctx context.Context, n backend.Names, account string, do func(context.Context, *sql.Tx, string) error,
) (names []string, err error) {
	if err := n.Check(); err != nil {
		return nil, err
	}
	err = s.change(ctx, func(ctx context.Context, tx *sql.Tx) error {
		query, args := `SELECT account FROM messages WHERE expires = 0 OR expires > ? GROUP BY account ORDER BY min(place)`, []any{now()}
		if account != "" {
			query = `SELECT queue FROM messages WHERE (expires = 0 OR expires > ?) AND account = ? GROUP BY queue ORDER BY min(place)`
			args = append(args, account)
		}
		all, err := texts(ctx, tx, query, args...)
		if err != nil {
			return err
		}
		if names = n.Of(all); len(names) == 0 {
			return backend.Missing(account != "" && len(all) > 0, false)
		}
		for _, name := range names {
			if do == nil {
				break
			}
			if err := do(ctx, tx, name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// texts returns the one column of a query.
func texts(ctx context.Context, tx *sql.Tx, query string, args ...any) (list []string, err error) {
	found, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	return list, found.Err()
}
