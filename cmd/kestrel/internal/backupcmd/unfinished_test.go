package backupcmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// TestBackupUnfinished tests that no backup is made of a directory with a part of an import or of a restore. What is
// restored from it would look whole. Nor does a backup go into the data directory itself.
func TestBackupUnfinished(t *testing.T) {
	data, output := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	e, err := engine.Open(engine.Options{Dir: data, Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for _, mark := range []struct{ name, text string }{{"import", `{"source":"old"}`}, {"restoring", ""}} {
		if err := os.WriteFile(filepath.Join(data, mark.name), []byte(mark.text), 0o640); err != nil {
			t.Fatal(err)
		}
		code, _, errs := clitest.RunToEnd(t, "backup", "--stopped", "--data-dir", data, "--output", output)
		if code != cli.ExitFailed {
			t.Errorf("a backup of a directory with the file %s = %d, want %d", mark.name, code, cli.ExitFailed)
		}
		clitest.WantText(t, errs, "was interrupted")
		if err := os.Remove(filepath.Join(data, mark.name)); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errs := clitest.RunToEnd(t, "backup", "--stopped", "--data-dir", data, "--output", output); code != cli.ExitOK {
		t.Errorf("a backup = %d: %s", code, errs)
	}
	for _, args := range [][]string{ // a backup has files of other names, and looked like an empty data directory
		{"backup", "--stopped", "--output", data + "-again"}, {"journal", "verify"}, {"journal", "inspect"}, {"journal", "repair"},
		{"journal", "export", "--all", "--output", data + "-old"}, clitest.ServeArgs(),
	} {
		code, _, errs := clitest.RunToEnd(t, append(args, "--data-dir", output)...)
		if code != cli.ExitFailed {
			t.Errorf("kestrel %s of a backup = %d, want %d", args, code, cli.ExitFailed)
		}
		clitest.WantText(t, errs, output+" is a backup, and no data directory")
	}
	code, _, errs := clitest.RunToEnd(t, "backup", "--stopped", "--data-dir", data, "--output", data)
	if code != cli.ExitFailed {
		t.Errorf("a backup into its own data directory = %d, want %d", code, cli.ExitFailed)
	}
	clitest.WantText(t, errs, "is in use by this command itself: ")
	code, _, errs = clitest.RunToEnd(t, "restore", output, "--data-dir", data)
	if code != cli.ExitFailed {
		t.Errorf("a restore over other data = %d, want %d", code, cli.ExitFailed)
	}
	clitest.WantText(t, errs, "nothing was restored: "+data+" is not empty")
	if files, err := filepath.Glob(filepath.Join(output, "journal", "*")); err != nil || len(files) == 0 {
		t.Fatalf("the backup has %v, %v", files, err)
	} else if err := os.Truncate(files[0], 1); err != nil {
		t.Fatal(err)
	}
	code, _, errs = clitest.RunToEnd(t, "restore", output, "--data-dir", data+"-new")
	if code != cli.ExitFailed {
		t.Errorf("a restore of a damaged backup = %d, want %d", code, cli.ExitFailed)
	}
	clitest.WantText(t, errs, "the restore is not complete: ", "; no server starts on "+data+"-new now, and the next restore there begins anew")
}
