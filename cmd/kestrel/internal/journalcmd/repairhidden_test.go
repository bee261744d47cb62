package journalcmd

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// TestRepairBesideHidden: a start only estimates how many bytes delayed items have of which many are gone. A repair
// that ended well is no failure for that.
func TestRepairBesideHidden(t *testing.T) {
	data := t.TempDir()
	opts := engine.DefaultQueueOptions()
	opts.MaxMemorySize = 16 << 20 // half of it goes to one file
	e, err := engine.Open(engine.Options{Dir: data, Settings: engine.Settings{Default: opts}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Put(engine.Now(), []byte("other"), engine.PutRequest{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(engine.Ticket{Written: 1}); err != nil {
		t.Fatal(err)
	}
	q, rng := []byte("q"), rand.New(rand.NewPCG(1, 0))
	const n = 3000
	body := make([]byte, 8000)
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	for i := range n {
		_, err := e.Put(engine.Now(), q, engine.PutRequest{
			Data: body[:1+rng.IntN(len(body))], Extra: &engine.PutExtra{Delay: time.Hour + time.Duration(i)*time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for onDisk := int64(0); onDisk < 8<<20; runtime.Gosched() {
		onDisk = 0
		files, err := filepath.Glob(filepath.Join(data, "backlog", "*.run"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil {
				onDisk += info.Size()
			}
		}
	}
	var last engine.Ticket
	for id := uint64(1); id <= n; id += 3 {
		if last, err = e.Remove(engine.Now(), q, "", engine.Which{ID: id}); err != nil {
			t.Fatal(id, err)
		}
	}
	if err := e.Commit(engine.Ticket{Written: last.Written, Synced: last.Written}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(data, "journal", "*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	overwrite(t, segments[0], 140)
	out, _ := runJournal(t, cli.ExitOK, "journal", "repair", "--apply", "--data-dir", data)
	clitest.WantText(t, out, "repaired; what was there before is in "+filepath.Join(data, "damaged.1"))
}
