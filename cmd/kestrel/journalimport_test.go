package main

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

	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
)

// oldFiles are journals with rotated files, an open read, a fanout child and an empty queue.
func oldFiles() map[string][]byte {
	return map[string][]byte{
		"work.1700000000500": adds("a", "b", "c"),
		"work": slices.Concat(record(oldjournal.OpRemove, 0),
			record(oldjournal.OpRemoveTentativeXID, 1), adds("d")),
		"jobs": nil, "jobs+c1": adds("x"), ".status": []byte("Up\n"), "work.bak": nil,
		"work~~1700000000900": adds("never"),
	}
}

var oldHeld = map[string]string{"work": "b c d", "jobs": "", "jobs+c1": "x"}

func TestImport(t *testing.T) {
	old, data := writeOld(t, oldFiles()), filepath.Join(t.TempDir(), "data")
	before := fileState(t, old)
	out, errs := runIn(t, exitOK, "journal", "import", old, "--data-dir", data, "--dry-run")
	wantText(t, out, "would import 3 queues, 4 items, 4 bytes; nothing was touched\n")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run made the data directory: %v", err)
	}
	wantText(t, errs, "skipped .status: ", "skipped work.bak: ")
	if strings.Contains(errs, "~~") {
		t.Errorf("a temporary file is no news: %q", errs)
	}
	out, _ = runIn(t, exitOK, "journal", "import", old, "--data-dir", data)
	wantText(t, out, "work: 3 items, 3 bytes, from work.1700000000500, work;"+
		" 1 open read back at the head\n", "imported 3 queues, 4 items, 4 bytes into "+data+"\n")
	wantHeld(t, data, oldHeld)
	if fileState(t, old) != before {
		t.Error("the import changed its source")
	}
	if _, err := os.Stat(importMarkPath(data)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark is still there: %v", err)
	}

	_, errs = runIn(t, exitFailed, "journal", "import", old, "--data-dir", data)
	wantText(t, errs, "nothing was imported", "jobs+c1 (1 item), work (3 items)", "--append")
	wantHeld(t, data, oldHeld)
	runIn(t, exitOK, "journal", "import", old, "--data-dir", data, "--append")
	wantHeld(t, data, map[string]string{"work": "b c d b c d", "jobs": "", "jobs+c1": "x x"})
}

// TestImportServes tests with a server what clients get: the order, nothing that expired, times
// that count from when the items were added, and fanout.
func TestImportServes(t *testing.T) {
	files := oldFiles()
	files["expiring"] = slices.Concat(
		oldjournal.Append(nil, &oldjournal.Record{
			Op: oldjournal.OpAddX, Added: addedAt, Expiry: 1000, Data: []byte("gone"),
		}), adds("stays"))
	files["aged"] = adds("old")
	old, data := writeOld(t, files), filepath.Join(t.TempDir(), "data")
	runIn(t, exitOK, "journal", "import", old, "--data-dir", data)
	config := writeConfig(t,
		fmt.Sprintf("data_dir = %q\n[queues.aged]\nmax_age = \"1h\"\n", data))
	c := serveProcess(t, "--config", config).dial()
	c.ask("get work\nget work\nget work\nget work\n",
		"VALUE work 0 1\nb\nEND\nVALUE work 0 1\nc\nEND\nVALUE work 0 1\nd\nEND\nEND\n")
	c.ask("get expiring\n", "VALUE expiring 0 5\nstays\nEND\n")
	c.ask("get aged\n", "END\n")
	c.ask("set jobs 0 0 1\ny\n", "STORED\n")
	c.ask("get jobs+c1\nget jobs+c1\n", "VALUE jobs+c1 0 1\nx\nEND\nVALUE jobs+c1 0 1\ny\nEND\n")
}

func TestImportRefuses(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	damaged := writeOld(t, map[string][]byte{
		"a": slices.Concat(adds("1"), []byte{0x7f}, adds("2")), "b": adds("3"),
		"c.5": append(adds("4"), 2), "c": adds("5"),
	})
	_, errs := runIn(t, exitFailed, "journal", "import", damaged, "--data-dir", data)
	wantText(t, errs, damaged+"/a: at offset 22, opcode 127: unknown opcode",
		damaged+"/c.5: at offset 22, opcode 2: the file ends", "nothing was imported", "--salvage")
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the data directory was made: %v", err)
	}
	_, errs = runIn(t, exitOK, "journal", "import", damaged, "--data-dir", data, "--salvage")
	wantText(t, errs, "salvaged: left out 23 bytes of a: at offset 22")
	wantHeld(t, data, map[string]string{"a": "1", "b": "3", "c": "4 5"})

	_, errs = runIn(t, exitFailed, "journal", "import", data, "--data-dir", data+"2")
	wantText(t, errs, "is a data directory of this server")
	_, errs = runIn(t, exitFailed, "journal", "import", damaged, "--data-dir", damaged+"/.")
	wantText(t, errs, "import into another one")
	_, errs = runIn(t, exitFailed, "journal", "import", data+"3", "--data-dir", data)
	wantText(t, errs, "no such file")
	_, errs = runIn(t, exitUsage, "journal", "import", damaged)
	wantText(t, errs, "which data directory?")
	_, errs = runIn(t, exitUsage, "journal", "import", "--data-dir", data)
	wantText(t, errs, "takes one directory")

	huge := writeOld(t, map[string][]byte{"q": adds(strings.Repeat("x", engine.MaxItemSize+1))})
	_, errs = runIn(t, exitFailed, "journal", "import", huge, "--data-dir", data+"4")
	wantText(t, errs, "q: the item at offset 21 has 33554433 bytes", "put that right first")
}

