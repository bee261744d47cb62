package journalcmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestImportRestoring tests that nothing is imported into a directory with an unfinished restore: the next restore, which
// is to be run there, would remove it.
func TestImportRestoring(t *testing.T) {
	old, data := clitest.WriteOld(t, oldFiles()), t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "restoring"), nil, 0o640); err != nil {
		t.Fatal(err)
	}
	before := clitest.FileState(t, data)
	_, errs := runJournal(t, cli.ExitFailed, "journal", "import", old, "--data-dir", data)
	clitest.WantText(t, errs, "a restore of a backup into the data directory "+data+" was interrupted")
	if clitest.FileState(t, data) != before {
		t.Error("the import changed the directory")
	}
}
