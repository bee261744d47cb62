package embedded

import (
	"errors"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestDeleteAgainIsDurable deletes a message again of which no sync says that it is gone. A power cut would bring it
// back, so the second caller must not hear that there is none.
func TestDeleteAgainIsDurable(t *testing.T) {
	for _, detail := range []backend.Detail{backend.None, backend.IDs} {
		fs := segmenttest.New()
		options := engine.DefaultQueueOptions()
		options.Sync = engine.SyncAlways
		e, err := engine.Open(engine.Options{
			Dir: "data", FS: fs, SegmentSize: 1 << 20, Settings: engine.Settings{Default: options},
		})
		if err != nil {
			t.Fatal(err)
		}
		s := &Store{engine: e}
		k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
		if _, err := s.Put(t.Context(), k, []byte("body"), backend.Attributes{TTL: backend.Forever}); err != nil {
			t.Fatal(err)
		}
		fs.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
			if op.Kind == segmenttest.OpDatasync {
				f.Err = syscall.EIO
			}
			return f
		})
		for n := range 2 {
			if _, err := s.DeleteMessage(t.Context(), k, detail); !errors.Is(err, backend.ErrUnknownOutcome) {
				t.Errorf("detail %v, delete %d = %v, want that the outcome is not known", detail, n+1, err)
			}
		}
		fs.SetFault(nil)
		s.Close()
	}
}
