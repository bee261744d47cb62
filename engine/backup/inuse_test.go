package backup

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/internal/dirlock"
	"github.com/kestrelmq/kestrel/segment"
)

// TestInUse tests that neither a restore nor a backup writes to a directory that another one, or a server, uses. When
// nobody uses it any more, both do.
func TestInUse(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	e, err := engine.Open(engine.Options{Dir: in("data"), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	if err := StreamStopped(&stream, segment.OS{}, in("data"), nil); err != nil {
		t.Fatal(err)
	}
	for what, write := range map[string]func(dir string) error{
		"Restore": func(dir string) error {
			_, err := Restore(segment.OS{}, dir, FromStream(bytes.NewReader(stream.Bytes())))
			return err
		},
		"Store": func(dir string) error {
			_, err := Store(segment.OS{}, dir, bytes.NewReader(stream.Bytes()))
			return err
		},
	} {
		dir := in(what)
		other, err := dirlock.Make(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"restoring", "journal/0000000009.seg"} { // a restore under way
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o640); err != nil {
				t.Fatal(err)
			}
		}
		before := namesIn(t, dir)
		if err := write(dir); !errors.Is(err, engine.ErrLocked) {
			t.Errorf("%s to a directory in use = %v, want ErrLocked", what, err)
		}
		if got := namesIn(t, dir); !slices.Equal(got, before) {
			t.Errorf("%s to a directory in use left %q of %q", what, got, before)
		}
		if err := other.Release(); err != nil {
			t.Fatal(err)
		}
		if err := write(dir); err != nil {
			t.Errorf("%s to a directory that nobody uses any more = %v", what, err)
		}
	}
}

// namesIn returns the paths of all files in dir.
func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, found...)
	}
	return names
}
