package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// retryLease is longer than any job takes.
const retryLease = time.Minute

// Retries has jobs fail some times before they are done, each time with a longer delay, and rejects some. It checks
// that none comes before its delay is over, that the server counts deliveries, and that the dead-letter queue has
// what was rejected, once.
type Retries struct {
	Jobs
	Fails   int           // a job fails 0 to so many times
	Backoff time.Duration // after the first failure; n times as long after the n-th
	Reject  int           // one of so many jobs is rejected in the end; 0: none
}

// Name returns the scenario's name.
func (Retries) Name() string { return "retries" }

// Validate reports every problem of the options.
func (s Retries) Validate() error {
	errs := []error{s.Jobs.Validate()}
	if s.Fails < 0 || s.Reject < 0 || s.Backoff < 0 {
		errs = append(errs, fmt.Errorf("fails is %d, reject %d and backoff %v, want 0 or more", s.Fails, s.Reject, s.Backoff))
	}
	return errors.Join(errs...)
}

// dead is the dead-letter queue.
func (s Retries) dead() string { return s.Queue + "_dead" }

func (s Retries) queues() []string { return []string{s.Queue, s.dead()} }

func (s Retries) run(ctx context.Context, e *Env) error {
	e.printf("retries: %d items of %d bytes that fail up to %d times, %v apart and longer, to %s: %d producers, %d consumers",
		s.Items, s.Size, s.Fails, s.Backoff, e.Server, s.Producers, s.Consumers)
	put := func(w *worker, seq uint64) error { return w.put(seq, s.Size, 0) }
	work := func(w *worker) error {
		seq, deliveries, err := w.lease(retryLease)
		if err != nil || deliveries == 0 {
			return err
		}
		fails := int(seq % uint64(s.Fails+1))
		switch {
		case deliveries <= fails:
			return w.fail(seq, time.Duration(deliveries)*s.Backoff)
		case s.Reject > 0 && seq%uint64(s.Reject) == 0:
			w.l.end(seq, true)
			return w.giveBack("reject", memcache.GetOptions{Reject: true})
		}
		return w.confirm(seq, w.asked.Add(retryLease))
	}
	check := func(w *worker) error {
		w.queue = []byte(s.dead())
		return w.bury()
	}
	return s.runJobs(ctx, e, put, work, check)
}

// fail gives a job back, to come again after a delay. It may come before the answer does.
func (w *worker) fail(seq uint64, delay time.Duration) error {
	now := time.Now()
	w.l.hidden(seq, delay, now, now)
	return w.giveBack("abort", memcache.GetOptions{Abort: true, Delay: true, DelayMillis: delay.Milliseconds()})
}

// bury takes all dead letters, which must be the jobs that were rejected, each once.
func (w *worker) bury() error {
	for more := true; more; {
		err := w.ask("get", memcache.AppendGet(nil, w.queue, memcache.GetOptions{}), func(r *memcache.Reply) error {
			switch r.Kind {
			case memcache.KindEnd:
				more = false
			case memcache.KindValue:
				w.l.buried(r.Data)
			default:
				return unexpected("get", r)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	w.l.unburied()
	return nil
}

// buried notes a dead letter.
func (l *jobLedger) buried(data []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	seq, ok := l.parse(data)
	if j := l.jobs[seq]; !ok || j == nil || !j.dead {
		l.twice++
		l.problem("the dead-letter queue has %.60q, which was not rejected, or has come before", data)
		return
	}
	l.jobs[seq].dead = false
}

// unburied counts jobs that were rejected, and that the dead-letter queue did not have.
func (l *jobLedger) unburied() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for seq, j := range l.jobs {
		if j.dead {
			l.left++
			l.problem("job %d was rejected, and is no dead letter", seq)
		}
	}
}
