package engine

import (
	"slices"
	"testing"
	"time"
)

// TestHiddenRest: of a run that is mostly gone, what is overdue is in memory, and nobody fetches it. The rest is
// written again once, and then nothing is.
func TestHiddenRest(t *testing.T) {
	h := newHiding(t, newFS())
	soon := h.putMany(80, 10*time.Second)
	last := h.putMany(5, time.Hour)
	h.work()
	h.now = h.now.After(2 * time.Minute)
	for i := range soon[10:] {
		if h.next() == "" {
			t.Fatalf("there are %d items that are due, want %d", i, len(soon))
		}
	}
	h.work()
	h.now = h.now.After(2 * quietShare * time.Second)
	again, files := 0, runFiles(h.fsys)
	for range 20 {
		h.now = h.now.After(time.Second)
		h.work()
		if now := runFiles(h.fsys); !slices.Equal(now, files) {
			again, files = again+1, now
		}
	}
	if disk := h.disk(); disk != int64(len(last)) {
		t.Fatalf("%d items are on disk, want %d", disk, len(last))
	}
	if again != 1 {
		t.Errorf("files were written again %d times in 20 s of rest, want once", again)
	}
	h.now = h.now.After(time.Hour)
	left := 0
	for h.next() != "" {
		left++
	}
	if left != 10+len(last) {
		t.Errorf("%d items are left, want %d", left, 10+len(last))
	}
}
