package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment"
)

// TestBacklogBusy has producers and consumers race against the spool on a real disk, past the page
// cache and through it.
func TestBacklogBusy(t *testing.T) {
	for _, directFrom := range []int64{1, minDirectMemory} {
		backlogBusy(t, directFrom)
	}
}

func backlogBusy(t *testing.T, directFrom int64) {
	dir := t.TempDir()
	settings := Settings{Default: DefaultQueueOptions()}
	settings.Default.MaxMemorySize, settings.Default.Sync = 5000, SyncNever
	o := Options{Dir: dir, Settings: settings, SegmentSize: 1 << 20, BacklogCompression: segment.CodecS2}
	o.directFrom = directFrom
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	const queues, each = 4, 3000
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for i := range queues {
		q, err := e.Queue(fmt.Sprint("q", i))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for n := range each {
				if err := q.Put(fmt.Appendf(nil, "%0*d", 10+n%300, n), PutOptions{}); err != nil {
					t.Errorf("Put = %v", err)
					return
				}
			}
		})
		wg.Go(func() {
			for n := range each / 2 {
				it, err := q.Get(ctx)
				if want := fmt.Sprintf("%0*d", 10+n%300, n); err != nil || string(it.Data) != want {
					t.Errorf("Get = %q, %v, want %q", it.Data, err, want)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := e.Verify(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if e, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for i := range queues {
		q, _ := e.Queue(fmt.Sprint("q", i))
		for n := each / 2; n < each; n++ {
			it, err := q.TryGet()
			if want := fmt.Sprintf("%0*d", 10+n%300, n); err != nil || string(it.Data) != want {
				t.Fatalf("TryGet = %q, %v, want %q", it.Data, err, want)
			}
		}
	}
}
