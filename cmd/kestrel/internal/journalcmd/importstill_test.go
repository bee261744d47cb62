package journalcmd

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// TestImportIsStill imports leases that have lapsed, and would make dead letters of their items. A dead letter that came
// meanwhile would count as an imported item of the queue it goes to. An import that goes on would leave one out.
func TestImportIsStill(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	e, err := engine.Open(engine.Options{
		Dir: in("data"), Still: true, SegmentSize: testSegment,
		Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := engine.Now()
	for i := range 300 {
		it := engine.Item{Data: fmt.Append(nil, i), Added: now}
		lapsed := engine.Standing{Due: now - 1000, Token: uint64(i + 1), Count: 9}
		if _, err := e.Restore(now, []byte("q"), it, lapsed); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Restore(now, []byte("q_dead"), it, engine.Standing{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want := standings(t, in("data"))
	runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", in("data"), "--output", in("out"))
	config := clitest.WriteConfig(t, fmt.Sprintf("data_dir = %q\n[default]\nmax_deliveries = 3\n", in("again")))
	runJournal(t, cli.ExitOK, "journal", "import", in("out"), "--config", config)
	if got := standings(t, in("again")); !slices.Equal(got, want) {
		t.Errorf("exported %d items, imported %d or others", len(want), len(got))
	}
	if dead := len(clitest.Held(t, in("again"))["q_dead"]); dead != len(clitest.Held(t, in("data"))["q_dead"]) {
		t.Errorf("%d bytes of dead letters are imported, more or fewer than there were", dead)
	}
}
