package spread

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"

	"github.com/kestrelmq/kestrel/client/backend"
)

// HashOf is a back end of several members, each of which has some of the queues. Make it with [Hash].
type HashOf struct {
	members []Member
}

// Hash returns a back end that spreads queues over members by their names, which must differ and stay. It
// closes the members with itself.
func Hash(members []Member) (*HashOf, error) {
	for i, m := range members {
		if slices.ContainsFunc(members[:i], func(other Member) bool { return other.Name == m.Name }) {
			return nil, backend.Refuse(backend.ErrInvalid, fmt.Sprintf(
				"two members have the name %s: names must differ, because they say which member has a queue", m.Name))
		}
	}
	if len(members) == 0 {
		return nil, errors.New("there are no members: at least one must hold the queues")
	}
	return &HashOf{members: slices.Clone(members)}, nil
}

// Owner returns the name of the member that has the messages of q.
func (h *HashOf) Owner(q backend.Queue) string { return h.members[h.owner(q)].Name }

// owner returns the place of the member that has q: the one with the highest score.
func (h *HashOf) owner(q backend.Queue) (best int) {
	var most uint64
	for i, m := range h.members {
		if s := score(m.Name, q); s > most {
			best, most = i, s
		}
	}
	return best
}

// score is the same in every program and for ever: where messages are depends on it.
func score(member string, q backend.Queue) uint64 {
	hash := sha256.New()
	for _, part := range []string{member, q.Account, q.Name} {
		io.WriteString(hash, part)
		hash.Write([]byte{0})
	}
	return binary.BigEndian.Uint64(hash.Sum(nil))
}

func (h *HashOf) of(q backend.Queue) backend.Backend { return h.members[h.owner(q)].Backend }

// Accounts implements [backend.Backend]. The members' accounts stand one behind the other, each once.
func (h *HashOf) Accounts(ctx context.Context, n backend.Names) ([]string, error) {
	return h.names(n, backend.ErrNoAccount, func(b backend.Backend) ([]string, error) { return b.Accounts(ctx, backend.Names{}) })
}

// Queues implements [backend.Backend]. The members' queues stand one behind the other.
func (h *HashOf) Queues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	return h.names(n, backend.ErrNoQueue, func(b backend.Backend) ([]string, error) { return b.Queues(ctx, account, backend.Names{}) })
}

// names returns those that match of the names of all members. It asks each for all of them: a page by page
// merge would not know what an unknown marker, which begins again, is behind.
// Behind is the error if there are names, and none of them matches.
func (h *HashOf) names(
	n backend.Names, behind error, list func(backend.Backend) ([]string, error),
) ([]string, error) {
	if err := n.Check(); err != nil {
		return nil, err
	}
	var all []string
	seen := make(map[string]bool)
	for _, m := range h.members {
		names, err := list(m)
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		for _, name := range names {
			if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	if matching := n.Of(all); len(matching) > 0 {
		return matching, nil
	}
	if len(all) > 0 {
		return nil, behind
	}
	return nil, backend.ErrNoAccount
}

// DeleteAccounts implements [backend.Backend].
func (h *HashOf) DeleteAccounts(ctx context.Context, n backend.Names) ([]string, error) {
	accounts, err := h.Accounts(ctx, n)
	if err != nil {
		return nil, err
	}
	for _, account := range accounts {
		for _, m := range h.members {
			if _, err := m.DeleteQueues(ctx, account, backend.Names{}); err != nil && !errors.Is(err, backend.ErrNotFound) {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
		}
	}
	return accounts, nil
}

// DeleteQueues implements [backend.Backend].
func (h *HashOf) DeleteQueues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	queues, err := h.Queues(ctx, account, n)
	if err != nil {
		return nil, err
	}
	for _, name := range queues {
		_, err := h.DeleteMessages(ctx, backend.Queue{Account: account, Name: name}, backend.Match{Hidden: true})
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return nil, err
		}
	}
	return queues, nil
}

// found adds to an error that nothing matches what the other members know: whether the account has
// messages at all.
func (h *HashOf) found(ctx context.Context, q backend.Queue, err error) error {
	if !errors.Is(err, backend.ErrNoAccount) {
		return err
	}
	owner := h.owner(q)
	for i, m := range h.members {
		if i == owner {
			continue
		}
		if _, other := m.Queues(ctx, q.Account, backend.Names{Limit: 1}); other == nil {
			return backend.ErrNoQueue
		}
	}
	return err
}

// Messages implements [backend.Backend].
func (h *HashOf) Messages(ctx context.Context, q backend.Queue, m backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		for got, err := range h.of(q).Messages(ctx, q, m) {
			if !yield(got, h.found(ctx, q, err)) {
				return
			}
		}
	}
}

// UpdateMessages implements [backend.Backend].
func (h *HashOf) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, m backend.Match) ([]backend.Message, error) {
	list, err := h.of(q).UpdateMessages(ctx, q, to, m)
	return list, h.found(ctx, q, err)
}

// DeleteMessages implements [backend.Backend].
func (h *HashOf) DeleteMessages(ctx context.Context, q backend.Queue, m backend.Match) ([]backend.Message, error) {
	list, err := h.of(q).DeleteMessages(ctx, q, m)
	return list, h.found(ctx, q, err)
}

// Put implements [backend.Backend].
func (h *HashOf) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (bool, error) {
	return h.of(k.Queue).Put(ctx, k, body, a)
}

// Message implements [backend.Backend].
func (h *HashOf) Message(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	got, err := h.of(k.Queue).Message(ctx, k, d)
	return got, h.found(ctx, k.Queue, err)
}

// UpdateMessage implements [backend.Backend].
func (h *HashOf) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	got, err := h.of(k.Queue).UpdateMessage(ctx, k, to, d)
	return got, h.found(ctx, k.Queue, err)
}

// DeleteMessage implements [backend.Backend].
func (h *HashOf) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	got, err := h.of(k.Queue).DeleteMessage(ctx, k, d)
	return got, h.found(ctx, k.Queue, err)
}

// Ping implements [backend.Backend]: every member must answer.
func (h *HashOf) Ping(ctx context.Context) error {
	for _, m := range h.members {
		if err := m.Ping(ctx); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return nil
}

// Close implements [backend.Backend]: it closes the members.
func (h *HashOf) Close() error {
	var errs []error
	for _, m := range h.members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