// TestImportHeedsConfig tests that limits of the configuration hold, and that queues without a
// journal are left out.
func TestImportHeedsConfig(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	old := writeOld(t, map[string][]byte{
		"kept": adds("1", "2"), "fleeting": adds("3"), "work": adds(strings.Repeat("x", 2<<20)),
	})
	config := func(limit string) string {
		return writeConfig(t, fmt.Sprintf("data_dir = %q\nmemory_limit = %q\n"+
			"[default]\nmax_items = 1\n[queues.fleeting]\nkeep_journal = false\n", data, limit))
	}
	_, errs := runIn(t, exitFailed, "journal", "import", old, "--config", config("1MiB"))
	wantText(t, errs, "skipped fleeting: ", "not finished", "larger memory_limit")
	_, errs = runIn(t, exitFailed, "serve", "--data-dir", data)
	wantText(t, errs, "an import of "+old+" into the data directory "+data+" was interrupted")
	_, errs = runIn(t, exitFailed, "journal", "verify", "--data-dir", data)
	wantText(t, errs, "was interrupted")
	out, _ := runIn(t, exitOK, "journal", "inspect", "--data-dir", data)
	wantText(t, out, "NOT FINISHED: an import of "+old)

	out, _ = runIn(t, exitOK, "journal", "import", old, "--config", config("8MiB"))
	wantText(t, out, "going on with the import")
	got := held(t, data)
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
	now engine.Time, name []byte, it engine.Item,
) (engine.Ticket, error) {
	if f.left == 0 {
		return engine.Ticket{}, errFault
	}
	f.left--
	return f.Engine.Restore(now, name, it)
}

// interruptImport imports and fails at the n-th item.
func interruptImport(t *testing.T, old, data string, n int) {
	t.Helper()
	im := &importer{dir: old, out: io.Discard, warn: io.Discard}
	var err error
	if im.config, err = (&dataPlace{dir: data}).load(); err != nil {
		t.Fatal(err)
	}
	dir, err := readOldDir(old, im.load)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(im.config.engine)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	mark, err := im.mark(e, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := restoreAll(&faultyEngine{e, n}, dir, mark); !errors.Is(err, errFault) {
		t.Fatalf("import with a fault at item %d: %v", n, err)
	}
}

// TestImportInterrupted stops an import at every item, also into queues that hold some, and runs it
// again. The control leaves the mark of the interrupted import out, as an import would that keeps
// none: items are there twice.
func TestImportInterrupted(t *testing.T) {
	old := writeOld(t, oldFiles())
	for n := range 4 {
		data := filepath.Join(t.TempDir(), "data")
		interruptImport(t, old, data, n)
		_, errs := runIn(t, exitFailed, "serve", "--data-dir", data)
		wantText(t, errs, "was interrupted", importMarkPath(data))
		runIn(t, exitOK, "journal", "import", old, "--data-dir", data)
		wantHeld(t, data, oldHeld)

		data = filepath.Join(t.TempDir(), "data")
		interruptImport(t, old, data, n)
		if err := os.Remove(importMarkPath(data)); err != nil {
			t.Fatal(err)
		}
		runIn(t, exitOK, "journal", "import", old, "--data-dir", data, "--append")
		if again := fmt.Sprint(held(t, data)) != fmt.Sprint(oldHeld); again != (n > 0) {
			t.Errorf("control, fault at item %d: %q", n, held(t, data))
		}
	}
}

// TestImportInterruptedAndChanged tests that an import does not go on with other files than it
// began with.
func TestImportInterruptedAndChanged(t *testing.T) {
	files := oldFiles()
	old, data := writeOld(t, files), filepath.Join(t.TempDir(), "data")
	interruptImport(t, old, data, 2)
	before := fileState(t, filepath.Join(data, "import"))
	if err := os.WriteFile(filepath.Join(old, "work"), adds("else"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs := runIn(t, exitFailed, "journal", "import", old, "--data-dir", data)
	wantText(t, errs, "is not as it was then", importMarkPath(data))
	if fileState(t, filepath.Join(data, "import")) != before {
		t.Error("the mark was changed")
	}
	if err := os.WriteFile(importMarkPath(data), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = runIn(t, exitFailed, "journal", "import", old, "--data-dir", data)
	wantText(t, errs, "cannot be read")
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
		files[name], want[name] = adds(items...), strings.Join(items, " ")
	}
	old, data := writeOld(t, files), filepath.Join(t.TempDir(), "data")
	kills, resumed := 0, 0
	for through := false; !through; {
		after := time.Duration(rng.IntN(30)) * time.Millisecond
		if kills >= 6 {
			after = patience
		}
		said, code := killImport(t, old, data, after)
		if strings.Contains(said, "going on with the import") {
			resumed++
		}
		switch {
		case code == exitOK:
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
	wantHeld(t, data, want)
}

// killImport imports, and kills the import that long after it has begun to add items. It returns
// what it said and its exit code, -1 if it was killed.
func killImport(t *testing.T, old, data string, after time.Duration) (said string, code int) {
	t.Helper()
	cmd := kestrel(t, "journal", "import", old, "--data-dir", data)
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
