package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

func mustRestore(t testing.TB, e *Engine, name string, it Item) {
	t.Helper()
	ticket, err := e.Restore(Now(), []byte(name), it, Standing{})
	if err != nil {
		t.Fatalf("Restore(%q, %q) = %v", name, it.Data, err)
	}
	mustCommit(t, e, ticket)
}

// TestRestore tests that items come back as they were, both now and after a kill. No option of the queue stands in
// their way.
func TestRestore(t *testing.T) {
	e, _ := newQuiet(t, func(o *QueueOptions) {
		o.MaxItems, o.MaxItemSize, o.FanoutOnly, o.EnqueueClientID = 0, 0, true, "somebody"
	})
	items := []Item{
		{Data: []byte("a"), Added: 1700000000000},
		{Data: []byte("b"), Added: 5, Expiry: 7, Flags: 9},
		{Data: nil, Added: 1700000000001, Expiry: 4102444800000},
	}
	ticket, err := e.Create(1234, []byte("jobs+child"))
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, e, ticket)
	if n := e.NextID([]byte("jobs")); n != 1 {
		t.Errorf("NextID of no queue = %d, want 1", n)
	}
	for _, it := range items {
		mustRestore(t, e, "jobs", it)
	}
	for range 2 {
		if n := e.NextID([]byte("jobs")); n != 4 {
			t.Errorf("NextID = %d, want 4", n)
		}
		got := contents(e, "jobs", false)
		if len(got) != len(items) {
			t.Fatalf("%d items, want %d", len(got), len(items))
		}
		for i, it := range items {
			it.ID = uint64(i + 1)
			if g := got[i]; string(g.Data) != string(it.Data) || g.ID != it.ID ||
				g.Added != it.Added || g.Expiry != it.Expiry || g.Flags != it.Flags {
				t.Errorf("item %d = %+v, want %+v", i, g, it)
			}
		}
		wantItems(t, e, "jobs+child", "")
		if s, ok := e.QueueStats(Now(), []byte("jobs+child")); !ok || s.Created != 1234 {
			t.Errorf("jobs+child: created %d, %v, want 1234", s.Created, ok)
		}
		e = kill(t, e)
	}
}

// TestRestoreStanding: items that are not plain come back as they stood, before and after the process dies.
func TestRestoreStanding(t *testing.T) {
	from, _ := sideways(t, segmenttest.New())
	e, err := open(from)
	if err != nil {
		t.Fatal(err)
	}
	keyed := PutRequest{Data: []byte("keyed"), Flags: 7, Extra: &PutExtra{Key: []byte("k"), Delay: time.Hour}}
	dead := PutRequest{Data: []byte("dead"), Extra: &PutExtra{Key: []byte("d"), origin: "from", why: Rejected}}
	for _, p := range []PutRequest{keyed, dead} {
		if _, err := e.Put(Now(), []byte("q"), p); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	want := standings(t, from)
	if len(want) != 6 {
		t.Fatalf("there are %q", want)
	}

	to := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxDeliveries = 9 })
	e, err = open(to)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Inspect(from)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time all keys and receipts are taken
		err = s.EachStanding("q", func(it Item, stands Standing) bool {
			_, err := e.Restore(Now(), []byte("q"), it, stands)
			return err == nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	if id, ok := e.Find(Now(), []byte("q"), []byte("k")); !ok || id != 5 {
		t.Errorf("the key is that of item %d, %v, want 5", id, ok)
	}
	if err := errors.Join(e.Verify(), e.Close()); err != nil {
		t.Fatal(err)
	}
	got := standings(t, to)
	if len(got) != 12 || !slices.Equal(got[:6], want) {
		t.Errorf("restored are %q, want %q twice", got, want)
	}
	for i, twice := range got[6:] { // no key, and a receipt of its own
		if strings.Contains(twice, "key=k") || strings.Contains(twice, "token") && twice == want[i] {
			t.Errorf("restored again: %q", twice)
		}
	}
}

// standings describes the items of the queue q in a directory, but for their ids.
func standings(t *testing.T, o Options) (all []string) {
	t.Helper()
	s, err := Inspect(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.EachStanding("q", func(it Item, stands Standing) bool {
		text := fmt.Sprintf("%s flags=%d added=%d expiry=%d key=%s origin=%s why=%d due=%d count=%d", it.Data, it.Flags,
			it.Added, it.Expiry, it.Key(), it.Origin(), it.Why(), stands.Due, stands.Count)
		if stands.Token != 0 {
			text += fmt.Sprint(" token=", stands.Token)
		}
		all = append(all, text)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRestoreRefuses(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 4096
	e := openQuiet(t, o)
	for _, tt := range []struct {
		queue string
		size  int
		want  error
	}{
		{"a.b", 1, ErrBadName},
		{"q", MaxItemSize + 1, ErrItemTooLarge},
		{"q", 5000, ErrOutOfMemory},
	} {
		it := Item{Data: make([]byte, tt.size)}
		if _, err := e.Restore(Now(), []byte(tt.queue), it, Standing{}); !errors.Is(err, tt.want) {
			t.Errorf("Restore(%q, %d bytes) = %v, want %v", tt.queue, tt.size, err, tt.want)
		}
	}
	if _, err := e.Create(Now(), []byte("a~b")); !errors.Is(err, ErrBadName) {
		t.Errorf("Create = %v, want %v", err, ErrBadName)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Create(Now(), []byte("q")); err != ErrClosed {
		t.Errorf("Create = %v, want %v", err, ErrClosed)
	}
	if _, err := e.Restore(Now(), []byte("q"), Item{}, Standing{}); err != ErrClosed {
		t.Errorf("Restore = %v, want %v", err, ErrClosed)
	}
}
