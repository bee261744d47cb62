package journalcmd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

// details are the items of a data directory's queues with their times, without flags.
func details(t testing.TB, data string) string {
	t.Helper()
	s := clitest.SnapshotOf(t, data)
	defer s.Close()
	var b strings.Builder
	for _, q := range s.Queues {
		fmt.Fprintf(&b, "%s:", q.Name)
		s.Each(q.Name, func(it engine.Item) bool {
			fmt.Fprintf(&b, " %x@%d-%d", it.Data, it.Added, it.Expiry)
			return true
		})
		b.WriteString("\n")
	}
	return b.String()
}

// TestExportRoundTrip puts random items, takes some, exports everything and imports it elsewhere:
// it is the same, and exported again the same bytes.
func TestExportRoundTrip(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 0))
		root := t.TempDir()
		in := func(name string) string { return filepath.Join(root, name) }
		fillRandomly(t, rng, in("one"))
		runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", in("one"), "--output", in("out"))
		runJournal(t, cli.ExitOK, "journal", "import", in("out"), "--data-dir", in("two"))
		if one, two := details(t, in("one")), details(t, in("two")); one != two {
			t.Fatalf("seed %d: exported\n%s\nimported\n%s", seed, one, two)
		}
		runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", in("two"), "--output", in("again"))
		for _, name := range []string{"work", "jobs", "jobs+c1", "größe"} {
			a, err := os.ReadFile(filepath.Join(in("out"), name))
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(in("again"), name))
			if err != nil {
				t.Fatal(err)
			}
			if string(a) != string(b) {
				t.Errorf("seed %d: %s is %x, and then %x", seed, name, a, b)
			}
		}
	}
}

