package journalcmd

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// TestWriteDurablyChangesNothing fails at each step: no file is left, neither under its name nor under the temporary one.
func TestWriteDurablyChangesNothing(t *testing.T) {
	broken := errors.New("broken disk")
	for _, step := range []string{"write", "sync of the directory"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "q")
		err := writeDurably(path, filepath.Join(dir, "export~~1"), func(w io.Writer) error {
			io.WriteString(w, "items")
			if step == "write" {
				return broken
			}
			return nil
		}, func(string) error { return broken })
		if entries, _ := os.ReadDir(dir); !errors.Is(err, broken) || len(entries) > 0 {
			t.Errorf("%s: %v, and the directory has %v; want an error, and nothing", step, err, entries)
		}
	}
}

// TestExportRemovesLeftovers exports beside unfinished files: of an export that was killed, of one that goes on, and of the
// original for a queue called export. It removes those of the dead one alone.
func TestExportRemovesLeftovers(t *testing.T) {
	data, out := t.TempDir(), t.TempDir()
	fillRandomly(t, rand.New(rand.NewPCG(1, 0)), data)
	for _, name := range []string{"export~~1~2", "export~~1~2.supplement", "export~~1234567890123", "other"} {
		if err := os.WriteFile(filepath.Join(out, name), []byte("a part"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := createLocked(filepath.Join(out, "export~~3~4"))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	runJournal(t, cli.ExitOK, "journal", "export", "work", "--data-dir", data, "--output", out)
	var names []string
	entries, err := os.ReadDir(out)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if want := []string{"export~~1234567890123", "export~~3~4", "other", supplementName("work"), "work"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("the directory has %v, %v, want %v", names, err, want)
	}
}
