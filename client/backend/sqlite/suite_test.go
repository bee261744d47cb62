package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backend/backendtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSuite runs the suite in fake time, without some of the cases with -short.
func TestSuite(t *testing.T) {
	for i, c := range backendtest.Names() {
		if testing.Short() && i%4 == 3 {
			continue
		}
		t.Run(c, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(filepath.Join(t.TempDir(), "a?b #%20.db"))
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				backendtest.RunCase(t, c, s)
			})
		})
	}
}

// TestReopen checks that messages, their order, and places that were used survive the store; and that a wait sees
// what another program adds.
func TestReopen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "queues.db")
		q := backend.Queue{Account: "acme", Name: "jobs"}
		open := func() *Store {
			t.Helper()
			s, err := Open(file)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		s := open()
		for _, id := range []string{"b", "a", "c"} {
			if _, err := s.Put(t.Context(), backend.Key{Queue: q, ID: id}, []byte(id), backend.Attributes{TTL: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.DeleteMessage(t.Context(), backend.Key{Queue: q, ID: "c"}, backend.None); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = open()
		defer s.Close()
		if _, err := s.Put(t.Context(), backend.Key{Queue: q, ID: "d"}, nil, backend.Attributes{TTL: backend.Forever}); err != nil {
			t.Fatal(err)
		}
		got := ""
		for m, err := range s.Messages(t.Context(), q, backend.Match{Detail: backend.IDs}) {
			if err != nil {
				t.Fatal(err)
			}
			got += m.ID
		}
		var place int
		if err := s.db.QueryRow("SELECT place FROM messages WHERE id = 'd'").Scan(&place); err != nil || got != "bad" || place != 4 {
			t.Errorf("the list is %q, and d is in place %d, %v", got, place, err)
		}

		other, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		added := make(chan error, 1)
		go func() {
			<-time.After(3 * time.Second)
			_, err := other.Exec("INSERT INTO messages (account, queue, id, body) VALUES ('acme', 'other', 'm', x'00ff')")
			added <- err
		}()
		began := time.Now()
		list, err := s.DeleteMessages(t.Context(), backend.Queue{Account: "acme", Name: "other"}, backend.Match{Wait: time.Minute, Detail: backend.All})
		if err != nil || len(list) != 1 || string(list[0].Body) != "\x00\xff" || list[0].TTL != 0 || time.Since(began) > 5*time.Second {
			t.Errorf("what another program adds = %+v, %v after %v", list, err, time.Since(began))
		}
		if err := <-added; err != nil {
			t.Error(err)
		}

		<-time.After(2 * time.Minute) // a and b expire, and a sweep comes by
		synctest.Wait()
		var rows int
		if err := other.QueryRow("SELECT count(*) FROM messages").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%d rows are left, %v, want 1", rows, err)
		}
	})
}

// TestOpenNoDatabase checks that a file that is no database stays as it is.
func TestOpenNoDatabase(t *testing.T) {
	if s, err := Open(t.TempDir()); err == nil {
		s.Close()
		t.Error("a directory is opened as a database")
	}
}

// TestWaitsAreForgotten asks for messages of many queues that do not exist, with and without a wait. The store keeps
// nothing of that.
func TestWaitsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(filepath.Join(t.TempDir(), "queues.db"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, wait := range []time.Duration{0, time.Second} {
			for _, name := range []string{"a", "b", "c"} {
				q := backend.Queue{Account: "acme", Name: name}
				for _, err := range s.Messages(t.Context(), q, backend.Match{Wait: wait}) {
					if !errors.Is(err, backend.ErrNotFound) {
						t.Errorf("Messages = %v", err)
					}
				}
			}
		}
		if n := len(s.waits); n != 0 {
			t.Errorf("the store knows of waits for %d queues, want 0", n)
		}
	})
}
