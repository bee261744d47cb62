package spread

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/client/backend"
)

// Options configure a [Failover]. The zero Options are good for most.
type Options struct {
	// Probe is how long a member that failed is left alone between two probes.
	Probe client.Backoff
	// Logger takes what an operator should know: members that fail, and come back. Nil discards it.
	Logger *slog.Logger
}

const (
	probeWithin = 3 * time.Second // that a member has to answer a probe
	waitPiece   = 5 * time.Second // of a wait at a member that is not the first
)

// Member is a back end with a name for messages.
type Member struct {
	Name string
	backend.Backend
}

// FailoverOf is a back end of several members of which the first that answers is asked. Make it with
// [Failover].
type FailoverOf struct {
	opts    Options
	members []*member
	ctx     context.Context // ends with Close
	cancel  context.CancelCauseFunc
	probes  sync.WaitGroup
	mu      sync.Mutex // guards down of all members, and that no probe begins after Close
}

type member struct {
	Member
	down  bool      // and probed
	rose  time.Time // when it answered again last
	tries int       // probes without a longer time in between in which it was well; its probe's while it is down
}

// Failover returns a back end of members, the preferred one first. It closes them with itself.
func Failover(members []Member, o Options) *FailoverOf {
	if o.Probe == (client.Backoff{}) {
		o.Probe = client.Backoff{First: 50 * time.Millisecond, Most: 5 * time.Second}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	f := &FailoverOf{opts: o}
	for _, m := range members {
		f.members = append(f.members, &member{Member: m})
	}
	f.ctx, f.cancel = context.WithCancelCause(context.Background())
	return f
}

// Close implements [backend.Backend]: it closes the members.
func (f *FailoverOf) Close() error {
	f.mu.Lock()
	f.cancel(backend.ErrClosed)
	f.mu.Unlock()
	f.probes.Wait()
	var errs []error
	for _, m := range f.members {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// order returns the members to ask: those that answer, and behind them those that are down, for want of
// better ones.
func (f *FailoverOf) order() (all []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, down := range []bool{false, true} {
		for _, m := range f.members {
			if m.down == down {
				all = append(all, m)
			}
		}
	}
	return all
}

// elsewhere reports whether err lets another member be asked.
func elsewhere(err error) bool {
	return errors.Is(err, backend.ErrUnavailable) && !errors.Is(err, backend.ErrUnknownOutcome)
}

// ask calls do with one member after the other until one answers.
func (f *FailoverOf) ask(ctx context.Context, do func(m *member, first bool) error) (err error) {
	for _, m := range f.order() {
		if f.ctx.Err() != nil {
			return backend.ErrClosed
		}
		if err = do(m, m == f.members[0]); !elsewhere(err) || ctx.Err() != nil {
			return err
		}
		f.failed(m, err)
	}
	return err
}

// failed notes that m cannot be reached, and probes it from now on.
func (f *FailoverOf) failed(m *member, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.down || f.ctx.Err() != nil {
		return
	}
	m.down = true
	if time.Since(m.rose) > f.opts.Probe.Most { // else it answers probes, and nothing else
		m.tries = 0
	}
	f.opts.Logger.Warn("a member cannot be reached; the next one is asked", "member", m.Name, "error", err)
	f.probes.Go(func() { f.probe(m) })
}

// probe asks m from time to time until it answers.
func (f *FailoverOf) probe(m *member) {
	for {
		m.tries++
		timer := time.NewTimer(f.opts.Probe.After(m.tries))
		select {
		case <-timer.C:
		case <-f.ctx.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(f.ctx, probeWithin)
		err := m.Ping(ctx)
		cancel()
		if err == nil {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.down, m.rose = false, time.Now()
	f.opts.Logger.Info("a member answers again", "member", m.Name)
}

// waiting is ask for a request that may wait. A wait at a member that is not the first is cut into pieces,
// because the first may come back.
func (f *FailoverOf) waiting(ctx context.Context, match backend.Match, do func(m *member, match backend.Match) error) error {
	if err := match.Check(); err != nil {
		return err
	}
	deadline := time.Now().Add(min(match.Wait, backend.LongestWait))
	for {
		left := time.Until(deadline)
		cut, began := false, time.Time{}
		err := f.ask(ctx, func(m *member, first bool) error {
			piece := match
			piece.Wait = max(left, 0)
			if cut = !first && left > waitPiece; cut {
				piece.Wait, began = waitPiece, time.Now()
			}
			return do(m, piece)
		})
		if !cut || !errors.Is(err, backend.ErrNotFound) || time.Since(began) < waitPiece/2 {
			return err // or the member does not wait any more: it stops, say
		}
	}
}

// names asks for names.
func (f *FailoverOf) names(ctx context.Context, list func(*member) ([]string, error)) (names []string, err error) {
	err = f.ask(ctx, func(m *member, _ bool) (err error) {
		names, err = list(m)
		return err
	})
	return names, err
}

// Accounts implements [backend.Backend].
func (f *FailoverOf) Accounts(ctx context.Context, n backend.Names) ([]string, error) {
	return f.names(ctx, func(m *member) ([]string, error) { return m.Accounts(ctx, n) })
}

// DeleteAccounts implements [backend.Backend].
func (f *FailoverOf) DeleteAccounts(ctx context.Context, n backend.Names) ([]string, error) {
	return f.names(ctx, func(m *member) ([]string, error) { return m.DeleteAccounts(ctx, n) })
}

// Queues implements [backend.Backend].
func (f *FailoverOf) Queues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	return f.names(ctx, func(m *member) ([]string, error) { return m.Queues(ctx, account, n) })
}

// DeleteQueues implements [backend.Backend].
func (f *FailoverOf) DeleteQueues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	return f.names(ctx, func(m *member) ([]string, error) { return m.DeleteQueues(ctx, account, n) })
}

// Messages implements [backend.Backend]. A list that has begun stays with its member.
func (f *FailoverOf) Messages(ctx context.Context, q backend.Queue, match backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		begun := false
		err := f.waiting(ctx, match, func(m *member, match backend.Match) error {
			for got, err := range m.Messages(ctx, q, match) {
				if err != nil && !begun {
					return err
				}
				begun = true
				if !yield(got, err) || err != nil {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			yield(backend.Message{}, err)
		}
	}
}

// UpdateMessages implements [backend.Backend].
func (f *FailoverOf) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, match backend.Match) (list []backend.Message, err error) {
	err = f.waiting(ctx, match, func(m *member, match backend.Match) (err error) {
		list, err = m.UpdateMessages(ctx, q, to, match)
		return err
	})
	return list, err
}

// DeleteMessages implements [backend.Backend].
func (f *FailoverOf) DeleteMessages(ctx context.Context, q backend.Queue, match backend.Match) (list []backend.Message, err error) {
	err = f.waiting(ctx, match, func(m *member, match backend.Match) (err error) {
		list, err = m.DeleteMessages(ctx, q, match)
		return err
	})
	return list, err
}

// Put implements [backend.Backend].
func (f *FailoverOf) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (created bool, err error) {
	err = f.ask(ctx, func(m *member, _ bool) (err error) {
		created, err = m.Put(ctx, k, body, a)
		return err
	})
	return created, err
}

// one asks about one message.
func (f *FailoverOf) one(ctx context.Context, do func(*member) (backend.Message, error)) (got backend.Message, err error) {
	err = f.ask(ctx, func(m *member, _ bool) (err error) {
		got, err = do(m)
		return err
	})
	return got, err
}

// Message implements [backend.Backend].
func (f *FailoverOf) Message(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return f.one(ctx, func(m *member) (backend.Message, error) { return m.Message(ctx, k, d) })
}

// UpdateMessage implements [backend.Backend].
func (f *FailoverOf) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	return f.one(ctx, func(m *member) (backend.Message, error) { return m.UpdateMessage(ctx, k, to, d) })
}

// DeleteMessage implements [backend.Backend].
func (f *FailoverOf) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return f.one(ctx, func(m *member) (backend.Message, error) { return m.DeleteMessage(ctx, k, d) })
}

// Ping implements [backend.Backend]: one member that answers is enough.
func (f *FailoverOf) Ping(ctx context.Context) error {
	return f.ask(ctx, func(m *member, _ bool) error { return m.Ping(ctx) })
}
