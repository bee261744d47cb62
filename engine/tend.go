package engine

import (
	"slices"

	"github.com/kestrelmq/kestrel/engine/internal/runs"
)

// tend asks for everything that has been left undone. That is failed writes, items written and not recorded yet, and
// runs that could not be removed. Reads that failed for another reason than damage are tried again too.
func (s *spool) tend() {
	s.mu.Lock()
	starving := len(s.starved) > 0
	s.mu.Unlock()
	defer s.feed()
	s.tendHidden()
	s.each(func(q *queue, b *backlog) {
		b.recordDue = b.recordDue || b.unrecorded() || starving && b.unclosed()
		if b.back {
			b.back = false
			s.e.shrink(q)
			s.wantRecord(q)
		}
		if b.leaving.Count > 0 {
			s.wantSpill(q)
		}
		if b.recordDue || len(b.spent)+len(b.spentMarks) > 0 || b.marks != nil && len(b.runs) == 0 {
			s.wantRecord(q)
		}
		if b.failed != nil && !runs.IsDamage(b.failed) {
			b.failed = nil
			if q.waiters.First() != nil {
				s.e.wantFill(q)
			}
		}
	})
	for _, q := range s.all(s.queues) {
		s.lookThin(q)
	}
}

// unrecorded reports whether runs hold items that the journal still has to vouch for.
func (b *backlog) unrecorded() bool {
	n := len(b.runs)
	return n > 0 && b.runs[n-1].recorded.End != b.runs[n-1].written.End
}

// unclosed reports whether a run that grows no more is open.
func (b *backlog) unclosed() bool {
	return slices.ContainsFunc(b.runs, func(r *run) bool { return r.writer != nil && r != b.growing })
}

// tendHidden asks for what has been left undone for hidden runs, and removes the files of those that are spent.
func (s *spool) tendHidden() {
	now := s.e.precise.Now()
	s.eachHidden(func(q *queue, h *hiddenRuns) {
		s.e.spendRuns(q)
		wasteful := false
		for _, r := range h.Runs() {
			if r.Err != nil && !runs.IsDamage(r.Err) {
				h.Mend(r)
			}
			wasteful = wasteful || s.isWasteful(r, now)
		}
		if wasteful {
			s.e.wantHide(q, false)
		}
		s.e.hideMany(q)
		h.blocked = false
		s.e.readSoon(q)
		s.e.setAlarm(q)
	})
	if err := s.removeSpent(); err != nil && !s.e.journal.Failing() {
		s.e.report("delayed items: used-up files could not be removed; trying again", err) // tend tries again
	}
}

// removeSpent removes the files of spent hidden runs. That nothing lives in them is made durable before.
func (s *spool) removeSpent() error {
	s.recordMu.Lock()
	defer s.recordMu.Unlock()
	if s.e.backing.Runs.Load() {
		return nil // tend asks again
	}
	s.mu.Lock()
	spent := slices.Clone(s.spent)
	s.mu.Unlock()
	if len(spent) == 0 {
		return nil
	}
	if err := s.e.journal.Sync(s.e.journal.End()); err != nil {
		return err
	}
	var err error
	for i, f := range spent {
		s.closeReader(f)
		if err = s.dir.Remove(f.Path); err != nil {
			spent = spent[:i]
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = slices.Delete(s.spent, 0, len(spent))
	return err
}
