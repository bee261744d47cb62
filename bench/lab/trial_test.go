package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A long trial says once a minute how far it has come.
func TestReportProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTrial(t, "", 3000)
		tr.name, tr.began = "kill", time.Now()
		var log bytes.Buffer
		tr.log = &log
		ctx, stop := context.WithTimeout(t.Context(), 2*progressInterval+time.Second)
		defer stop()
		tr.more(ctx, 17)
		tr.counts.puts.Store(12)
		tr.reportProgress(ctx, progressInterval)
		const want = "kill: 2m0s: 0 trials, of 3000 cycles 17 done; 12 puts and 0 removals acknowledged"
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[1], want) {
			t.Errorf("after two minutes the log is %q, want two lines, the last %q", lines, want)
		}
	})
}

// Two labs that run at the same time have directories of their own, which say what they are for.
func TestTrialDirectories(t *testing.T) {
	a, b := newTestTrial(t, "", 1), newTestTrial(t, "", 1)
	if a.dir == b.dir || !strings.Contains(a.dir, "kestrel-lab-test-") {
		t.Errorf("directories are %s and %s", a.dir, b.dir)
	}
}

// What is seen broken before a trial is interrupted counts, and nothing behind that: an interrupt
// kills servers too.
func TestViolateInterrupted(t *testing.T) {
	tr := newTestTrial(t, "", 1)
	ctx, stop := context.WithCancel(t.Context())
	tr.stopped = ctx.Err
	tr.violate("seen")
	stop()
	tr.violate("the server has ended")
	if got := tr.violations(); len(got) != 1 || got[0] != "seen" {
		t.Errorf("violations = %q, want the one before the interrupt", got)
	}
}
