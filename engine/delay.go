package engine

import (
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/aside"
)

// PutExtra is what few puts ask for.
type PutExtra struct {
	// Delay hides the item for so long; zero does not. An item that expires meanwhile leaves when it
	// comes into line.
	Delay time.Duration
}

// addDelayed is add for an item that is hidden at first.
func (e *Engine) addDelayed(sh *shard, p *PutRequest, added Time, s *Stored) {
	due := e.dueIn(p.Extra.Delay)
	it := Item{Data: p.Data, Flags: p.Flags, Added: added, Expiry: p.Expiry}
	var (
		lsn     LSN
		segment uint64
	)
	if len(sh.to) > 0 {
		lsn, segment = e.journal.PutDelayed(sh.to, it, due)
	}
	for _, q := range sh.targets {
		it.ID = q.nextID
		q.nextID++
		if q.items() == 0 {
			q.lastGone = 0
		}
		q.counters.puts++
		q.counters.putBytes += int64(len(it.Data))
		entry := aside.Entry{State: aside.Delayed, Due: due}
		if !q.opts.KeepJournal {
			e.setAside(q, it, 0, entry)
			continue
		}
		e.setAside(q, it, segment, entry)
		q.notePut(e.journal, it.ID, lsn)
		s.Ticket = s.Ticket.Merge(q.ticket(e.journal, lsn))
	}
}
