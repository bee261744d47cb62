package engine

import (
	"cmp"
	"context"
	"time"
)

// Queue is a handle on the queue of one name, for programs that use the engine as a library. Its methods wait until
// what they did is committed by the queue's SyncPolicy; they may be called from any goroutine. A handle stays valid
// when its queue is deleted: the next Put or fetch makes a new one.
type Queue struct {
	e    *Engine
	name []byte
}

// Queue returns a handle on the queue called name, which comes into being when it is first used. It returns ErrBadName.
func (e *Engine) Queue(name string) (*Queue, error) {
	if err := ValidateName(name); err != nil {
		return nil, err
	}
	return &Queue{e, []byte(name)}, nil
}

// Name returns the queue's name.
func (q *Queue) Name() string { return string(q.name) }

// PutOptions are what a put may say about an item. The zero value says nothing.
type PutOptions struct {
	Flags  uint32    // kept and handed out with the item
	Expiry time.Time // zero: never

	Delay       time.Duration // hides the item for so long
	Key         string        // of the item, unless it is empty; see [ValidateKey]
	OnDuplicate Duplicate     // what to do if an item has the key, or none has; the zero value overwrites
}

// Put appends an item, and to the queue's fanout children too. It copies data. When it returns nil the item is as safe
// as the queue's SyncPolicy makes it. For the errors of a refused item see [Engine.Put]; an error that wraps ErrJournal
// means that it is not known whether the item survives.
func (q *Queue) Put(data []byte, opts PutOptions) error {
	p := PutRequest{Data: data, Flags: opts.Flags, Expiry: At(opts.Expiry)}
	if opts.Delay != 0 || opts.Key != "" || opts.OnDuplicate != Overwrite {
		p.Extra = &PutExtra{Delay: opts.Delay, OnDuplicate: opts.OnDuplicate}
		if opts.Key != "" {
			p.Extra.Key = []byte(opts.Key)
		}
	}
	t, err := q.e.Put(Now(), q.name, p)
	return cmp.Or(q.e.Commit(t), err)
}

// Get removes the oldest item for good and returns it, waiting for one until ctx is done. The item's Data belongs to
// the caller. Get returns the error of ctx, ErrDeleted if the queue was deleted meanwhile, and ErrClosed. For an
// alias it returns ErrEmpty at once. With an error that wraps ErrJournal it returns the item too, which may then come
// back after a crash.
func (q *Queue) Get(ctx context.Context) (Item, error) {
	it, _, err := q.fetch(ctx, FetchRequest{Access: Take})
	return it, err
}

// TryGet is Get without waiting: it returns ErrEmpty if there is no item.
func (q *Queue) TryGet() (Item, error) {
	it, _, err := q.tryFetch(FetchRequest{Access: Take})
	return it, err
}

// Peek returns the oldest item and leaves it in the queue. It returns ErrEmpty if there is none.
// The item's Data belongs to the caller.
func (q *Queue) Peek() (Item, error) {
	it, _, err := q.tryFetch(FetchRequest{Access: Peek})
	return it, err
}

// Read is an item that has been fetched tentatively. Until Confirm or Abort ends it, nobody else
// gets the item; when the process ends, it is back in its place.
type Read struct {
	Item Item // Data belongs to the caller
	e    *Engine
	ref  ReadRef
}

// Open fetches the oldest item tentatively, waiting for one until ctx is done. Its errors are those of Get.
func (q *Queue) Open(ctx context.Context) (*Read, error) {
	return q.opened(q.fetch(ctx, FetchRequest{Access: OpenRead}))
}

// TryOpen is Open without waiting: it returns ErrEmpty if there is no item.
func (q *Queue) TryOpen() (*Read, error) {
	return q.opened(q.tryFetch(FetchRequest{Access: OpenRead}))
}

