package journalcmd

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
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
