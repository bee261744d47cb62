package embedded

import (
	"context"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/engine"
)

// Accounts implements [backend.Backend].
func (s *Store) Accounts(ctx context.Context, m backend.Names) ([]string, error) {
	if err := orCheck(s.begin(ctx), m.Check); err != nil {
		return nil, err
	}
	if names := m.Of(s.engine.Accounts(engine.Now())); len(names) > 0 {
		return names, nil
	}
	return nil, backend.ErrNoAccount
}

// Queues implements [backend.Backend].
func (s *Store) Queues(ctx context.Context, account string, m backend.Names) ([]string, error) {
	if err := orCheck(orCheck(s.begin(ctx), m.Check), func() error { return backend.CheckAccount(account) }); err != nil {
		return nil, err
	}
	all := s.engine.AccountQueues(engine.Now(), []byte(account))
	if names := m.Of(all); len(names) > 0 {
		return names, nil
	}
	return nil, backend.Missing(len(all) > 0, false)
}

// DeleteAccounts implements [backend.Backend].
func (s *Store) DeleteAccounts(ctx context.Context, m backend.Names) ([]string, error) {
	accounts, err := s.Accounts(ctx, m)
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		for _, queue := range s.engine.AccountQueues(engine.Now(), []byte(account)) {
			if err := s.empty(ctx, backend.Queue{Account: account, Name: queue}); err != nil {
				return nil, err
			}
		}
	}
	return accounts, nil
}

// DeleteQueues implements [backend.Backend].
func (s *Store) DeleteQueues(ctx context.Context, account string, m backend.Names) ([]string, error) {
	queues, err := s.Queues(ctx, account, m)
	if err != nil {
		return nil, err
	}
	for _, queue := range queues {
		if err := s.empty(ctx, backend.Queue{Account: account, Name: queue}); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

// empty removes every message of q, hidden or not.
func (s *Store) empty(ctx context.Context, q backend.Queue) error {
	walk := s.engine.Removing(nameOf(q), "", engine.Match{Hidden: true})
	for walk.Do(engine.Now(), nil, pieceSize) {
		walk.Wait()
		if err := s.begin(ctx); err != nil {
			return err
		}
	}
	_, t, err := walk.Result()
	if err == engine.ErrNoSuchItem {
		err = nil
	}
	return orCheck(worded(err), func() error { return s.commit(t) })
}
