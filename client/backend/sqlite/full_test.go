package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/client/backend"
)

// TestFull fills a database that may not grow. What is refused says why, what was there is served, and puts go on when
// there is room.
func TestFull(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "queues.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.db.Exec("PRAGMA max_page_count = 20"); err != nil {
		t.Fatal(err)
	}
	q := backend.Queue{Account: "acme", Name: "jobs"}
	put := func(i int) error {
		_, err := s.Put(t.Context(), backend.Key{Queue: q, ID: fmt.Sprint(i)}, make([]byte, 8<<10), backend.Attributes{})
		return err
	}
	stored := 0
	for err = put(0); err == nil; err = put(stored) {
		stored++
	}
	if !errors.Is(err, backend.ErrFull) || errors.Is(err, backend.ErrUnavailable) || stored == 0 {
		t.Errorf("a put to a full database = %v, want ErrFull, after %d", err, stored)
	}
	if list, err := s.DeleteMessages(t.Context(), q, backend.Match{Detail: backend.IDs}); err != nil || len(list) != stored {
		t.Errorf("it has %d messages, %v, want %d", len(list), err, stored)
	}
	if err := put(0); err != nil {
		t.Errorf("a put when there is room again = %v", err)
	}
}