// opened returns the read of an item that was fetched tentatively. If the put of the item cannot be committed,
// nobody gets the read, and the item goes back as if nobody had.
func (q *Queue) opened(it Item, ref ReadRef, err error) (*Read, error) {
	if err != nil {
		q.e.Return(Now(), []ReadRef{ref}, Return{How: Release}) // it may be none
		return nil, err
	}
	return &Read{it, q.e, ref}, nil
}

// Confirm removes the item for good. It returns ErrReadEnded if the read has ended before.
func (r *Read) Confirm() error {
	t, ok := r.e.Confirm(Now(), r.ref)
	if !ok {
		return ErrReadEnded
	}
	return r.e.Commit(t)
}

// Abort brings the item back to the head of the queue. It returns ErrReadEnded if the read has ended before.
func (r *Read) Abort() error {
	if !r.e.Abort(Now(), r.ref) {
		return ErrReadEnded
	}
	return nil
}

// Flush removes every item that is queued; open reads stay.
func (q *Queue) Flush() error {
	t, err := q.e.Flush(Now(), q.name, "")
	if err != nil {
		return err
	}
	return q.e.Commit(t)
}

// FlushExpired removes expired items from the head and returns how many.
func (q *Queue) FlushExpired() (int64, error) {
	n, t, err := q.e.FlushingExpired(q.name).finish(Now())
	if err != nil {
		return n, err
	}
	return n, q.e.Commit(t)
}

// Delete removes the queue with all its items, also those in open reads.
func (q *Queue) Delete() error {
	_, t, err := q.e.Deleting(q.name).finish(Now())
	if err != nil {
		return err
	}
	return q.e.Commit(t)
}

// Stats describes the queue; ok is false if it does not exist.
func (q *Queue) Stats() (s QueueStats, ok bool) { return q.e.QueueStats(Now(), q.name) }

// copied is a Receiver that keeps a copy.
type copied struct{ item Item }

func (c *copied) Receive(it Item) bool {
	c.item = it.Clone()
	return true
}

// wakeUp is a Notifier for a goroutine that waits on a channel of capacity 1.
type wakeUp chan struct{}

func (c wakeUp) WaitEnded(*Waiter) { c <- struct{}{} }

func (q *Queue) tryFetch(request FetchRequest) (Item, ReadRef, error) {
	var got copied
	f, err := q.e.Fetch(Now(), q.name, request, &got)
	if err == ErrComing {
		request.Immediate = true
		return q.fetch(context.Background(), request)
	}
	if err != nil {
		return Item{}, ReadRef{}, err
	}
	return got.item, f.Read, q.e.Commit(f.Ticket)
}

// fetch waits for an item, or if the request is immediate only for one that is on its way from disk.
func (q *Queue) fetch(ctx context.Context, request FetchRequest) (it Item, ref ReadRef, err error) {
	for {
		it, ref, err = q.wait(ctx, request)
		if err != ErrReadEnded {
			return it, ref, err
		}
		// The item was there, and was back in the queue before it was collected: wait again.
	}
}

func (q *Queue) wait(ctx context.Context, request FetchRequest) (Item, ReadRef, error) {
	if err := ctx.Err(); err != nil {
		return Item{}, ReadRef{}, err
	}
	var got copied
	woken := make(wakeUp, 1)
	w := &Waiter{Notify: woken}
	request.Waiter = w
	f, err := q.e.Fetch(Now(), q.name, request, &got)
	switch {
	case err == nil:
		return got.item, f.Read, q.e.Commit(f.Ticket)
	case !f.Waiting:
		return Item{}, ReadRef{}, err
	}
	select {
	case <-woken:
	case <-ctx.Done():
		if q.e.CancelWait(w) {
			return Item{}, ReadRef{}, ctx.Err()
		}
		<-woken // an item came at the same moment: it must not be lost
	}
	if w.Read.IsZero() {
		return Item{}, ReadRef{}, w.Err
	}
	t, ok := q.e.Collect(Now(), w.Read, request, &got)
	if !ok {
		return Item{}, ReadRef{}, ErrReadEnded
	}
	return got.item, w.Read, q.e.Commit(t)
}

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
