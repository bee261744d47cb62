package journalcmd

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// standings describes the items of the queue q in a data directory.
func standings(t *testing.T, data string) (all []string) {
	t.Helper()
	s := clitest.SnapshotOf(t, data)
	defer s.Close()
	err := s.EachStanding("q", func(it engine.Item, stands engine.Standing) bool {
		all = append(all, fmt.Sprintf("%s flags=%d added=%d expiry=%d key=%s origin=%s why=%d %+v",
			it.Data, it.Flags, it.Added, it.Expiry, it.Key(), it.Origin(), it.Why(), stands))
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// restoreRich puts items of every kind into the queue q of a new data directory.
func restoreRich(t *testing.T, data string) {
	t.Helper()
	e, err := engine.Open(engine.Options{Dir: data, Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	now := engine.Now()
	due := now.After(time.Hour)
	plain := engine.Item{Data: []byte("plain"), Added: now}
	flagged := engine.Item{Data: []byte("flagged"), Added: now - 5, Expiry: due, Flags: 1 << 31}
	keyed := engine.Item{Added: now}.With(nil, bytes.Repeat([]byte("k"), engine.MaxKeySize), "", 0)
	dead := engine.Item{Data: []byte("dead"), Added: now}.With(nil, []byte("d"), "jobs", engine.TooOften)
	for i, it := range []engine.Item{plain, flagged, keyed, dead, plain, plain} {
		stands := []engine.Standing{
			{}, {Count: 1}, {Due: due}, {Due: due + 1, Token: 1<<63 - 1, Count: 65535}, {}, {Count: 300},
		}[i]
		if _, err := e.Restore(now, []byte("q"), it, stands); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestExportRich: an exported and imported queue keeps keys, delays, leases, counts, flags and origins, also when
// the import was interrupted.
func TestExportRich(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	restoreRich(t, in("data"))
	want := standings(t, in("data"))
	runJournal(t, cli.ExitOK, "journal", "export", "--all", "--data-dir", in("data"), "--output", in("out"))
	for n := range len(want) + 1 {
		again := in(fmt.Sprint("again", n))
		if n < len(want) {
			interruptImport(t, in("out"), again, n)
		}
		runJournal(t, cli.ExitOK, "journal", "import", in("out"), "--data-dir", again)
		if got := standings(t, again); !slices.Equal(got, want) {
			t.Errorf("interrupted at item %d: exported\n%s\nimported\n%s", n, strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	}
}

// TestImportChanged: an import takes no part of what was exported for all of it.
func TestImportChanged(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(t *testing.T, file, supplement string)
		want   string
	}{
		{"a record is cut off", func(t *testing.T, file, _ string) { cutTo(t, file, 26) }, "is not as it was exported"},
		{"all is cut off", func(t *testing.T, file, _ string) { cutTo(t, file, 0) }, "is not as it was exported"},
		{"a byte of an item", func(t *testing.T, file, _ string) { flip(t, file, 22) }, "is not as it was exported"},
		{"the original ran", func(t *testing.T, file, _ string) {
			if err := os.Rename(file, file+".17"); err != nil {
				t.Fatal(err)
			}
		}, "the original has changed the queue"},
		{"the supplement is cut", func(t *testing.T, _, more string) { cutTo(t, more, 60) }, "the supplement is damaged"},
		{"the supplement is empty", func(t *testing.T, _, more string) { cutTo(t, more, 0) }, "the supplement is damaged"},
		{"a byte of the supplement", func(t *testing.T, _, more string) { flip(t, more, 20) }, "the supplement is damaged"},
		{"a newer supplement", func(t *testing.T, _, more string) { flip(t, more, 8) }, "a newer release wrote the supplement"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			in := func(name string) string { return filepath.Join(root, name) }
			restoreRich(t, in("data"))
			runJournal(t, cli.ExitOK, "journal", "export", "q", "--data-dir", in("data"), "--output", in("out"))
			tt.change(t, filepath.Join(in("out"), "q"), filepath.Join(in("out"), supplementName("q")))
			_, errs := runJournal(t, cli.ExitFailed, "journal", "import", in("out"), "--data-dir", in("again"))
			clitest.WantText(t, errs, tt.want, "nothing was imported")
			_, errs = runJournal(t, cli.ExitOK, "journal", "import", in("out"), "--data-dir", in("again"), "--salvage")
			clitest.WantText(t, errs, "left out what a supplement has", tt.want)
		})
	}
}

func cutTo(t *testing.T, name string, size int64) {
	t.Helper()
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
}

// flip changes a byte of a file.
func flip(t *testing.T, name string, at int) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 2
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// supplementGolden is the example of docs/FORMAT.md.
const supplementGolden = `
6b65737472656c73 0100000000000000
01 01 05
00 3e 016b e807 0807060504030201 03 01 04 6a6f6273
0200000000000000 0300000000000000 990977adf52cbc44
c25bee4e01ca78e7`

func TestSupplementGolden(t *testing.T) {
	var b bytes.Buffer
	s := newSupplement(&b)
	key := engine.Item{}.With(nil, []byte("k"), "jobs", engine.TooOften)
	for i, it := range []engine.Item{{}, {Flags: 5}, key} {
		var stands engine.Standing
		if i == 2 {
			stands = engine.Standing{Due: 1000, Token: 0x0102030405060708, Count: 3}
		}
		if err := s.add(&it, stands, []byte{byte('a' + i)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	want, err := hex.DecodeString(strings.Join(strings.Fields(supplementGolden), ""))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the supplement is %x, want %x", b.Bytes(), want)
	}
	doc, err := os.ReadFile("../../../../docs/FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), strings.TrimSpace(supplementGolden)) {
		t.Error("docs/FORMAT.md has another example")
	}
}

// TestSupplementStays checks the supplement of a queue of many items, and reads it. It stays on disk meanwhile.
func TestSupplementStays(t *testing.T) {
	const items = 300_000
	var b bytes.Buffer
	w := newSupplement(&b)
	for range items {
		if err := w.add(&engine.Item{Flags: 1 << 31}, engine.Standing{}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := bytes.NewReader(b.Bytes())
	s, err := parseSupplement(r, r.Size())
	if err == nil {
		err = s.check(r, items)
	}
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(b.Len()/8); got > most {
		t.Errorf("a supplement of %d bytes takes %d bytes of memory, want at most %d", b.Len(), got, most)
	}
}

func FuzzSupplement(f *testing.F) {
	b, _ := hex.DecodeString(strings.Join(strings.Fields(supplementGolden), ""))
	f.Add(b, 3)
	f.Fuzz(func(t *testing.T, b []byte, items int) {
		if items < 0 || items > 1000 {
			return
		}
		r := bytes.NewReader(b)
		s, err := parseSupplement(r, r.Size())
		if err != nil || s.check(r, items) != nil {
			return
		}
		all, err := s.entries(r)
		if err != nil {
			t.Fatalf("what was checked is damaged: %v", err)
		}
		for range items {
			if _, _, err := all.item(engine.Item{Data: []byte("x")}); err != nil {
				t.Fatalf("what was checked is damaged: %v", err)
			}
		}
	})
}

// TestSupplementAlone tests what a supplement means whose queue has no file. An import does not pass for one of all
// queues, and an export does not write over it.
func TestSupplementAlone(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	restoreRich(t, in("data"))
	export := []string{"journal", "export", "q", "--data-dir", in("data"), "--output", in("out")}
	runJournal(t, cli.ExitOK, export...)
	if err := os.Remove(in("out/q")); err != nil {
		t.Fatal(err)
	}
	before := clitest.FileState(t, in("out"))
	_, errs := runJournal(t, cli.ExitFailed, export...)
	clitest.WantText(t, errs, supplementName("q")+" is there already")
	if clitest.FileState(t, in("out")) != before {
		t.Error("the export changed the directory")
	}
	importing := []string{"journal", "import", in("out"), "--data-dir", in("again")}
	_, errs = runJournal(t, cli.ExitFailed, importing...)
	clitest.WantText(t, errs, supplementName("q")+" has no file of its queue", "nothing was imported")
	_, errs = runJournal(t, cli.ExitOK, append(importing, "--salvage")...)
	clitest.WantText(t, errs, "salvaged: left out")
}

// TestExportTwiceNamed exports a queue that is named twice: once.
func TestExportTwiceNamed(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	restoreRich(t, data)
	out, _ := runJournal(t, cli.ExitOK, "journal", "export", "q", "q", "--data-dir", data, "--output", filepath.Join(root, "out"))
	if strings.Count(out, "\n") != 1 {
		t.Errorf("a queue that is named twice is exported as\n%s", out)
	}
}
