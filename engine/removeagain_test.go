package engine

import (
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRemoveAgainIsDurable removes an item a second time, as a client does that has no reply to its first request. The
// answer that there is no such item waits for the first removal: a power cut does not bring the item back.
func TestRemoveAgainIsDurable(t *testing.T) {
	e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncAlways })
	mustPut(t, e, "q", "a")
	if _, err := e.Remove(Now(), []byte("q"), "", Which{ID: 1}); err != nil {
		t.Fatal(err)
	}
	ticket, err := e.Remove(Now(), []byte("q"), "", Which{ID: 1})
	if err != ErrNoSuchItem {
		t.Fatalf("the second removal returned %v, want %v", err, ErrNoSuchItem)
	}
	mustCommit(t, e, ticket)
	cut := openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})))
	wantItems(t, cut, "q", "")
}
