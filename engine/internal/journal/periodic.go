package journal

import "time"

// SyncWithin asks for a sync of what has been appended within d, which is above 0, from now.
func (j *Journal) SyncWithin(d time.Duration) { j.syncBy(int64(time.Since(j.epoch) + d)) }

// syncDue makes durable what waits for a periodic sync. It forgets first what is due, even if
// another sync has covered that meanwhile. While something overdue is noted, no write asks for the
// next sync. Callers that relied on it had appended before.
func (j *Journal) syncDue() error {
	due, before := j.dueAt.Swap(0), j.synced.Load()
	if err := j.Sync(j.End()); err != nil {
		j.syncBy(due)
		return err
	}
	if due != 0 && j.synced.Load() > before {
		j.syncs.countLate(time.Since(j.epoch) - time.Duration(due))
	}
	return nil
}

// retrySync is how long SyncPeriodically waits before it tries a sync again that failed.
const retrySync = 100 * time.Millisecond

// SyncPeriodically syncs, until stop is closed, when the oldest write that waits for a periodic sync is due.
func (j *Journal) SyncPeriodically(stop <-chan struct{}) {
	timer, asked := time.NewTimer(time.Hour), j.due
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-asked:
		case <-timer.C:
		}
		asked = j.due
		due := time.Duration(j.dueAt.Load())
		if due == 0 {
			continue
		}
		if wait := due - time.Since(j.epoch); wait > 0 {
			timer.Reset(wait)
			continue
		}
		if j.syncDue() != nil { // Failure says why
			asked = nil // until then
			timer.Reset(retrySync)
		}
	}
}
