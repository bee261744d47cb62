package backup

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

var seedFlag = flag.Uint64("seed", 0, "replay this one seed of a random test")

func options(fsys *segmenttest.FS, dir string) engine.Options {
	o := engine.Options{
		Dir: dir, FS: fsys, Shards: 2, SegmentSize: 4096, JournalSize: 16 << 10, MemoryLimit: 1 << 30,
		Settings: engine.Settings{Default: engine.DefaultQueueOptions()},
	}
	o.Settings.Default.MaxMemorySize = 8 << 10
	o.Settings.Default.Sync = engine.SyncAlways
	return o
}

// world is an engine, and what its queues hold.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	fs    *segmenttest.FS
	e     *engine.Engine
	holds map[string][]string
	puts  int
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: segmenttest.New(), holds: make(map[string][]string)}
	e, err := engine.Open(options(w.fs, "data"))
	if err != nil {
		t.Fatal(err)
	}
	w.e = e
	t.Cleanup(func() { e.Close() })
	return w
}

// step puts or gets a few items, flushes or deletes, on some queue. All of it is acknowledged when it returns.
func (w *world) step() {
	w.t.Helper()
	name := fmt.Sprint("q", w.rng.IntN(4))
	q, err := w.e.Queue(name)
	if err != nil {
		w.t.Fatal(err)
	}
	switch n := w.rng.IntN(100); {
	case n < 60:
		for range 1 + w.rng.IntN(12) {
			w.puts++
			item := fmt.Sprintf("%s-%d-%s", name, w.puts, strings.Repeat("x", w.rng.IntN(900)))
			if err := q.Put([]byte(item), engine.PutOptions{}); err != nil {
				w.t.Fatal(err)
			}
			w.holds[name] = append(w.holds[name], item)
		}
	case n < 97:
		for range 1 + w.rng.IntN(12) {
			it, err := q.TryGet()
			if len(w.holds[name]) == 0 && errors.Is(err, engine.ErrEmpty) {
				return
			}
			if err != nil || string(it.Data) != w.holds[name][0] {
				w.t.Fatalf("%s: got %.20q, %v, want %.20q", name, it.Data, err, w.holds[name][0])
			}
			w.holds[name] = w.holds[name][1:]
		}
	case n < 99:
		err = q.Flush()
		delete(w.holds, name)
	default:
		err = q.Delete()
		delete(w.holds, name)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) steps(n int) {
	for range n {
		w.step()
	}
}

// copyOf is what the queues hold now.
func (w *world) copyOf() map[string][]string {
	held := make(map[string][]string)
	for name, items := range w.holds {
		if len(items) > 0 {
			held[name] = slices.Clone(items)
		}
	}
	return held
}

// busyWriter has the world go on before each write.
type busyWriter struct {
	bytes.Buffer
	w     *world
	steps int
}

func (b *busyWriter) Write(p []byte) (int, error) {
	b.w.steps(b.steps)
	return b.Buffer.Write(p)
}

// sentTwice makes two backups while clients do nothing, and reports whether both sent every file. On a busy machine
// the engine may no longer need a file by the time it finishes it. Then the two backups have no file in common.
func (w *world) sentTwice(disk *segmenttest.FS) bool {
	w.t.Helper()
	for range 2 {
		have, err := Held(disk, "backup")
		if err != nil {
			w.t.Fatal(err)
		}
		stream, _ := w.stream(have, 0)
		r, err := Store(disk, "backup", stream)
		if err != nil {
			w.t.Fatal(err)
		}
		if r.Sent < r.Files {
			return false
		}
	}
	return true
}

// stream backs up w, which goes on meanwhile, and returns the stream and what the queues held when it began.
func (w *world) stream(have map[uint64]bool, steps int) (*bytes.Buffer, map[string][]string) {
	w.t.Helper()
	before := w.copyOf()
	out := &busyWriter{w: w, steps: steps}
	if err := Stream(context.Background(), out, w.e, have); err != nil {
		w.t.Fatal(err)
	}
	return &out.Buffer, before
}

// contents is what a server that starts on dir serves.
func contents(t *testing.T, fsys *segmenttest.FS, dir string) map[string][]string {
	t.Helper()
	e, err := engine.Open(options(fsys, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	held := make(map[string][]string)
	for i := range 4 {
		name := fmt.Sprint("q", i)
		q, err := e.Queue(name)
		if err != nil {
			t.Fatal(err)
		}
		for {
			it, err := q.TryGet()
			if errors.Is(err, engine.ErrEmpty) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			held[name] = append(held[name], string(it.Data))
		}
	}
	return held
}

func checkHeld(t *testing.T, got, want map[string][]string) {
	t.Helper()
	if maps.EqualFunc(got, want, slices.Equal[[]string]) {
		return
	}
	for name := range want {
		if !slices.Equal(got[name], want[name]) {
			t.Errorf("%s: restored %d items, want %d", name, len(got[name]), len(want[name]))
			for i := range min(len(got[name]), len(want[name])) {
				if got[name][i] != want[name][i] {
					t.Errorf("item %d is %.20q, want %.20q", i, got[name][i], want[name][i])
					break
				}
			}
		}
	}
	t.Errorf("restored %d queues with items, want %d", len(got), len(want))
}

// isSample reports whether `make test` runs, and not CI: of what is long even with -short, it runs a sample.
func isSample() bool { return testing.Short() && os.Getenv("KESTREL_CI") == "" }

// stride is the step from one place of a crash or a cut to the next. With -short every third is tried, and every
// seventh in a sample.
func stride() int {
	switch {
	case isSample():
		return 7
	case testing.Short():
		return 3
	}
	return 1
}

func seeds(t *testing.T, n uint64) []uint64 {
	t.Helper()
	if *seedFlag != 0 {
		return []uint64{*seedFlag}
	}
	switch {
	case isSample():
		n = min(n, 2)
	case testing.Short():
		n = min(n, 3)
	}
	var all []uint64
	for s := range n {
		all = append(all, s+1)
	}
	return all
}

// TestBackup backs up engines while they put, get, flush, spill and drop. Each is copied several times over, to a
// directory and as a stream. What is restored is what was acknowledged when the backup began, in order, and nothing
// else.
func TestBackup(t *testing.T) {
	for _, seed := range seeds(t, 12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			w := newWorld(t, seed)
			disk := segmenttest.New()
			skipped := 0
			for round := range 4 {
				w.steps(60)
				have, err := Held(disk, "backup")
				if err != nil {
					t.Fatal(err)
				}
				stream, want := w.stream(have, 1+w.rng.IntN(3))
				r, err := Store(disk, "backup", stream)
				if err != nil {
					t.Fatal(err)
				}
				skipped += r.Files - r.Sent
				fsys := disk.Kill()
				restored, err := Restore(fsys, "data", FromDir(fsys, "backup"))
				if err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				items := 0
				for _, q := range want {
					items += len(q)
				}
				if restored.Items != int64(items) {
					t.Errorf("round %d: the restore counts %d items, want %d", round, restored.Items, items)
				}
				checkHeld(t, contents(t, fsys, "data"), want)

				stream, want = w.stream(nil, 1)
				fsys = segmenttest.New()
				if _, err := Restore(fsys, "data", FromStream(stream)); err != nil {
					t.Fatal(err)
				}
				checkHeld(t, contents(t, fsys, "data"), want)
				if t.Failed() {
					t.Fatalf("round %d; to replay: -seed %d", round, seed)
				}
			}
			if skipped == 0 && w.sentTwice(disk) {
				t.Error("every file was sent each time, also when nothing had changed")
			}
			for name, items := range w.copyOf() { // the engine itself lost nothing
				q, err := w.e.Queue(name)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range items {
					if it, err := q.TryGet(); err != nil || string(it.Data) != want {
						t.Fatalf("afterwards %s has %.20q, %v, want %.20q", name, it.Data, err, want)
					}
				}
			}
		})
	}
}

// TestOpenReads tests that what was taken and not confirmed is in the backup.
func TestOpenReads(t *testing.T) {
	w := newWorld(t, 1)
	q, err := w.e.Queue("q0")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := q.Put(fmt.Append(nil, i), engine.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := q.TryOpen()
	if err != nil {
		t.Fatal(err)
	}
	stream, _ := w.stream(nil, 0)
	if err := r.Confirm(); err != nil {
		t.Fatal(err)
	}
	fsys := segmenttest.New()
	if _, err := Restore(fsys, "data", FromStream(stream)); err != nil {
		t.Fatal(err)
	}
	checkHeld(t, contents(t, fsys, "data"), map[string][]string{"q0": {"0", "1", "2"}})
}

// TestRestorePowerCut cuts the power at every change that Restore makes. Either all is there, or the mark that
// keeps servers away, and the next try brings all.
func TestRestorePowerCut(t *testing.T) {
	w := newWorld(t, 4)
	w.steps(40)
	stream, want := w.stream(nil, 0)
	for n := 1; ; n += stride() {
		disk := segmenttest.New()
		disk.StopAt(n)
		_, err := Restore(disk, "data", FromStream(bytes.NewReader(stream.Bytes())))
		whole := err == nil
		for mode, after := range map[string]*segmenttest.FS{
			"kill": disk.Kill(), "cut": disk.PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose}),
		} {
			names, _ := after.List("data")
			marked := slices.Contains(names, restoringName)
			switch {
			case whole && marked:
				t.Fatalf("%s behind a whole Restore: the mark is there", mode)
			case marked || len(names) == 0:
				if _, err := Restore(after, "data", FromStream(bytes.NewReader(stream.Bytes()))); err != nil {
					t.Fatalf("%s at change %d, again: %v", mode, n, err)
				}
			}
			if checkHeld(t, contents(t, after, "data"), want); t.Failed() {
				t.Fatalf("%s at change %d", mode, n)
			}
		}
		if whole {
			return
		}
	}
}

