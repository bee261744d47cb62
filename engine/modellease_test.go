package engine

import (
	"fmt"
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// modelHolder is a client that leases count for, of the engine at hand.
type modelHolder struct {
	*Holder
	e *Engine
}

// leaseRead turns an open read, or one that has ended, into a lease with a receipt.
func (r *modelRun) leaseRead(read *modelRead) {
	var h *Holder
	if i := r.IntN(3); i < 2 {
		if r.holders[i].e != r.e {
			r.holders[i] = modelHolder{new(Holder), r.e}
		}
		h = r.holders[i].Holder
	}
	d := r.instant(3000)
	r.op = fmt.Sprintf("lease item %d of %q, which is open", read.item.ID, read.q.name)
	ticket, receipts := r.e.LeaseReads(r.now, []ReadRef{read.ref}, d, h, nil)
	if len(receipts) != 1 || receipts[0] == 0 || int64(receipts[0]) < 0 {
		r.fail("receipts %d, want one above 0", receipts)
		return
	}
	r.receipts = append(r.receipts, modelReceipt{read.q.name, receipts[0]})
	if !r.m.end(read) || read.copied {
		r.maybeCommit(ticket)
		return
	}
	if most := read.q.opts.OpenReadTimeout; most > 0 {
		d = min(d, most)
	}
	read.q.leaseRead(read.modelItem, r.now.After(d), receipts[0]).holder = h
	r.maybeCommit(ticket)
}

// endLeases confirms several leases of a queue at once, or gives their items back.
func (r *modelRun) endLeases() {
	name := r.receipts[r.IntN(len(r.receipts))].name
	receipts := []uint64{1} // nobody has that
	for n := r.IntN(4); len(receipts) <= n; {
		if at := r.receipts[r.IntN(len(r.receipts))]; at.name == name || r.IntN(4) == 0 {
			receipts = append(receipts, at.token)
		}
	}
	q := r.m.find(name)
	held := func(lapsed bool) (all []*modelAside) {
		if q == nil {
			return nil
		}
		r.m.wake(q, r.now)
		for _, a := range q.aside { // by id
			if a.token != 0 && slices.Contains(receipts, a.token) && (lapsed || a.state == aside.Leased) {
				all = append(all, a)
			}
		}
		return all
	}
	var ticket Ticket
	var err, wantErr error
	ended, want := 0, 0
	switch r.IntN(2) {
	case 0:
		r.op = fmt.Sprintf("confirm %d leases of %q", len(receipts), name)
		ticket, ended, err = r.e.ConfirmLeases(r.now, []byte(name), receipts)
		for _, a := range held(true) {
			q.dropAside(a)
			want++
		}
	default:
		how := r.how()
		if how.How == Lost {
			how.How = Abort
		}
		r.op = fmt.Sprintf("return %d leases of %q %+v", len(receipts), name, how)
		ticket, ended, err = r.e.ReturnLeases(r.now, []byte(name), receipts, how)
		all := held(false)
		if q != nil && q.usesSide && q.refusesDelay(how.Delay) {
			all, wantErr = nil, ErrDelayTooLong
		}
		for _, a := range all {
			r.m.returnLeased(q, a, r.now, how)
			want++
		}
		if want > 0 {
			r.m.serveWaiters(q, r.now)
		}
	}
	if r.m.finishMoves(r.now); err != wantErr || ended != want {
		r.fail("%d leases, error %v, want %d, %v", ended, err, want, wantErr)
	}
	r.maybeCommit(ticket)
}

// compareHolders checks what clients are said to hold.
func (r *modelRun) compareHolders() {
	for _, h := range r.holders {
		if h.Holder == nil || h.e != r.e {
			continue
		}
		want := 0
		for _, q := range r.m.queues {
			for _, a := range q.aside {
				if a.holder == h.Holder && a.state == aside.Leased {
					want++
				}
			}
		}
		if got := h.Leases(); got != want {
			r.fail("a client has %d leases, want %d", got, want)
		}
	}
	var leased int64
	for i := range r.e.shards {
		for _, q := range r.e.shards[i].queues {
			if q.aside != nil {
				t := q.aside.Tally(aside.Leased)
				leased += t.Count*leaseSize + t.Bytes
			}
		}
	}
	if got := r.e.leased.Load(); got != leased {
		r.fail("leases take %d bytes, want %d", got, leased)
	}
}
