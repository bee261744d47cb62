package engine

import (
	"context"
	"time"
)

// Leased is an item that its holder has for some time, and then nobody has: it comes back by itself. The receipt ends
// the lease from anywhere, also after a restart; see [Queue.Leased].
type Leased struct {
	Item     Item // Data belongs to the caller
	Delivery      // the receipt, when the lease lapses, and how often the item was delivered
	q        *Queue
}

// Lease leases the oldest item for d, waiting for one until ctx is done. A d of DefaultLease stands for what the
// queue's options say. Its errors are those of Get, ErrBadLease and ErrNoLease.
func (q *Queue) Lease(ctx context.Context, d time.Duration) (*Leased, error) {
	l := &Leased{q: q}
	it, _, err := q.fetch(ctx, FetchRequest{Access: Lease, Lease: d, Delivery: &l.Delivery})
	return l.holding(it, err)
}

// TryLease is Lease without waiting: it returns ErrEmpty if there is no item.
func (q *Queue) TryLease(d time.Duration) (*Leased, error) {
	l := &Leased{q: q}
	it, _, err := q.tryFetch(FetchRequest{Access: Lease, Lease: d, Delivery: &l.Delivery})
	return l.holding(it, err)
}

// holding returns the lease of an item. If the lease cannot be committed, nobody gets it, and the item goes back.
func (l *Leased) holding(it Item, err error) (*Leased, error) {
	if err != nil {
		if l.Receipt != 0 {
			l.q.e.ReturnLease(Now(), l.q.name, l.Receipt, Return{How: Release})
		}
		return nil, err
	}
	l.Item = it
	return l, nil
}

// Leased returns the lease that a receipt holds, without its item, for programs that keep receipts. It looks at nothing:
// if the receipt is stale, the methods of the lease say so.
func (q *Queue) Leased(receipt uint64) *Leased {
	return &Leased{Delivery: Delivery{Receipt: receipt}, q: q}
}

// Confirm removes the item for good. It returns ErrNotHeld if the lease has ended, or has lapsed and somebody else has
// the item.
func (l *Leased) Confirm() error {
	t, err := l.q.e.ConfirmLease(Now(), l.q.name, l.Receipt)
	if err != nil {
		return err
	}
	return l.q.e.Commit(t)
}

// Extend has the lease end d from now, however long it was, and sets Due. It returns ErrNotHeld if the lease has ended
// or lapsed.
func (l *Leased) Extend(d time.Duration) error {
	due, t, err := l.q.e.ExtendLease(Now(), l.q.name, l.Receipt, d)
	if err != nil {
		return err
	}
	l.Due = due
	return l.q.e.Commit(t)
}

// Return gives the item back: an Abort counts as a delivery, a Release does not, a Reject sends the item to the
// dead-letter queue. It returns ErrNotHeld if the lease has ended or lapsed, and ErrDelayTooLong.
func (l *Leased) Return(how Return) error {
	t, err := l.q.e.ReturnLease(Now(), l.q.name, l.Receipt, how)
	if err != nil {
		return err
	}
	return l.q.e.Commit(t)
}