// TestDamage flips a bit of each file of a backup, and cuts each. Restore and Check name the file.
func TestDamage(t *testing.T) {
	w := newWorld(t, 5)
	w.steps(60)
	disk := segmenttest.New()
	stream, _ := w.stream(nil, 1)
	if _, err := Store(disk, "backup", stream); err != nil {
		t.Fatal(err)
	}
	for at, name := range disk.Paths() {
		src, err := disk.Bytes(name)
		if err != nil || len(src) == 0 || strings.HasSuffix(name, manifestName) {
			continue
		}
		base := name[strings.LastIndexByte(name, '/')+1:]
		for i, tt := range []struct {
			what   string
			damage func(*segmenttest.FS) error
		}{
			{"bit", func(fsys *segmenttest.FS) error { return fsys.FlipBit(name, int64(len(src)/2), 3) }},
			{"cut", func(fsys *segmenttest.FS) error { return fsys.TruncateFile(name, int64(len(src)-1)) }},
			{"gone", func(fsys *segmenttest.FS) error { return fsys.Remove(name) }},
		} {
			if isSample() && i != at%3 {
				continue // a sample has one damage of each file, by turns
			}
			what := tt.what
			fsys := disk.Kill()
			if err := tt.damage(fsys); err != nil {
				t.Fatal(err)
			}
			if _, err := Restore(fsys, "data", FromDir(fsys, "backup")); err == nil || !strings.Contains(err.Error(), base) {
				t.Errorf("%s of %s: Restore = %v, want its name", what, name, err)
			}
			if _, err := Check(FromDir(fsys, "backup")); err == nil || !strings.Contains(err.Error(), base) {
				t.Errorf("%s of %s: Check = %v, want its name", what, name, err)
			}
			if names, _ := fsys.List("data"); !slices.Contains(names, restoringName) {
				t.Errorf("%s of %s: no mark keeps a server away", what, name)
			}
		}
	}
}

