package journalcmd

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
)

// TestJournalMissing: beside backlog files there is no journal, as when its disk is not mounted. No command calls that
// beyond repair, or advises a repair, which could save nothing.
func TestJournalMissing(t *testing.T) {
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "backlog"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "backlog", "0000000001.run"), make([]byte, 64), 0o640); err != nil {
		t.Fatal(err)
	}
	for command, code := range map[string]int{"repair": cli.ExitFailed, "verify": cli.ExitDamage} {
		_, errs := runJournal(t, code, "journal", command, "--data-dir", data)
		clitest.WantText(t, errs, "the journal is missing, though ", "is a disk not mounted?", "nothing was changed")
		for _, wrong := range []string{"undamaged", "can save the rest"} {
			if strings.Contains(errs, wrong) {
				t.Errorf("%s says %q", command, errs)
			}
		}
	}
}

// TestRepairNotAllowed tests what a repair says of a directory that this user may not read: what verify says.
func TestRepairNotAllowed(t *testing.T) {
	err := fmt.Errorf("examine data: %w", &fs.PathError{Op: "open", Path: "data/LOCK", Err: syscall.EACCES})
	c := config.Default()
	if got, want := explainRepair(err, c).Error(), config.Explain(err, c).Error(); got != want {
		t.Errorf("explainRepair(%v) = %q, want %q", err, got, want)
	}
}
