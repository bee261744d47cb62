package journalcmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

// oldFiles are journals with rotated files, an open read, a fanout child and an empty queue.
func oldFiles() map[string][]byte {
	return map[string][]byte{
		"work.1700000000500": clitest.Adds("a", "b", "c"),
		"work": slices.Concat(clitest.Record(oldjournal.OpRemove, 0),
			clitest.Record(oldjournal.OpRemoveTentativeXID, 1), clitest.Adds("d")),
		"jobs": nil, "jobs+c1": clitest.Adds("x"), ".status": []byte("Up\n"), "work.bak": nil,
		"work~~1700000000900": clitest.Adds("never"),
	}
}

var oldHeld = map[string]string{"work": "b c d", "jobs": "", "jobs+c1": "x"}

func TestImport(t *testing.T) {
	old, data := clitest.WriteOld(t, oldFiles()), filepath.Join(t.TempDir(), "data")
	before := clitest.FileState(t, old)
	out, errs := runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data, "--dry-run")
	clitest.WantText(t, out, "would import 3 queues, 4 items, 4 bytes; nothing was touched\n")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run made the data directory: %v", err)
	}
	clitest.WantText(t, errs, "skipped .status: ", "skipped work.bak: ")
	if strings.Contains(errs, "~~") {
		t.Errorf("a temporary file is no news: %q", errs)
	}
	out, _ = runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data)
	clitest.WantText(t, out, "work: 3 items, 3 bytes, from work.1700000000500, work;"+
		" 1 open read back at the head\n", "imported 3 queues, 4 items, 4 bytes into "+data+"\n")
	clitest.WantHeld(t, data, oldHeld)
	if clitest.FileState(t, old) != before {
		t.Error("the import changed its source")
	}
	if _, err := os.Stat(importMarkPath(data)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark is still there: %v", err)
	}

	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", old, "--data-dir", data)
	clitest.WantText(t, errs, "nothing was imported", "jobs+c1 (1 item), work (3 items)", "--append")
	clitest.WantHeld(t, data, oldHeld)
	runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data, "--append")
	clitest.WantHeld(t, data, map[string]string{"work": "b c d b c d", "jobs": "", "jobs+c1": "x x"})
}

// TestEndToEndImportServes tests with a server what clients get: the order, nothing that expired, times
// that count from when the items were added, and fanout.
func TestEndToEndImportServes(t *testing.T) {
	files := oldFiles()
	files["expiring"] = slices.Concat(
		oldjournal.Append(nil, &oldjournal.Record{
			Op: oldjournal.OpAddX, Added: clitest.AddedAt, Expiry: 1000, Data: []byte("gone"),
		}), clitest.Adds("stays"))
	files["aged"] = clitest.Adds("old")
	old, data := clitest.WriteOld(t, files), filepath.Join(t.TempDir(), "data")
	runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data)
	config := clitest.WriteConfig(t,
		fmt.Sprintf("data_dir = %q\n[queues.aged]\nmax_age = \"1h\"\n", data))
	c := clitest.Serve(t, "--config", config).Dial()
	c.Ask("get work\nget work\nget work\nget work\n",
		"VALUE work 0 1\nb\nEND\nVALUE work 0 1\nc\nEND\nVALUE work 0 1\nd\nEND\nEND\n")
	c.Ask("get expiring\n", "VALUE expiring 0 5\nstays\nEND\n")
	c.Ask("get aged\n", "END\n")
	c.Ask("set jobs 0 0 1\ny\n", "STORED\n")
	c.Ask("get jobs+c1\nget jobs+c1\n", "VALUE jobs+c1 0 1\nx\nEND\nVALUE jobs+c1 0 1\ny\nEND\n")
}

func TestImportRefuses(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	damaged := clitest.WriteOld(t, map[string][]byte{
		"a": slices.Concat(clitest.Adds("1"), []byte{0x7f}, clitest.Adds("2")), "b": clitest.Adds("3"),
		"c.5": append(clitest.Adds("4"), 2), "c": clitest.Adds("5"),
	})
	_, errs := runJournal(t, cli.ExitFailed, "journal", "import", damaged, "--data-dir", data)
	clitest.WantText(t, errs, damaged+"/a: at offset 22, opcode 127: unknown opcode",
		damaged+"/c.5: at offset 22, opcode 2: the file ends", "nothing was imported", "--salvage")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
	_, errs = runJournal(t, cli.ExitOK, "journal", "import", damaged, "--data-dir", data, "--salvage")
	clitest.WantText(t, errs, "salvaged: left out 23 bytes of a: at offset 22")
	clitest.WantHeld(t, data, map[string]string{"a": "1", "b": "3", "c": "4 5"})

	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", data, "--data-dir", data+"2")
	clitest.WantText(t, errs, "is a data directory of this server")
	if err := os.Rename(data+"/journal", data+"/journal.1"); err != nil { // as after a repair
		t.Fatal(err)
	}
	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", data, "--data-dir", data+"2")
	clitest.WantText(t, errs, "is a data directory of this server")
	if err := os.Rename(data+"/journal.1", data+"/journal"); err != nil {
		t.Fatal(err)
	}
	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", damaged, "--data-dir", damaged+"/.")
	clitest.WantText(t, errs, "import into another one")
	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", data+"3", "--data-dir", data)
	clitest.WantText(t, errs, "no such file")
	_, errs = runJournal(t, cli.ExitUsage, "journal", "import", damaged)
	clitest.WantText(t, errs, "which data directory?")
	_, errs = runJournal(t, cli.ExitUsage, "journal", "import", "--data-dir", data)
	clitest.WantText(t, errs, "takes one directory")

	huge := clitest.WriteOld(t, map[string][]byte{"q": clitest.Adds(strings.Repeat("x", engine.MaxItemSize+1))})
	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", huge, "--data-dir", data+"4")
	clitest.WantText(t, errs, "q: the item at offset 21 has 33554433 bytes", "put that right first")
}