// TestStreamCut cuts a stream anywhere: it is refused, and an earlier backup stays.
func TestStreamCut(t *testing.T) {
	w := newWorld(t, 6)
	w.steps(20)
	stream, _ := w.stream(nil, 0)
	whole := bytes.LastIndex(stream.Bytes(), []byte(manifestName)) // the header of it begins there
	for n := 0; n <= whole; n += 97 * stride() {
		fsys := segmenttest.New()
		if _, err := Store(fsys, "backup", bytes.NewReader(stream.Bytes()[:n])); !errors.Is(err, ErrIncomplete) {
			t.Fatalf("%d bytes of a stream: Store = %v, want ErrIncomplete", n, err)
		}
		if _, err := Restore(fsys, "data", FromDir(fsys, "backup")); err == nil || !strings.Contains(err.Error(), "no MANIFEST") {
			t.Fatalf("%d bytes of a stream: Restore = %v", n, err)
		}
	}
}

// TestRefusals tests what restores refuse.
func TestRefusals(t *testing.T) {
	w := newWorld(t, 7)
	w.steps(20)
	stream, _ := w.stream(nil, 0)
	for name, tt := range map[string]struct {
		prepare func(*segmenttest.FS)
		stream  string
		want    string
	}{
		"full directory": {func(fsys *segmenttest.FS) { fsys.WriteFile("data/journal/x", []byte("x")) }, stream.String(), "not empty"},
		"no archive":     {func(*segmenttest.FS) {}, strings.Repeat("hello", 200), "not a backup"},
		"nothing":        {func(*segmenttest.FS) {}, "", ErrIncomplete.Error()},
	} {
		fsys := segmenttest.New()
		if err := fsys.MkdirAll("data/journal"); err != nil {
			t.Fatal(err)
		}
		if name != "full directory" {
			fsys = segmenttest.New()
		}
		tt.prepare(fsys)
		if _, err := Restore(fsys, "data", FromStream(strings.NewReader(tt.stream))); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Restore = %v, want %q", name, err, tt.want)
		}
	}
}

