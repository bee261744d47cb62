package backends

import (
	"context"
	"iter"

	"github.com/kestrelmq/kestrel/client/backend"
)

// bound is a back end that takes account "" for one of its own.
type bound struct {
	backend.Backend
	account string
}

func (b *bound) queue(q backend.Queue) backend.Queue {
	if q.Account == "" {
		q.Account = b.account
	}
	return q
}

func (b *bound) key(k backend.Key) backend.Key {
	k.Queue = b.queue(k.Queue)
	return k
}

func (b *bound) Queues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	return b.Backend.Queues(ctx, b.queue(backend.Queue{Account: account}).Account, n)
}

func (b *bound) DeleteQueues(ctx context.Context, account string, n backend.Names) ([]string, error) {
	return b.Backend.DeleteQueues(ctx, b.queue(backend.Queue{Account: account}).Account, n)
}

func (b *bound) Messages(ctx context.Context, q backend.Queue, m backend.Match) iter.Seq2[backend.Message, error] {
	return b.Backend.Messages(ctx, b.queue(q), m)
}

func (b *bound) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, m backend.Match) ([]backend.Message, error) {
	return b.Backend.UpdateMessages(ctx, b.queue(q), to, m)
}

func (b *bound) DeleteMessages(ctx context.Context, q backend.Queue, m backend.Match) ([]backend.Message, error) {
	return b.Backend.DeleteMessages(ctx, b.queue(q), m)
}

func (b *bound) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (bool, error) {
	return b.Backend.Put(ctx, b.key(k), body, a)
}

func (b *bound) Message(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return b.Backend.Message(ctx, b.key(k), d)
}

func (b *bound) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	return b.Backend.UpdateMessage(ctx, b.key(k), to, d)
}

func (b *bound) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return b.Backend.DeleteMessage(ctx, b.key(k), d)
}
