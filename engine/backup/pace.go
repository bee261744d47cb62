package backup

import (
	"context"
	"io"
	"time"

	"github.com/kestrelmq/kestrel/engine"
)

// How a copy looks for its pace.
const (
	// looks is how often the copy compares the journal's syncs with what is usual. A look that finds no sync at all
	// counts after idle.
	looks = 40 * time.Millisecond
	idle  = 100 * time.Millisecond
	// watched is how long the copy watches the syncs before it begins, if there are any. That is enough for a mean.
	watched = 250 * time.Millisecond
	// tolerated is how many times longer than usual syncs may take.
	tolerated = 2
	// A copy that has clients beside it begins with firstRate bytes a second. However busy they are, it gets leastRate,
	// so that it ends. From greatestRate on nothing holds it up.
	firstRate    = 128 << 20
	leastRate    = 16 << 20
	greatestRate = 4 << 30
	// shortest is how long it is worth to sleep.
	shortest = time.Millisecond
)

// GiveWay returns a writer to w for a Stream of e. It is as fast as w while the server has little to do. When the syncs
// of the journal take more than twice as long as without the copy, it waits: clients wait for the same disk.
func GiveWay(ctx context.Context, w io.Writer, e *engine.Engine) io.Writer {
	return &pacedWriter{w: w, ctx: ctx, pace: pace{syncs: e.SyncTimes}}
}

type pacedWriter struct {
	w    io.Writer
	ctx  context.Context
	pace pace
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	if p.pace.looked.IsZero() {
		if err := p.pace.begin(func(d time.Duration) error { return sleep(p.ctx, d) }); err != nil {
			return 0, err
		}
	}
	if err := sleep(p.ctx, p.pace.next(len(b), time.Now())); err != nil {
		return 0, err
	}
	return p.w.Write(b)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// pace says when the next bytes of a copy may go. Its rate follows the journal's syncs: it falls while they take long,
// and rises while they do not.
type pace struct {
	// syncs returns how many syncs have ended, how long all of them took, and for how long one has been under way.
	syncs func() (ended int64, took, underWay time.Duration)

	usual  time.Duration // that a sync takes without the copy; 0 until there was one
	rate   float64       // bytes a second
	looked time.Time
	ended  int64         // at the last look
	took   time.Duration // likewise
	due    time.Time     // when the bytes before these have had their time
}

// begin finds out how long syncs take without the copy. If there are none, it takes no longer than idle.
func (p *pace) begin(wait func(time.Duration) error) error {
	p.ended, p.took, _ = p.syncs()
	first, before := p.ended, p.took
	for waited := time.Duration(0); waited < watched; waited += idle / 2 {
		if err := wait(idle / 2); err != nil {
			return err
		}
		p.ended, p.took, _ = p.syncs()
		if waited >= idle/2 && p.ended == first {
			break
		}
	}
	p.rate, p.usual = greatestRate, p.took/time.Duration(max(p.ended, 1)) // an idle server: as it ever was
	if n := p.ended - first; n > 0 {
		p.usual, p.rate = (p.took-before)/time.Duration(n), firstRate
	}
	p.looked = time.Now()
	p.due = p.looked
	return nil
}

// next returns how long the next n bytes have to wait.
func (p *pace) next(n int, now time.Time) time.Duration {
	if now.Sub(p.looked) >= looks {
		p.look(now)
	}
	if p.rate >= greatestRate {
		p.due = now
		return 0
	}
	if earliest := now.Add(-looks); p.due.Before(earliest) {
		p.due = earliest // what was not used is gone
	}
	wait := p.due.Sub(now)
	p.due = p.due.Add(time.Duration(float64(n) / p.rate * float64(time.Second)))
	if wait < shortest {
		return 0
	}
	return wait
}

// look changes the rate after what the syncs took since the last look.
func (p *pace) look(now time.Time) {
	ended, took, underWay := p.syncs()
	n := ended - p.ended
	var mean time.Duration
	switch {
	case underWay > tolerated*p.usual && underWay > looks:
		mean = underWay // it is as if it had ended: a sync that hangs is no idle disk
	case n > 0:
		mean = (took - p.took) / time.Duration(n)
	case now.Sub(p.looked) < idle:
		return
	}
	p.looked, p.ended, p.took = now, ended, took
	switch {
	case mean == 0:
		p.rate *= 1.5
	case p.usual == 0:
		p.usual = mean // the first sync beside the copy: what is usual is not more than this
	case mean > tolerated*p.usual:
		p.rate *= 0.8
	default:
		p.rate *= 1.25
	}
	p.rate = min(max(p.rate, leastRate), greatestRate)
}
