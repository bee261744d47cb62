package clientcmd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestDrainFileStays tests that the name of the file to drain into is on the disk before an item is taken, and that
// there is no file if it cannot be.
func TestDrainFileStays(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "items")
	broken := errors.New("broken disk")
	if _, err := makeDurably(path, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("makeDurably on a broken disk = %v, want %v", err, broken)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of a drain that did not begin: %v, want that it is not there", err)
	}
	var synced string
	file, err := makeDurably(path, func(dir string) error {
		synced = dir
		_, err := os.Lstat(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if synced != dir {
		t.Errorf("makeDurably synced %q, want %q", synced, dir)
	}
}
