package clientcmd

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestDrainFileStays tests that drain has the name of its file on the disk before it takes an item. If that fails, no
// file stays.
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
	if info, err := file.Stat(); err != nil || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("the file has the mode %v, %v; want that others may not read it", info.Mode(), err)
	}
	if synced != dir {
		t.Errorf("makeDurably synced %q, want %q", synced, dir)
	}
}

// TestEndToEndDrainFull tests that a disk that is full leaves whole items in the file, and none of those that are in the
// queue again.
func TestEndToEndDrainFull(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ seq 1000 1999 | kestrel put work
1,000 items put into "work"
$ trap '' XFSZ; ulimit -f 1; kestrel drain work --to items --yes
… items of "work" are in items
kestrel: write to items: file too large; what was taken last is in "work" again
$ (cat items; kestrel get work --all) | cmp - <(seq 1000 1999) && echo each is there once
each is there once
`)
}

// TestEndToEndDrainEnds tests that drain takes no item whose end the file would not show.
func TestEndToEndDrainEnds(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ printf 'one\0two\nlines\0three\0' | kestrel put work -0
3 items put into "work"
$ kestrel drain work --to items --yes
kestrel: write to items: an item holds a line end, so the file would not say where it ends: say -0, or --any; what was taken last is in "work" again
$ kestrel drain work --to items -0 --yes --output json
{"queue":"work","to":"items","taken":3}
$ kestrel put work -0 < items
3 items put into "work"
$ kestrel drain work --to any --any --yes
3 items of "work" are in any
$ printf 'a\0b\n' | kestrel put work
1 item put into "work"
$ kestrel drain work --to more -0 --yes --output json; test -e more || echo there is no file
{"queue":"work","to":"more","taken":0}
kestrel: write to more: an item holds a NUL, so the file would not say where it ends: say --any if it need not; what was taken last is in "work" again
there is no file
$ kestrel drain work --to - --any --yes 2>&1 | od -c | head -1
0000000   a  \0   b  \n   1       i   t   e   m       o   f       "   w
`)
}