// TestOneAtATime tests that there is one backup at a time, and that an end of any kind lets the next begin.
func TestOneAtATime(t *testing.T) {
	w := newWorld(t, 8)
	w.steps(20)
	b, err := w.e.BeginBackup()
	if err != nil {
		t.Fatal(err)
	}
	if err := Stream(context.Background(), io.Discard, w.e, nil); !errors.Is(err, engine.ErrBackupRuns) {
		t.Errorf("Stream beside a backup = %v, want ErrBackupRuns", err)
	}
	b.Close()
	broken, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := Stream(broken, &out, w.e, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("Stream that is broken off = %v", err)
	}
	if _, err := Store(segmenttest.New(), "backup", &out); err == nil || !strings.Contains(err.Error(), "broke the backup off") {
		t.Errorf("Store of what was broken off = %v", err)
	}
	if err := Stream(context.Background(), io.Discard, w.e, nil); err != nil {
		t.Errorf("Stream = %v", err)
	}
}

// cachedFS is a file system that notes which files somebody opens past the page cache.
type cachedFS struct {
	*segmenttest.FS
	past map[string]bool
}

func (c *cachedFS) Uncached() segment.FS { return pastFS{c.FS.Uncached(), c.past} }

type pastFS struct {
	segment.FS
	past map[string]bool
}

func (p pastFS) Create(name string) (segment.File, error) {
	p.past[name] = true
	return p.FS.Create(name)
}

func (p pastFS) OpenReadOnly(name string) (segment.File, error) {
	p.past[name] = true
	return p.FS.OpenReadOnly(name)
}

// TestPastThePageCache tests that neither side of a backup fills the page cache. Behind the bursts in which the kernel
// does that, the syncs of clients wait.
func TestPastThePageCache(t *testing.T) {
	disk := &cachedFS{segmenttest.New(), make(map[string]bool)}
	o := options(disk.FS, "data")
	o.FS = disk
	e, err := engine.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	q, err := e.Queue("q")
	if err != nil {
		t.Fatal(err)
	}
	for range 40 { // more than memory holds
		if err := q.Put(make([]byte, 900), engine.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	clear(disk.past)
	var stream bytes.Buffer
	if err := Stream(context.Background(), &stream, e, nil); err != nil {
		t.Fatal(err)
	}
	to := &cachedFS{segmenttest.New(), make(map[string]bool)}
	if _, err := Store(to, "backup", bytes.NewReader(stream.Bytes())); err != nil {
		t.Fatal(err)
	}
	files := 0
	for names := tar.NewReader(bytes.NewReader(stream.Bytes())); ; files++ {
		h, err := names.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if read := path.Join("data", h.Name); h.Name != manifestName && !disk.past[read] {
			t.Errorf("%s was read through the page cache", read)
		}
		if written := path.Join("backup", h.Name+partExt); h.Name != manifestName && !to.past[written] {
			t.Errorf("%s was written through the page cache", written)
		}
	}
	if files < 3 {
		t.Errorf("the backup has %d files only", files)
	}
}
