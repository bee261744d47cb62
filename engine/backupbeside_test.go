package engine

import (
	"bytes"
	"context"
	"path"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestBackupBesideHiding begins a backup while a file of delayed items is being written, whose queue is deleted then.
// Nobody needs that file, and it goes before the backup copies it: the backup goes on.
func TestBackupBesideHiding(t *testing.T) {
	fsys := &hookFS{FS: segmenttest.New()}
	o := testOptions(fsys, tiny)
	o.readBack = time.Millisecond
	e := openQuiet(t, o)
	mustPut(t, e, "other", "stays")
	for range 20 {
		ticket, err := e.Put(Now(), []byte("q"), PutRequest{Data: []byte("delayed"), Extra: &PutExtra{Delay: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, ticket)
	}
	var b *Backup
	fsys.write = func(call func() error) (err error) {
		if fsys.write = nil; e.spool.hideMu.TryLock() {
			t.Error("what is written is no file of delayed items")
		}
		if b, err = e.BeginBackup(); err != nil {
			t.Fatal(err)
		}
		mustCommit(t, e, e.Delete(Now(), []byte("q")))
		return call()
	}
	spoolAll(e)
	if b == nil {
		t.Fatal("nothing was hidden")
	}
	defer b.Close()
	wantItems(t, restoreBackup(t, b), "other", "stays")
}

// TestBackupOfNoJournal begins a backup when the journal has never had a queue, and a queue that is not journaled has
// a backlog. The restored server has no queues.
func TestBackupOfNoJournal(t *testing.T) {
	e, _ := newQuiet(t, tiny, func(o *QueueOptions) { o.KeepJournal = false })
	putMany(t, e, "q", 0, 20)
	spoolAll(e)
	b, err := e.BeginBackup()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if all := restoreBackup(t, b).Queues(Now()); len(all) > 0 {
		t.Errorf("the backup has queue %q", all[0].Name)
	}
}

// restoreBackup opens an engine on a copy of the files of a backup.
func restoreBackup(t *testing.T, b *Backup) *Engine {
	t.Helper()
	copied := segmenttest.New()
	for i, f := range b.Files {
		var data bytes.Buffer
		if err := b.Copy(context.Background(), i, &data); err != nil {
			t.Fatal(err)
		}
		name := path.Join(testDir, f.Name)
		if err := copied.MkdirAll(path.Dir(name)); err != nil {
			t.Fatal(err)
		}
		w, err := copied.Create(name)
		if err == nil {
			_, err = w.WriteAt(data.Bytes(), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	return openQuiet(t, testOptions(copied))
}
