package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// What may be garbage beside what lives: some megabytes, or a fifth.
func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 200},
		{4 * mib, 200}, // up to here the runtime takes it for 4 MiB
		{8 * mib, 100},
		{32 * mib, 25},
		{40 * mib, gcPercent},
		{4096 * mib, gcPercent},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("percentFor(%d MiB) = %d, want %d", c.live/mib, got, c.want)
		}
	}
}

// Each collection decides when the next one is due. Without the cleanup in adjust, the test does not
// end.
func TestPacerFollowsTheHeap(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	newPacer().adjust()
	collectUntil := func(what string, ok func(percent uint64) bool) {
		t.Helper()
		percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		for metrics.Read(percent); !ok(percent[0].Value.Uint64()); metrics.Read(percent) {
			runtime.GC()
		}
		t.Logf("%s: %d %%", what, percent[0].Value.Uint64())
	}
	collectUntil("small heap", func(p uint64) bool { return p > gcPercent })
	large := make([]byte, 100<<20)
	collectUntil("large heap", func(p uint64) bool { return p == gcPercent })
	runtime.KeepAlive(large)
	collectUntil("small heap again", func(p uint64) bool { return p > gcPercent })
}

// TestQuiet tests that memory is given back once after work, when the work is over.
func TestQuiet(t *testing.T) {
	const mib = 1 << 20
	var q quiet
	allocated := uint64(0)
	for i, step := range []struct {
		allocates uint64 // until the next look
		want      bool
	}{
		{0, false}, // nothing to give back
		{10 * mib, false},
		{100 * mib, false}, // busy
		{mib / 2, true},
		{0, false}, // done
		{mib / 2, false},
		{15 * mib, false}, // not worth it yet
		{0, false},
		{15 * mib, false},
		{mib - 1, true},
	} {
		allocated += step.allocates
		if got := q.due(allocated); got != step.want {
			t.Errorf("look %d, after %d bytes more: due = %v, want %v", i, step.allocates, got, step.want)
		}
	}
}
