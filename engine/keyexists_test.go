package engine

import (
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestKeyExistsIsDurable puts an item a second time, only if it is new, as a client does that has no reply to its first
// put. The answer that the item exists waits for the first put: a power cut does not take the item away.
func TestKeyExistsIsDurable(t *testing.T) {
	for _, put := range []func(e *Engine) error{
		func(e *Engine) error {
			q, err := e.Queue("q")
			if err != nil {
				return err
			}
			return q.Put([]byte("a"), PutOptions{Key: "k", OnDuplicate: OnlyNew})
		},
		func(e *Engine) error {
			extra := &PutExtra{Key: []byte("k"), OnDuplicate: OnlyNew}
			s, err := e.PutAll(Now(), []byte("q"), []PutRequest{{Data: []byte("a"), Extra: extra}})
			mustCommit(t, e, s.Ticket)
			return err
		},
	} {
		e, fsys := newQuiet(t, func(o *QueueOptions) { o.Sync = SyncAlways })
		first := PutRequest{Data: []byte("a"), Extra: &PutExtra{Key: []byte("k")}}
		if _, err := e.Put(Now(), []byte("q"), first); err != nil {
			t.Fatal(err)
		}
		if err := put(e); err != ErrKeyExists {
			t.Fatalf("the second put returned %v, want %v", err, ErrKeyExists)
		}
		cut := openQuiet(t, testOptions(fsys.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})))
		wantItems(t, cut, "q", "a")
	}
}