// TestImportHeedsConfig tests that limits of the configuration hold, and that queues without a
// journal are left out.
func TestImportHeedsConfig(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	old := clitest.WriteOld(t, map[string][]byte{
		"kept": clitest.Adds("1", "2"), "fleeting": clitest.Adds("3"), "work": clitest.Adds(strings.Repeat("x", 2<<20)),
	})
	config := func(limit string) string {
		return clitest.WriteConfig(t, fmt.Sprintf("data_dir = %q\nmemory_limit = %q\n"+
			"[default]\nmax_items = 1\n[queues.fleeting]\nkeep_journal = false\n", data, limit))
	}
	_, errs := runJournal(t, cli.ExitFailed, "journal", "import", old, "--config", config("1MiB"))
	clitest.WantText(t, errs, "skipped fleeting: ", "not finished", "larger memory_limit")
	_, _, errs = clitest.RunToEnd(t, "serve", "--data-dir", data)
	clitest.WantText(t, errs, "an import of "+old+" into the data directory "+data+" was interrupted")
	_, errs = runJournal(t, cli.ExitFailed, "journal", "verify", "--data-dir", data)
	clitest.WantText(t, errs, "was interrupted")
	out, _ := runJournal(t, cli.ExitOK, "journal", "inspect", "--data-dir", data)
	clitest.WantText(t, out, "NOT FINISHED: an import of "+old)

	out, _ = runJournal(t, cli.ExitOK, "journal", "import", old, "--config", config("8MiB"))
	clitest.WantText(t, out, "going on with the import")
	got := clitest.Held(t, data)
	if got["kept"] != "1 2" || len(got["work"]) != 2<<20 || len(got) != 2 {
		t.Errorf("%d queues; kept holds %q, work %d bytes", len(got), got["kept"], len(got["work"]))
	}
}

// faultyEngine fails at the n-th item, as a disk does.
type faultyEngine struct {
	*engine.Engine
	left int
}

var errFault = errors.New("fault")

func (f *faultyEngine) Restore(
	now engine.Time, name []byte, it engine.Item, stands engine.Standing,
) (engine.Ticket, error) {
	if f.left == 0 {
		return engine.Ticket{}, errFault
	}
	f.left--
	return f.Engine.Restore(now, name, it, stands)
}

