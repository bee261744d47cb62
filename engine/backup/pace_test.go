package backup

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// modelDisk is a disk whose syncs take longer the more is copied to it meanwhile.
type modelDisk struct {
	alone time.Duration // that a sync takes without a copy
	every time.Duration // between two syncs; 0: nobody syncs
	speed float64       // bytes of the copy a second that double a sync
	stuck time.Duration // for so long a sync has been under way

	now    time.Time
	synced time.Time
	ended  int64
	took   time.Duration
	copied int // since the last sync
}

func (d *modelDisk) SyncTimes() (int64, time.Duration, time.Duration) {
	return d.ended, d.took, d.stuck
}

// advance lets time pass.
func (d *modelDisk) advance(by time.Duration) {
	d.now = d.now.Add(by)
	for d.every > 0 && d.now.Sub(d.synced) >= d.every {
		load := float64(d.copied) / d.every.Seconds() / d.speed
		d.synced = d.synced.Add(d.every)
		d.ended++
		d.took += d.alone + time.Duration(load*float64(d.alone))
		d.copied = 0
	}
}

// copyFor copies for a while, at the pace p or at the 1 GB/s of this disk, and returns the bytes a second.
func (d *modelDisk) copyFor(p *pace, long time.Duration) float64 {
	const piece = 64 << 10
	n, end := 0, d.now.Add(long)
	for d.now.Before(end) {
		d.advance(p.next(piece, d.now))
		d.advance(piece * time.Nanosecond)
		d.copied += piece
		n += piece
	}
	return float64(n) / long.Seconds()
}

func (d *modelDisk) begin(t *testing.T) *pace {
	t.Helper()
	p := &pace{syncs: d.SyncTimes}
	if err := p.begin(func(by time.Duration) error { d.advance(by); return nil }); err != nil {
		t.Fatal(err)
	}
	p.looked, p.due = d.now, d.now
	return p
}

// TestPace copies beside syncs that become slower, the faster the copy is. With a pace they take about twice as long as
// alone, and not longer. When they end, the copy goes at full speed.
func TestPace(t *testing.T) {
	for _, speed := range []float64{40e6, 100e6, 400e6} {
		d := &modelDisk{alone: time.Millisecond, every: 5 * time.Millisecond, speed: speed, now: time.Unix(1e9, 0)}
		d.synced = d.now
		p := d.begin(t)
		d.copyFor(p, 2*time.Second) // it finds its pace
		ended, took := d.ended, d.took
		got := d.copyFor(p, 10*time.Second)
		mean := (d.took - took) / time.Duration(d.ended-ended)
		if got < 0.7*speed || got > 1.3*speed || mean > 5*d.alone/2 {
			t.Errorf("%.0f MB/s double a sync: the copy has %.0f MB/s, and a sync takes %v", speed/1e6, got/1e6, mean)
		}
		d.every = 0
		d.copyFor(p, 2*time.Second)
		if got := d.copyFor(p, time.Second); got < 0.9e9 {
			t.Errorf("without syncs the copy has %.0f MB/s", got/1e6)
		}
	}
}

// TestPaceIdle begins a copy where nobody syncs. It has full speed at once, until somebody does.
func TestPaceIdle(t *testing.T) {
	d := &modelDisk{alone: time.Millisecond, speed: 50e6, now: time.Unix(1e9, 0), ended: 100, took: 100 * time.Millisecond}
	p := d.begin(t)
	if waited := d.now.Sub(time.Unix(1e9, 0)); waited > idle {
		t.Errorf("the copy watched for %v", waited)
	}
	if got := d.copyFor(p, time.Second); got < 0.99e9 {
		t.Errorf("the copy has %.0f MB/s", got/1e6)
	}
	d.every, d.synced = 5*time.Millisecond, d.now
	d.copyFor(p, 2*time.Second)
	if got := d.copyFor(p, 2*time.Second); got > 100e6 {
		t.Errorf("beside syncs the copy has %.0f MB/s", got/1e6)
	}
}

// TestPaceStuckSync has a sync that does not end. The copy goes slowly then, and does go.
func TestPaceStuckSync(t *testing.T) {
	d := &modelDisk{alone: time.Millisecond, every: 5 * time.Millisecond, speed: 1e9, now: time.Unix(1e9, 0)}
	d.synced = d.now
	p := d.begin(t)
	d.copyFor(p, time.Second)
	d.every, d.stuck = 0, 10*time.Second
	d.copyFor(p, time.Second)
	if got := d.copyFor(p, time.Second); got < 0.9*leastRate || got > 1.1*leastRate {
		t.Errorf("beside a sync that hangs the copy has %.1f MiB/s, want %d", got/(1<<20), leastRate>>20)
	}
}

// TestPacedWriterEnds ends the context of a writer that waits for its pace.
func TestPacedWriterEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := int64(0)
		var out bytes.Buffer
		w := &pacedWriter{w: &out, ctx: ctx, pace: pace{syncs: func() (int64, time.Duration, time.Duration) {
			ended++
			return ended, time.Duration(ended) * time.Millisecond, 0
		}}}
		piece := make([]byte, 64<<20)
		if _, err := w.Write(piece); err != nil || out.Len() != len(piece) {
			t.Fatalf("Write = %v", err)
		}
		time.AfterFunc(100*time.Millisecond, cancel)
		began := time.Now()
		for range 10 {
			if _, err := w.Write(piece); err != nil {
				if took := time.Since(began); !errors.Is(err, context.Canceled) || took != 100*time.Millisecond {
					t.Errorf("Write = %v after %v", err, took)
				}
				return
			}
		}
		t.Error("the writer goes on")
	})
}
