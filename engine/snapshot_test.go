package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// dump is every queue and item of an engine as text.
func dump(e *Engine) string {
	var b strings.Builder
	for _, q := range e.Queues(Now()) {
		fmt.Fprintf(&b, "%s next %d:", q.Name, e.NextID([]byte(q.Name)))
		for _, it := range contents(e, q.Name, false) {
			fmt.Fprintf(&b, " %d=%.10q,%d,%d", it.ID, it.Data, it.Added, it.Expiry)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// snapshotDump is dump of a snapshot.
func snapshotDump(t testing.TB, s *Snapshot) string {
	t.Helper()
	var b strings.Builder
	for _, q := range s.Queues {
		fmt.Fprintf(&b, "%s next %d:", q.Name, q.NextID)
		count, bytes := int64(0), int64(0)
		var oldest, newest Time
		s.Each(q.Name, func(it Item) bool {
			fmt.Fprintf(&b, " %d=%.10q,%d,%d", it.ID, it.Data, it.Added, it.Expiry)
			if count == 0 {
				oldest = it.Added
			}
			newest = it.Added
			count++
			bytes += int64(len(it.Data))
			return true
		})
		b.WriteString("\n")
		if q.Items != count || q.Bytes != bytes || q.Oldest != oldest || q.Newest != newest {
			t.Errorf("%+v, but Each gave %d items, %d bytes, added %d to %d",
				q, count, bytes, oldest, newest)
		}
	}
	return b.String()
}

// smallJournal is what the death of a process leaves behind in which a bit of everything happened.
func smallJournal(t testing.TB) *segmenttest.FS {
	fsys := newFS()
	o := testOptions(fsys)
	o.SegmentSize = 1024
	e := openQuiet(t, o)
	for i := range 12 {
		mustPut(t, e, "work", fmt.Sprintf("item %d %s", i, strings.Repeat("x", 40)))
		mustPut(t, e, fmt.Sprintf("q%d", i%3), "other")
	}
	for range 5 {
		mustGet(t, e, "work")
	}
	mustOpen(t, e, "work")
	mustCommit(t, e, e.Delete(Now(), []byte("q1")))
	return fsys.Kill()
}

// contentsOf is every file's content by its path.
func contentsOf(t testing.TB, fsys *segmenttest.FS) string {
	t.Helper()
	var b strings.Builder
	for _, name := range fsys.Paths() {
		data, err := fsys.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", name, data)
	}
	return b.String()
}

// TestInspect tests that a snapshot holds what Open finds, and that making one changes nothing.
func TestInspect(t *testing.T) {
	fsys := smallJournal(t)
	before := contentsOf(t, fsys)
	s, err := Inspect(testOptions(fsys))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Segments) < 2 {
		t.Errorf("%d segments: the test wants several", len(s.Segments))
	}
	got := snapshotDump(t, s)
	if err := s.Each("q1", func(Item) bool { return true }); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the deleted queue is there")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if contentsOf(t, fsys) != before {
		t.Error("Inspect changed a file")
	}
	if want := dump(openQuiet(t, testOptions(fsys))); got != want {
		t.Errorf("Inspect:\n%s\nOpen:\n%s", got, want)
	}
}

// TestInspectAgreesWithOpen damages every byte of a journal, and cuts it at every length. Inspect
// says what Open says: damage at the same place, or a tear there and the same items.
func TestInspectAgreesWithOpen(t *testing.T) {
	fsys := smallJournal(t)
	cases := 0
	check := func(what string, damage func(*segmenttest.FS) error) {
		cases++
		broken := fsys.Kill()
		if err := damage(broken); err != nil {
			t.Fatal(err)
		}
		s, inspected := Inspect(testOptions(broken))
		e, opened := open(testOptions(broken.Kill()))
		var a, b *segment.CorruptionError
		if errors.As(inspected, &a) || errors.As(opened, &b) {
			if !errors.As(opened, &b) || a == nil || *a != *b {
				t.Errorf("%s: Inspect = %v, Open = %v", what, inspected, opened)
			}
			if e != nil {
				e.Close()
			}
			return
		}
		if inspected != nil || opened != nil {
			t.Fatalf("%s: Inspect = %v, Open = %v", what, inspected, opened)
		}
		if x, y := s.Tear, e.Recovery().Journal.Tear; (x == nil) != (y == nil) || x != nil && *x != *y {
			t.Errorf("%s: Inspect says torn %v, Open %v", what, x, y)
		}
		if got, want := snapshotDump(t, s), dump(e); got != want {
			t.Errorf("%s: Inspect:\n%s\nOpen:\n%s", what, got, want)
		}
		e.Close()
	}
	for _, name := range fsys.Paths() {
		data, err := fsys.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(data); at += 3 {
			flip := func(f *segmenttest.FS) error { return f.FlipBit(name, int64(at), uint(at%8)) }
			check(fmt.Sprintf("%s, byte %d", name, at), flip)
		}
		for at := 0; at < len(data); at += 41 {
			cut := func(f *segmenttest.FS) error { return f.TruncateFile(name, int64(at)) }
			check(fmt.Sprintf("%s, cut at %d", name, at), cut)
		}
	}
	if cases < 500 {
		t.Errorf("only %d cases", cases)
	}
}

// TestInspectLock tests that a snapshot and an engine keep each other out, and snapshots do not.
func TestInspectLock(t *testing.T) {
	opts := Options{Dir: filepath.Join(t.TempDir(), "data"), Settings: Settings{
		Default: DefaultQueueOptions(),
	}}
	if _, err := Inspect(opts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Inspect of no directory = %v, want %v", err, fs.ErrNotExist)
	}
	e, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "q", "a")
	if _, err := Inspect(opts); !errors.Is(err, ErrLocked) {
		t.Errorf("Inspect beside an engine = %v, want %v", err, ErrLocked)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	var open []*Snapshot
	for range 2 {
		s, err := Inspect(opts)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
	}
	if _, err := Open(opts); !errors.Is(err, ErrLocked) {
		t.Errorf("Open beside a snapshot = %v, want %v", err, ErrLocked)
	}
	names := func(s *Snapshot) (all []string) {
		for _, q := range s.Queues {
			all = append(all, q.Name)
		}
		return all
	}
	for _, s := range open {
		if got := names(s); !slices.Equal(got, []string{"q"}) {
			t.Errorf("queues %q, want q", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
