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
	wantItems(t, openQuiet(t, testOptions(copied)), "other", "stays")
}
