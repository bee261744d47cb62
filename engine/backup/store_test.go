package backup

import (
	"bytes"
	"maps"
	"path"
	"slices"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestStorePowerCut cuts the power at every change that Store makes to the disk. The earlier backup, or the
// new one, can be restored, and the next try ends well without what had come.
func TestStorePowerCut(t *testing.T) {
	w := newWorld(t, 3)
	w.steps(40)
	base := segmenttest.New()
	stream, first := w.stream(nil, 0)
	if _, err := Store(base, "backup", stream); err != nil {
		t.Fatal(err)
	}
	w.steps(25)
	have, err := Held(base, "backup")
	if err != nil {
		t.Fatal(err)
	}
	stream, second := w.stream(have, 0)
	for n := 1; ; n += stride() {
		disk := base.Kill()
		disk.StopAt(n)
		_, err := Store(disk, "backup", bytes.NewReader(stream.Bytes()))
		whole := err == nil
		for mode, after := range map[string]*segmenttest.FS{
			"kill": disk.Kill(), "cut": disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}),
		} {
			if _, err := Restore(after, "data", FromDir(after, "backup")); err != nil {
				t.Fatalf("%s at change %d: %v", mode, n, err)
			}
			got := contents(t, after, "data")
			if !maps.EqualFunc(got, first, slices.Equal[[]string]) {
				checkHeld(t, got, second)
			} else if whole {
				t.Errorf("%s behind a whole Store: the earlier backup is there", mode)
			}
			if _, err := Store(after, "backup", bytes.NewReader(stream.Bytes())); err != nil {
				t.Fatalf("%s at change %d, again: %v", mode, n, err)
			}
			if _, err := Check(FromDir(after, "backup")); err != nil {
				t.Fatalf("%s at change %d, again: %v", mode, n, err)
			}
			if t.Failed() {
				t.Fatalf("%s at change %d", mode, n)
			}
		}
		if whole {
			return
		}
	}
}

// TestFilesThatStay has a disk that removes no file of the earlier backup. The new backup is whole all the same, and
// the next one tidies up. Each backup is of a world of its own, so that none has a file in common with the one before.
func TestFilesThatStay(t *testing.T) {
	disk := segmenttest.New()
	for i := range 3 {
		w := newWorld(t, uint64(3+i))
		w.steps(40)
		stream, held := w.stream(nil, 0)
		if i == 1 {
			disk.SetFault(func(op segmenttest.Op) (f segmenttest.Fault) {
				if op.Kind == segmenttest.OpRemove && path.Ext(op.Path) != partExt && path.Ext(op.Path) != newExt {
					f.Err = syscall.EACCES
				}
				return f
			})
		}
		r, err := Store(disk, "backup", stream)
		disk.SetFault(nil)
		if err != nil || (r.Stays != nil) != (i == 1) {
			t.Fatalf("backup %d = %+v, %v", i, r, err)
		}
		after := disk.Kill()
		if _, err := Restore(after, "data", FromDir(after, "backup")); err != nil {
			t.Fatal(err)
		}
		checkHeld(t, contents(t, after, "data"), held)
	}
}
