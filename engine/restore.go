package engine

import "github.com/kestrelmq/kestrel/engine/internal/record"

// Create makes the queue called name if it does not exist. It returns ErrClosed, ErrTooManyQueues,
// ErrTooManyChildren or ErrBadName.
func (e *Engine) Create(now Time, name []byte) (Ticket, error) {
	defer contain()
	if e.closed.Load() {
		return Ticket{}, ErrClosed
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, t, err := e.find(sh, now, name)
	return t, err
}

// Restore appends an item to the queue called name as another store had it, with its time added
// and its expiry, and gives it the queue's next id. It copies Data. Unlike Put it heeds no option
// of the queue, neither limits nor white list, and passes the item on to nobody: an alias's name is
// a queue's here, and the fanout children have items of their own. The ticket is that of a Put.
//
// It returns ErrItemTooLarge, ErrOutOfMemory, ErrOutOfDisk, ErrJournal, ErrClosed,
// ErrTooManyQueues, ErrTooManyChildren or ErrBadName, having added nothing.
func (e *Engine) Restore(now Time, name []byte, it Item) (Ticket, error) {
	defer contain()
	if err := e.admit(len(it.Data)); err != nil {
		return Ticket{}, err
	}
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	q, made, err := e.find(sh, now, name)
	if err != nil {
		return made, err
	}
	sh.targets = append(sh.targets[:0], q)
	sh.puts++
	p := PutRequest{Data: it.Data, Flags: it.Flags, Expiry: it.Expiry}
	s := Stored{Ticket: made}
	e.add(sh, now, []PutRequest{p}, it.Added, record.Destination{}, &s)
	return s.Ticket, nil
}

// NextID returns the id that the next item of the queue called name will have, 1 if it does not
// exist. Ids rise by one for each item, so it shows how many were added.
func (e *Engine) NextID(name []byte) uint64 {
	defer contain()
	sh := e.shardOf(name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if q := sh.queues[string(name)]; q != nil {
		return q.nextID
	}
	return 1
}
