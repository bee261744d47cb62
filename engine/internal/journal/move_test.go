package journal

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// poisoned returns a journal with a record that is in doubt, and one that is not written.
func poisoned(t *testing.T, fsys *segmenttest.FS) (j *Journal, doubtful Ticket) {
	t.Helper()
	j = newTest(t, fsys)
	fsys.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	lsn := put(j, 1, "a")
	doubtful = Ticket{Written: lsn, Synced: lsn}
	if err := j.Commit(doubtful); !errors.Is(err, ErrFailed) || !j.Poisoned() {
		t.Fatalf("Commit = %v, want a poisoned log", err)
	}
	fsys.SetFault(nil)
	put(j, 2, "b")
	return j, doubtful
}

// putAs records an item of a queue.
func putAs(j *Journal, queue, id uint64) LSN {
	lsn, _ := j.PutImages(record.Destination{Queue: queue, Item: id}, item.AppendImage(nil, &item.Item{Added: 1}), 1)
	return lsn
}

// TestMove tests that a move of the journal leaves out records of queues that have not entered the new log. It commits
// nothing before its end, and then everything in that log.
func TestMove(t *testing.T) {
	fsys := segmenttest.New()
	j, doubtful := poisoned(t, fsys)
	log := openLog(t, fsys, "data/journal.1")
	m, first := j.Move(log, 1, func() uint64 { return 7 })
	if first != 7 {
		t.Errorf("the first number is %d, want 7", first)
	}
	left := putAs(j, 6, 9) // in the queue when that enters
	putAs(j, 7, 1)
	if err := m.Drain(); err != nil {
		t.Fatal(err)
	}
	if err := j.Commit(Ticket{Written: left}); !errors.Is(err, ErrFailed) {
		t.Errorf("Commit = %v during a move, want ErrFailed", err)
	}
	if err := j.Admit(1); err != ErrFailed || j.Committed(doubtful) {
		t.Errorf("Admit = %v during a move, want ErrFailed, or a ticket has become good", err)
	}
	end := putAs(j, 7, 2)
	called := false
	old, err := m.End(func() error { called = true; return nil })
	if err != nil || !called || old == log {
		t.Fatalf("End = %v", err)
	}
	old.Close()
	if j.Failing() || !j.Committed(doubtful) || !j.Committed(Ticket{Written: end, Synced: end}) {
		t.Error("what was entered is not committed")
	}
	if err := j.Commit(Ticket{Written: putAs(j, 7, 3)}); err != nil {
		t.Errorf("Commit = %v behind the move", err)
	}
	want := []string{"1:7/1", "1:7/2", "1:7/3"}
	if got := words(t, onDisk(t, fsys, "data/journal.1")); !slices.Equal(got, want) {
		t.Errorf("the new journal holds %q, want %q", got, want)
	}
}

// TestMoveFails: a move that fails at any step leaves the old log in place, and the next one succeeds.
func TestMoveFails(t *testing.T) {
	errComplete := errors.New("complete")
	for _, tt := range []struct {
		name     string
		kind     segmenttest.OpKind
		complete error
	}{
		{"write", segmenttest.OpWriteAt, nil}, {"sync", segmenttest.OpDatasync, nil}, {"complete", 0, errComplete},
	} {
		fsys := segmenttest.New()
		j, doubtful := poisoned(t, fsys)
		log := openLog(t, fsys, "data/journal.1")
		m, _ := j.Move(log, 1<<20, func() uint64 { return 7 })
		putAs(j, 7, 1)
		if tt.complete == nil {
			fsys.SetFault(segmenttest.FailAllFrom(tt.kind, 0, syscall.EIO))
		}
		if _, err := m.End(func() error { return tt.complete }); err == nil {
			t.Errorf("%s: End = nil, want an error", tt.name)
		}
		fsys.SetFault(nil)
		log.Close()
		if !j.Poisoned() || j.Committed(doubtful) {
			t.Errorf("%s: a move that failed ends the failure", tt.name)
		}
		m, first := j.Move(openLog(t, fsys, "data/journal.2"), 1<<20, func() uint64 { return 8 })
		putAs(j, first-1, 2)
		putAs(j, first, 1)
		old, err := m.End(func() error { return nil })
		if err != nil {
			t.Fatalf("%s: End = %v the second time", tt.name, err)
		}
		old.Close()
		if got := words(t, onDisk(t, fsys, "data/journal.2")); !slices.Equal(got, []string{"1:8/1"}) {
			t.Errorf("%s: the new journal holds %q, want the queue that entered it alone", tt.name, got)
		}
	}
}
