package engine

import "slices"

// holdersBatch is how many leases, or open reads, are looked at with a shard locked.
const holdersBatch = 1024

// OldestOpen returns when the read was opened that is the first of refs to be still open; zero if all have ended. refs
// are reads of one queue, in the order in which they were opened.
func (e *Engine) OldestOpen(refs []ReadRef) Time {
	defer contain()
	if len(refs) == 0 || refs[0].IsZero() {
		return 0
	}
	sh := refs[0].r.shard
	for piece := range slices.Chunk(refs, holdersBatch) {
		if at := sh.firstOpen(piece); at > 0 {
			return at
		}
	}
	return 0
}

// firstOpen is OldestOpen of a piece.
func (sh *shard) firstOpen(refs []ReadRef) Time {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, ref := range refs {
		if ref.live() && ref.r.state == readOpen {
			return ref.r.opened
		}
	}
	return 0
}

// Client is who takes leases, as far as that is known.
type Client struct {
	Connection uint64 // its number; zero: leases of several connections count together
	Peer       string
	Protocol   string
	ClientID   string
	User       string
}

// Held is what one client has leased of a queue.
type Held struct {
	Client
	Leases int
	Oldest Time // when the first of them was taken
}

// Holders returns the clients that have leases on the queue called name, in no order: those that count for a Holder.
// The clients may have gone. It looks at every lease, some at a time.
func (e *Engine) Holders(name []byte) []Held {
	defer contain()
	sh, q := e.lockQueue(name)
	defer sh.mu.Unlock()
	if q == nil || q.aside == nil {
		return nil
	}
	byHolder := make(map[*Holder]*Held)
	seen := 0
	for _, l := range q.aside.holders { // the map may change while the shard is unlocked, as range allows
		h := byHolder[l.holder]
		if h == nil {
			h = &Held{Client: l.holder.Client, Oldest: l.taken}
			byHolder[l.holder] = h
		}
		h.Leases++
		h.Oldest = min(h.Oldest, l.taken)
		if seen++; seen%holdersBatch == 0 {
			sh.mu.Unlock()
			sh.mu.Lock()
			if q.deleted || q.aside == nil {
				break
			}
		}
	}
	list := make([]Held, 0, len(byHolder))
	for _, h := range byHolder {
		list = append(list, *h)
	}
	return list
}
