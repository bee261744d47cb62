package embedded

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/client/backend"
)

// TestMemoryRemovesLeftovers opens a store beside directories of others: of one that is open, of one whose process was
// killed, and of some that are none. It removes that of the dead one alone.
func TestMemoryRemovesLeftovers(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	open := func() *Store {
		s, err := Memory(Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	alive := open()
	for name, file := range map[string]string{
		"kestrel-memory-1": "LOCK", "kestrel-memory-2": "no-lock-yet", "kestrel-memory-mine": "LOCK", "other": "LOCK",
	} {
		if err := os.Mkdir(filepath.Join(temp, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(temp, name, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(temp, "other"), filepath.Join(temp, "kestrel-memory-3")); err != nil {
		t.Fatal(err)
	}
	second := open()
	for _, dir := range []string{
		alive.temp, second.temp, "kestrel-memory-2", "kestrel-memory-3/LOCK", "kestrel-memory-mine/LOCK", "other/LOCK",
	} {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(temp, dir)
		}
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("it is gone: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(temp, "kestrel-memory-1")); !os.IsNotExist(err) {
		t.Errorf("the directory of a store that was killed: %v, want none", err)
	}
	k := backend.Key{Queue: backend.Queue{Account: "a", Name: "q"}, ID: "m"}
	if _, err := alive.Put(t.Context(), k, []byte("x"), backend.Attributes{}); err != nil {
		t.Errorf("Put to the store that was open: %v", err)
	}
}
