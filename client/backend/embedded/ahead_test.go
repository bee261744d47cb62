package embedded

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/engine"
)

// TestCloseBesideAhead closes a store while puts wait because they outrun the disk: they end.
func TestCloseBesideAhead(t *testing.T) {
	options := engine.DefaultQueueOptions()
	options.MaxMemorySize, options.Sync = 1<<20, engine.SyncNever
	s, err := open(t.TempDir(), options, Options{})
	if err != nil {
		t.Fatal(err)
	}
	q := backend.Queue{Account: "a", Name: "q"}
	var puts sync.WaitGroup
	for i := range 32 {
		puts.Go(func() {
			_, err := s.Put(t.Context(), backend.Key{Queue: q, ID: fmt.Sprint(i)}, make([]byte, 1<<20), backend.Attributes{})
			if err != nil && !errors.Is(err, backend.ErrClosed) {
				t.Error(err)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		puts.Wait()
		close(ended)
	}()
	for tried := false; !tried && !s.engine.Ahead(nameOf(q)); {
		select {
		case <-ended:
			tried = true // the disk is too fast
		default:
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("puts wait for a store that is closed")
	}
}
