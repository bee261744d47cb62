package engine

import (
	"maps"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// keepJournal has e reload with the queue called name in the journal, or not.
func keepJournal(t testing.TB, e *Engine, name string, keep bool) {
	t.Helper()
	s := *e.settings.Load()
	o := s.For(name)
	o.KeepJournal = keep
	settings := s.Settings
	settings.Queues = maps.Clone(settings.Queues)
	if settings.Queues == nil {
		settings.Queues = make(map[string]QueueOptions)
	}
	settings.Queues[name] = o
	if err := e.Reload(settings); err != nil {
		t.Fatalf("Reload = %v", err)
	}
}

// TestLeaveWhileRunIsSynced takes a queue out of the journal, in every way there is, while a run of it
// is being synced. The record of the run then must not come behind that: a later start would find runs
// of a queue that has no name.
func TestLeaveWhileRunIsSynced(t *testing.T) {
	for _, tt := range []struct {
		name  string
		leave func(*testing.T, *Engine)
		want  string // what "q" holds after a restart
	}{
		{"keep_journal is turned off", func(t *testing.T, e *Engine) { keepJournal(t, e, "q", false) }, ""},
		{"deleted", func(t *testing.T, e *Engine) { mustCommit(t, e, e.Delete(Now(), []byte("q"))) }, ""},
		{"deleted and made again", func(t *testing.T, e *Engine) {
			mustCommit(t, e, e.Delete(Now(), []byte("q")))
			mustPut(t, e, "q", "new")
		}, "new"},
		{"turned off and deleted", func(t *testing.T, e *Engine) {
			keepJournal(t, e, "q", false)
			mustCommit(t, e, e.Delete(Now(), []byte("q")))
		}, ""},
		{"flushed", func(t *testing.T, e *Engine) {
			ticket, err := e.Flush(Now(), []byte("q"), "")
			if err != nil {
				t.Fatal(err)
			}
			mustCommit(t, e, ticket)
			mustPut(t, e, "q", "next")
		}, "next"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := &hookFS{FS: segmenttest.New()}
			e := openQuiet(t, testOptions(fsys, tiny))
			putMany(t, e, "q", 0, 40)
			mustPut(t, e, "other", "precious")
			q := e.shardOf([]byte("q")).queues["q"]
			for e.spool.spills.take() != nil {
				e.spool.spill(q)
			}
			e.spool.tend()
			synced := false
			fsys.datasync = func(call func() error) error {
				fsys.datasync = nil
				synced = true
				tt.leave(t, e)
				return call()
			}
			e.spool.record(q)
			if !synced {
				t.Fatal("no run was synced")
			}
			settleRuns(e)
			mustPut(t, e, "other", "second")
			again := openQuiet(t, testOptions(fsys.FS.Kill(), tiny))
			wantItems(t, again, "other", "precious second")
			wantItems(t, again, "q", tt.want)
		})
	}
}
