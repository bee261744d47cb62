package journalcmd

import (
	"errors"
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

// TestReadRestoring tests what is said of a directory with an unfinished restore, whose files may be cut short. The
// message says only to restore it again, and does not call the journal damaged.
func TestReadRestoring(t *testing.T) {
	data := t.TempDir()
	for name, content := range map[string]string{
		"restoring": "", "journal/0000000001.seg": "KESTRLOG, cut short", "backlog/0000000001.run": "",
	} {
		path := filepath.Join(data, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(content), 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"verify"}, {"inspect"}, {"repair"}, {"repair", "--apply"}, {"export", "--all", "--output", filepath.Join(t.TempDir(), "out")},
	} {
		_, errs := runJournal(t, cli.ExitFailed, append(append([]string{"journal"}, args...), "--data-dir", data)...)
		clitest.WantText(t, errs, "a restore of a backup into the data directory "+data+" was interrupted")
	}
}