// openImport does what an import does before it writes anything. Close the engine.
func openImport(t *testing.T, old, data string) (*importer, *engine.Engine, *oldDir) {
	t.Helper()
	im := &importer{dir: old, out: io.Discard, warn: io.Discard}
	var err error
	if im.config, err = (&dataPlace{dir: data}).load(); err != nil {
		t.Fatal(err)
	}
	dir, err := readOldDir(old, im.load, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(im.config.Engine)
	if err != nil {
		t.Fatal(err)
	}
	return im, e, dir
}

// beginImport does what an import does before it adds the first item. Close the engine.
func beginImport(t *testing.T, old, data string) (*engine.Engine, *oldDir, *importMark) {
	t.Helper()
	im, e, dir := openImport(t, old, data)
	mark, err := im.mark(e, dir)
	if err != nil {
		t.Fatal(err)
	}
	return e, dir, mark
}

// interruptImport imports and fails at the n-th item.
func interruptImport(t *testing.T, old, data string, n int) {
	t.Helper()
	e, dir, mark := beginImport(t, old, data)
	defer e.Close()
	if err := restoreAll(&faultyEngine{e, n}, dir, mark, nil); !errors.Is(err, errFault) {
		t.Fatalf("import with a fault at item %d: %v", n, err)
	}
}

// slowEngine is ahead of the disk after every item, and out of memory before every other, until it has
// been asked a few times.
type slowEngine struct {
	*engine.Engine
	ahead     int // times that Ahead still says so
	noMemory  int // times that Restore still refuses the item
	restored  int
	refusals  int
	hurryings int // items that came while it was ahead
}

func (s *slowEngine) Restore(
	now engine.Time, name []byte, it engine.Item, stands engine.Standing,
) (engine.Ticket, error) {
	if s.ahead > 0 {
		s.hurryings++
	}
	if s.noMemory > 0 {
		s.noMemory--
		s.refusals++
		return engine.Ticket{}, engine.ErrOutOfMemory
	}
	ticket, err := s.Engine.Restore(now, name, it, stands)
	s.restored++
	s.ahead, s.noMemory = 3, s.restored%2*3
	return ticket, err
}

func (s *slowEngine) Ahead([]byte) bool {
	s.ahead--
	return s.ahead > 0
}

// TestImportWaitsForDisk tests that an import puts no item while the engine is ahead of the disk, and
// that it waits for memory.
func TestImportWaitsForDisk(t *testing.T) {
	old := clitest.WriteOld(t, map[string][]byte{"work": clitest.Adds("a", "b", "c", "d", "e")})
	data := filepath.Join(t.TempDir(), "data")
	e, dir, mark := beginImport(t, old, data)
	defer e.Close()
	slow := &slowEngine{Engine: e}
	if err := restoreAll(slow, dir, mark, nil); err != nil {
		t.Errorf("import into a slow engine: %v", err)
	}
	if slow.restored != 5 || slow.hurryings > 0 || slow.refusals != 6 {
		t.Errorf("%d items restored, want 5; %d came while the engine was ahead of the disk; %d refusals, want 6",
			slow.restored, slow.hurryings, slow.refusals)
	}
}

// TestImportInterrupted stops an import at every item, also into queues that hold some, and runs it
// again. The control leaves the mark of the interrupted import out, as an import would that keeps
// none: items are there twice.
func TestImportInterrupted(t *testing.T) {
	old := clitest.WriteOld(t, oldFiles())
	for n := range 4 {
		data := filepath.Join(t.TempDir(), "data")
		interruptImport(t, old, data, n)
		_, _, errs := clitest.RunToEnd(t, "serve", "--data-dir", data)
		clitest.WantText(t, errs, "was interrupted", importMarkPath(data))
		runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data)
		clitest.WantHeld(t, data, oldHeld)

		data = filepath.Join(t.TempDir(), "data")
		interruptImport(t, old, data, n)
		if err := os.Remove(importMarkPath(data)); err != nil {
			t.Fatal(err)
		}
		runJournal(t, cli.ExitOK, "journal", "import", old, "--data-dir", data, "--append")
		if again := fmt.Sprint(clitest.Held(t, data)) != fmt.Sprint(oldHeld); again != (n > 0) {
			t.Errorf("control, fault at item %d: %q", n, clitest.Held(t, data))
		}
	}
}

// TestImportInterruptedAndChanged tests that an import does not go on with other files than it
// began with.
func TestImportInterruptedAndChanged(t *testing.T) {
	files := oldFiles()
	old, data := clitest.WriteOld(t, files), filepath.Join(t.TempDir(), "data")
	interruptImport(t, old, data, 2)
	before := clitest.FileState(t, filepath.Join(data, "import"))
	if err := os.WriteFile(filepath.Join(old, "work"), clitest.Adds("else"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := runJournal(t, cli.ExitFailed, "journal", "import", old, "--data-dir", data)
	clitest.WantText(t, errs, "is not as it was then", importMarkPath(data))
	if clitest.FileState(t, filepath.Join(data, "import")) != before {
		t.Error("the mark was changed")
	}
	if err := os.WriteFile(importMarkPath(data), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = runJournal(t, cli.ExitFailed, "journal", "import", old, "--data-dir", data)
	clitest.WantText(t, errs, "cannot be read")
}

// TestEndToEndImportKilled kills an import with SIGKILL at random moments and starts it again until
// it is through. The seed is printed; a failure depends on timing too.
func TestEndToEndImportKilled(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	files := make(map[string][]byte)
	want := make(map[string]string)
	for i := range 3 {
		var items []string
		for j := range 20000 {
			items = append(items, fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("x", 100)))
		}
		name := fmt.Sprint("q", i)
		files[name], want[name] = clitest.Adds(items...), strings.Join(items, " ")
	}
	old, data := clitest.WriteOld(t, files), filepath.Join(t.TempDir(), "data")
	kills, resumed := 0, 0
	for through := false; !through; {
		after := time.Duration(rng.IntN(30)) * time.Millisecond
		if kills >= 6 {
			after = clitest.Patience
		}
		said, code := killImport(t, old, data, after)
		if strings.Contains(said, "going on with the import") {
			resumed++
		}
		switch {
		case code == cli.ExitOK:
			through = true
		case code == -1:
			kills++
		case kills > 0 && strings.Contains(said, "hold items already"):
			through = true // it was through, and killed before it could say so
		default:
			t.Fatalf("import = %d\n%s", code, said)
		}
	}
	t.Logf("%d kills, %d imports went on", kills, resumed)
	clitest.WantHeld(t, data, want)
}

// killImport imports, and kills the import that long after it has begun to add items. It returns
// what it said and its exit code, -1 if it was killed.
func killImport(t *testing.T, old, data string, after time.Duration) (said string, code int) {
	t.Helper()
	cmd := clitest.Command(t, "journal", "import", old, "--data-dir", data)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), "importing") || strings.HasPrefix(lines.Text(), "going on") {
			defer time.AfterFunc(after, func() { cmd.Process.Kill() }).Stop()
		}
	}
	cmd.Wait()
	return said + errs.String(), cmd.ProcessState.ExitCode()
}