// TestExportLongName: a queue's name may be as long as that of a file.
func TestExportLongName(t *testing.T) {
	root := t.TempDir()
	data, out := filepath.Join(root, "data"), filepath.Join(root, "out")
	e, err := engine.Open(engine.Options{
		Dir: data, SegmentSize: testSegment, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	name := strings.Repeat("n", engine.MaxNameSize)
	if _, err := e.Restore(engine.Now(), []byte(name), engine.Item{Data: []byte("x"), Added: 1e12}, engine.Standing{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", data, "--output", out)
	runJournal(t, cli.ExitOK, "journal", "import", out, "--data-dir", filepath.Join(root, "again"))
	if got, want := details(t, filepath.Join(root, "again")), details(t, data); got != want {
		t.Errorf("exported %.300q, imported %.300q", want, got)
	}
}

// fillRandomly makes a data directory with a few queues.
func fillRandomly(t *testing.T, rng *rand.Rand, data string) {
	t.Helper()
	settings := engine.Settings{Default: engine.DefaultQueueOptions()}
	settings.Default.Sync = engine.SyncNever
	e, err := engine.Open(engine.Options{Dir: data, SegmentSize: testSegment, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	now := engine.Now()
	for _, name := range []string{"work", "jobs", "jobs+c1", "größe"} {
		if _, err := e.Create(now, []byte(name)); err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(50) {
			it := engine.Item{Data: make([]byte, rng.IntN(300)), Added: now - engine.Time(rng.IntN(1e9))}
			for i := range it.Data {
				it.Data[i] = byte(rng.Uint32())
			}
			if rng.IntN(3) == 0 {
				it.Expiry = now + engine.Time(rng.IntN(2e9)) - 1e9
			}
			if _, err := e.Restore(now, []byte(name), it, engine.Standing{}); err != nil {
				t.Fatal(err)
			}
		}
		q, err := e.Queue(name)
		if err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(10) {
			q.TryGet() // ErrEmpty is as good
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestExport(t *testing.T) {
	data, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out")
	runJournal(t, cli.ExitOK, "journal", "import", clitest.WriteOld(t, oldFiles()), "--data-dir", data)
	before := clitest.FileState(t, data)
	said, _ := runJournal(t, cli.ExitOK, "journal", "export", "work", "--data-dir", data, "--output", out)
	clitest.WantText(t, said, out+"/work: 3 items, 3 bytes\n")
	got, err := os.ReadFile(filepath.Join(out, "work"))
	if err != nil {
		t.Fatal(err)
	}
	want := clitest.Adds("a", "b", "c")[22:] // what was added first, and removed
	want = append(want, clitest.Adds("d")...)
	if string(got) != string(want) {
		t.Errorf("work is %x, want %x", got, want)
	}
	if clitest.FileState(t, data) != before {
		t.Error("the export changed the data directory")
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files in %s, want work and its supplement: %v", len(entries), out, err)
	}
	for _, tt := range []struct {
		code int
		args string
		want string
	}{
		{cli.ExitFailed, "work", "out/work is there already"},
		{cli.ExitFailed, "--all", "is there already"},
		{cli.ExitFailed, "nobody", `there is no queue "nobody"`},
		{cli.ExitUsage, "", "which queues?"},
		{cli.ExitUsage, "--all work", "which queues?"},
	} {
		args := append([]string{"journal", "export", "--data-dir", data, "--output", out},
			strings.Fields(tt.args)...)
		_, errs := runJournal(t, tt.code, args...)
		clitest.WantText(t, errs, tt.want)
	}
	_, errs := runJournal(t, cli.ExitUsage, "journal", "export", "work", "--data-dir", data)
	clitest.WantText(t, errs, "where to?")
	if err := os.WriteFile(filepath.Join(out, "jobs.17"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = runJournal(t, cli.ExitFailed, "journal", "export", "jobs", "--data-dir", data, "--output", out)
	clitest.WantText(t, errs, "jobs.17 is there already")
}

// TestExportFlags tests that the export says where flags are, which the old format cannot hold.
func TestExportFlags(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.Open(engine.Options{
		Dir: dir, SegmentSize: testSegment, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := engine.Now()
	if _, err := e.Restore(now, []byte("q"), engine.Item{Flags: 5, Added: now}, engine.Standing{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	_, errs := runJournal(t, cli.ExitOK, "journal", "export", "q", "--data-dir", dir, "--output", dir+"/out")
	clitest.WantText(t, errs, "q: 1 item with what the original does not have", supplementName("q"))
	queues, _ := oldjournal.Plan([]string{"q"})
	q, err := oldjournal.Load(os.DirFS(dir+"/out"), queues[0], oldjournal.LoadOptions{})
	if err != nil || len(q.Items) != 1 || q.Items[0].Added != int64(now) {
		t.Errorf("exported %+v, %v", q, err)
	}
}

// TestExportUnfinishedImport tests that what an import has not brought whole is not taken for a
// queue.
func TestExportUnfinishedImport(t *testing.T) {
	data, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out")
	old := clitest.WriteOld(t, oldFiles())
	interruptImport(t, old, data, 1)
	_, errs := runJournal(t, cli.ExitFailed, "journal", "export", "--all", "--data-dir", data, "--output", out)
	clitest.WantText(t, errs, "was interrupted", importMarkPath(data))
	if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is %s: %v", out, err)
	}
	runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data)
	runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", data, "--output", out)
}

// TestNamesInLines tests what happens with a queue's name, which may hold anything in Thrift. It can neither end the
// line that it stands in nor send commands to the terminal.
func TestNamesInLines(t *testing.T) {
	data, out := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "out")
	const name = "two\nlines\x1b[2J"
	e, err := engine.Open(engine.Options{
		Dir: data, SegmentSize: testSegment, Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Restore(engine.Now(), []byte(name), engine.Item{Flags: 5}, engine.Standing{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"inspect", "--data-dir", data},
		{"inspect", name, "--data-dir", data},
		{"export", "--all", "--data-dir", data, "--output", out},
		{"import", out, "--data-dir", data + "2"},
		{"import", out, "--data-dir", data + "2", "--append", "--dry-run"},
	} {
		said, errs := runJournal(t, cli.ExitOK, append([]string{"journal"}, args...)...)
		if all := said + errs; strings.Contains(all, name) || !strings.Contains(all, "two lines [2J") {
			t.Errorf("journal %q says %q", args, all)
		}
	}
	clitest.WantHeld(t, data+"2", map[string]string{name: ""})
}
