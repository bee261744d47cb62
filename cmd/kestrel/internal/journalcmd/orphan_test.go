package journalcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

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
