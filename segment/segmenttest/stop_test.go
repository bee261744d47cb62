package segmenttest

import (
	"errors"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
)

func TestStopAt(t *testing.T) {
	run := func(f *FS) error { // 7 mutating calls
		err := f.MkdirAll("d")
		h, errCreate := f.Create("d/f")
		if errCreate != nil {
			return errors.Join(err, errCreate)
		}
		_, errWrite := h.WriteAt([]byte("abc"), 0)
		_, errRead := h.ReadAt([]byte{0}, 0)
		return errors.Join(err, errWrite, errRead, h.Datasync(), f.SyncDir("d"),
			h.Truncate(1), f.Rename("d/f", "d/g"), h.Close())
	}
	ends := []string{ // what is there after a stop at call n, "current durable"
		1: "- -", "- -", "d/f= -", "d/f=abc -", "d/f=abc -", "d/f=abc d/f=abc", "d/f=a d/f=abc",
		"d/g=a d/f=abc",
	}
	text := func(f *FS) string {
		for path, data := range dump(t, f) {
			return path + "=" + data
		}
		return "-"
	}
	for n := 1; n < len(ends); n++ {
		f := New()
		f.StopAt(n)
		err := run(f)
		if got := text(f) + " " + text(f.PowerCut(lose)); got != ends[n] {
			t.Errorf("stop at %d leaves %q, want %q", n, got, ends[n])
		}
		if stops := n < len(ends)-1; f.Stopped() != stops || errors.Is(err, ErrStopped) != stops {
			t.Errorf("stop at %d: Stopped = %v, error %v, want %v", n, f.Stopped(), err, stops)
		}
		if calls := f.MutatingCalls(); (calls >= n) != f.Stopped() {
			t.Errorf("stop at %d: MutatingCalls = %d, Stopped = %v", n, calls, f.Stopped())
		}
		if got := f.OpenFiles(); len(got) != 0 {
			t.Errorf("stop at %d: open files %q, want Close to have closed them", n, got)
		}
		if image := f.Kill(); f.Stopped() {
			check(t, image.MkdirAll("e")) // the next machine runs
		}
	}
}

func TestStoppedMachineAnswersNothing(t *testing.T) {
	f := New()
	put(t, f, "f", "abc")
	h, err := f.Open("f")
	check(t, err)
	f.SetFault(func(Op) Fault { t.Errorf("the hook was asked after the stop"); return Fault{} })
	f.StopAt(1)
	if err := f.SyncDir("/"); !errors.Is(err, ErrStopped) {
		t.Errorf("the stopped call: %v, want ErrStopped", err)
	}
	_, errRead := h.ReadAt([]byte{0}, 0)
	_, errList := f.List("/")
	_, errOpen := f.Open("f")
	for what, err := range map[string]error{
		"ReadAt": errRead, "List": errList, "Open": errOpen,
		"Datasync": h.Datasync(), "Close": h.Close(),
	} {
		if !errors.Is(err, ErrStopped) {
			t.Errorf("%s after the stop: %v, want ErrStopped", what, err)
		}
	}
}

func TestStopInWrite(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	f.StopInWrite(f.MutatingCalls()+2, 2)
	write(t, h, "....", 0)
	if n, err := h.WriteAt([]byte("abc"), 1); n != 2 || !errors.Is(err, ErrStopped) {
		t.Errorf("the stopped write = %d, %v, want 2, ErrStopped", n, err)
	}
	if n, err := h.WriteAt([]byte("x"), 0); n != 0 || !errors.Is(err, ErrStopped) {
		t.Errorf("the next write = %d, %v, want 0, ErrStopped", n, err)
	}
	wantFiles(t, "kill", f.Kill(), map[string]string{"f": ".ab."})
}

func TestStopInDatasyncDropsNothing(t *testing.T) {
	f := New()
	h := create(t, f, "f")
	check(t, f.SyncDir("/"))
	write(t, h, "abc", 0)
	f.StopAt(f.MutatingCalls() + 1)
	if err := h.Datasync(); !errors.Is(err, ErrStopped) {
		t.Errorf("Datasync = %v, want ErrStopped", err)
	}
	image := f.Kill()
	again, err := image.Open("f")
	check(t, err)
	check(t, again.Datasync())
	wantFiles(t, "kill, sync, lose", image.PowerCut(lose), map[string]string{"f": "abc"})
}

// TestSyncedIsNeverLost does what a careful program does, stops it at every call, and cuts the
// power.
func TestSyncedIsNeverLost(t *testing.T) {
	replace := func(f *FS, data string) error { // of the file "f"
		var h segment.File
		h, err := f.Create("f~")
		if err != nil {
			return err
		}
		if _, err = h.WriteAt([]byte(data), 0); err == nil {
			err = h.Datasync()
		}
		if errClose := h.Close(); err == nil {
			err = errClose
		}
		if err == nil {
			err = f.Rename("f~", "f")
		}
		if err == nil {
			err = f.SyncDir("/")
		}
		return err
	}
	for n, done := 1, false; !done; n++ {
		f := New()
		put(t, f, "f", "old")
		f.StopAt(n)
		want := []string{"old", "new"}
		if err := replace(f, "new"); err == nil {
			want, done = want[1:], true
		}
		for seed := range uint64(200) {
			opts := CutOptions{Seed: seed, ReorderMetadata: seed%2 == 1}
			if got := contents("f")(f.PowerCut(opts)); !slices.Contains(want, got) {
				t.Errorf("stop at %d, %+v: f is %q, want one of %q", n, opts, got, want)
			}
		}
	}
}
