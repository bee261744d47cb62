package journalcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndRepair damages the middle of a directory that a killed server left behind. It has repair say what is
// lost, and then mend the directory, and it serves what is left.
func TestEndToEndRepair(t *testing.T) {
	data, segment := killedDir(t)
	out, _ := runJournal(t, cli.ExitOK, "journal", "repair", "--data-dir", data)
	clitest.WantText(t, out, "sound, backlogs included: 1 queue, 5 items, 25 bytes\n")

	overwrite(t, segment, lastBatch(t, segment)) // nothing vouches for it yet
	out, errs := runJournal(t, cli.ExitTorn, "journal", "repair", "--data-dir", data)
	clitest.WantText(t, out, "torn: "+segment+", offset ", "left: 1 queue, 4 items")
	clitest.WantText(t, errs, "nothing was changed")

	overwrite(t, segment, 140) // the queue's name, and its first item
	before := clitest.FileState(t, data)
	out, errs = runJournal(t, cli.ExitDamage, "journal", "repair", "--data-dir", data)
	clitest.WantText(t, out, "damaged: "+segment+", offset 136: ", "lost: queue \"recovered-1\": up to 1 item,"+
		" ids 1 to 1, in the journal\n", "not known: ", "renamed: ", "left: 1 queue, 3 items, 15 bytes\n")
	clitest.WantText(t, errs, "nothing was changed: --apply repairs it")
	if clitest.FileState(t, data) != before {
		t.Error("repair without --apply changed the data directory")
	}
	original, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}

	out, _ = runJournal(t, cli.ExitOK, "journal", "repair", "--apply", "--data-dir", data)
	clitest.WantText(t, out, "repaired; what was there before is in "+filepath.Join(data, "damaged.1")+"\n")
	copied, err := os.ReadFile(filepath.Join(data, "damaged.1", "journal", filepath.Base(segment)))
	if err != nil || string(copied) != string(original) {
		t.Errorf("the copy of %s has %d bytes, not the same: %v", segment, len(copied), err)
	}
	out, _ = runJournal(t, cli.ExitOK, "journal", "verify", "--data-dir", data)
	clitest.WantText(t, out, "sound: ", " 1 queue, 3 items\n")
	out, _ = runJournal(t, cli.ExitOK, "journal", "repair", "--data-dir", data)
	clitest.WantText(t, out, "kept by an earlier repair: "+filepath.Join(data, "damaged.1")+": remove it ",
		"sound, backlogs included: 1 queue, 3 items")
	p := clitest.Serve(t, "--data-dir", data)
	c := p.Dial()
	c.Ask("get recovered-1\n", "VALUE recovered-1 7 5\nhello\nEND\n")
	if _, errs := runJournal(t, cli.ExitFailed, "journal", "repair", "--data-dir", data); !strings.Contains(errs,
		"in use by another server") {
		t.Errorf("repair beside a server: %s", errs)
	}
	p.Signal(os.Interrupt)
	p.ExitCode()
	_, errs = runJournal(t, cli.ExitFailed, "journal", "repair", "--data-dir", t.TempDir())
	clitest.WantText(t, errs, "there is no journal in ")
	_, errs = runJournal(t, cli.ExitUsage, "journal", "repair", "extra", "--data-dir", data)
	clitest.WantText(t, errs, "takes no arguments")
}
