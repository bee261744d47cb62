package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/marks"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// countingFS counts the files that are open at a time.
type countingFS struct {
	*segmenttest.FS

	mu         sync.Mutex
	open, most int
}

func (c *countingFS) Uncached() segment.FS { return c }

func (c *countingFS) Create(path string) (segment.File, error) { return c.count(c.FS.Create(path)) }

func (c *countingFS) Open(path string) (segment.File, error) { return c.count(c.FS.Open(path)) }

func (c *countingFS) OpenReadOnly(path string) (segment.File, error) {
	return c.count(c.FS.OpenReadOnly(path))
}

func (c *countingFS) count(f segment.File, err error) (segment.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	c.most = max(c.most, c.open)
	return &countedFile{File: f, fs: c}, nil
}

type countedFile struct {
	segment.File
	fs   *countingFS
	once sync.Once
}

func (f *countedFile) Close() error {
	f.once.Do(func() {
		f.fs.mu.Lock()
		defer f.fs.mu.Unlock()
		f.fs.open--
	})
	return f.File.Close()
}

// TestFilesBounded has many queues spill and be read at a time. Their journals are not synced, and the syncs of their
// runs fail for a while. The engine never has more files open than it may, and works with the fewest.
func TestFilesBounded(t *testing.T) {
	const others = 1 + 4 // the lock and the directories, which are not files of this FS
	all := []int{MinFiles, MinFiles + 7, 60, DefaultFiles}
	for _, files := range amount(sampled([]int{MinFiles}, []int{MinFiles, 60}), all, all) {
		t.Run(fmt.Sprint(files), func(t *testing.T) {
			fsys := &countingFS{FS: segmenttest.New()}
			o := testOptions(fsys, tiny, func(q *QueueOptions) { q.Sync = SyncNever })
			o.Files = files
			e := openQuiet(t, o)
			want := make(map[string][]string)
			for round := range 4 {
				if round == 2 {
					fsys.SetFault(failRunSyncs)
				}
				for i := range 100 {
					name := fmt.Sprint("q", i)
					want[name] = append(want[name], putMany(t, e, name, 100*round, 12)...)
				}
				spoolSome(e, 400)
				fsys.SetFault(nil)
				for range 3 {
					e.spool.tend()
					spoolSome(e, 1000)
				}
				for name, items := range want {
					if got := mustGet(t, e, name); got != items[0] {
						t.Fatalf("%s: got %s, want %s", name, got, items[0])
					}
					want[name] = items[1:]
				}
			}
			use := e.Files()
			if use.Writers.Open > use.Writers.Limit || use.Readers.Open > use.Readers.Limit ||
				use.Segments.Open > use.Segments.Limit {
				t.Errorf("in use are %+v", use)
			}
			for _, name := range slices.Sorted(maps.Keys(want)) {
				if got := drain(t, e, name); strings.Join(got, " ") != strings.Join(want[name], " ") {
					t.Errorf("%s: %d items, want %d in order", name, len(got), len(want[name]))
				}
			}
			if fsys.most > files-others {
				t.Errorf("%d files were open at a time, with %d descriptors", fsys.most+others, files)
			}
			for range 3 {
				e.spool.tend()
				spoolAll(e)
			}
			if use := e.Files(); use.Writers.Open != 0 || len(runFiles(fsys)) != 0 {
				t.Errorf("when all is drained %+v are open, and %q there", use, runFiles(fsys))
			}
		})
	}
}

// TestFilesOfMarksBounded has many queues lose items in the middle, so that checkpoints write what is gone to files. A
// checkpoint, reloads and the spool work at the same time. The engine never has more files open than it may.
func TestFilesOfMarksBounded(t *testing.T) {
	const others, queues, rounds, n = 1 + 4, 30, 3, 24 // see TestFilesBounded
	fsys := &countingFS{FS: segmenttest.New()}
	o := testOptions(fsys, tiny)
	o.Files, o.markFrom, o.markLong, o.SegmentSize = MinFiles, 2*marks.RangeCost, 8, 4<<10
	e := openQuiet(t, o)
	names := func(yield func(string) bool) {
		for i := range queues {
			if !yield(fmt.Sprint("q", i)) {
				return
			}
		}
	}
	reload := func(keep bool) {
		s := Settings{Default: o.Settings.Default}
		s.Default.KeepJournal = keep
		if err := e.Reload(s); err != nil {
			t.Errorf("Reload = %v", err)
		}
	}
	want := make(map[string][]string)
	marked := 0
	for round := range rounds {
		for name := range names {
			put := putMany(t, e, name, n*round, n)
			spoolSome(e, 20)
			for i, data := range put {
				if i%2 == 0 {
					want[name] = append(want[name], data)
					continue
				}
				if _, err := e.Remove(Now(), []byte(name), "", Which{ID: uint64(n*round + i + 1)}); err != nil {
					t.Fatalf("%s: remove item %d: %v", name, n*round+i+1, err)
				}
			}
		}
		var beside sync.WaitGroup
		beside.Go(func() {
			if _, err := e.checkpoint(); err != nil {
				t.Errorf("checkpoint: %v", err)
			}
		})
		beside.Go(func() {
			reload(false)
			reload(true)
		})
		spoolSome(e, 1000)
		beside.Wait()
		e.spool.tend()
		spoolSome(e, 1000)
		if _, err := e.checkpoint(); err != nil {
			t.Fatal(err)
		}
		for name := range names {
			if m, _ := e.shardOf([]byte(name)).queues[name].marksNow(); m != nil {
				marked++
			}
		}
	}
	if marked == 0 {
		t.Error("no checkpoint has written a file of what is gone")
	}
	if fsys.most > MinFiles-others {
		t.Errorf("%d files were open at a time, with %d descriptors", fsys.most+others, MinFiles)
	}
	again := openQuiet(t, testOptions(fsys.Kill(), tiny))
	for name := range names {
		if got := drain(t, again, name); !slices.Equal(got, want[name]) {
			t.Errorf("%s: %d items came back, want %d in order", name, len(got), len(want[name]))
		}
	}
}

func TestTooFewFiles(t *testing.T) {
	o := testOptions(segmenttest.New())
	o.Files = MinFiles - 1
	want := fmt.Sprintf("%d files are too few: an engine needs %d", MinFiles-1, MinFiles)
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want %q", err, want)
	}
}

// TestFileModes tests that others on the machine may neither read nor write what the engine makes, whatever the umask.
func TestFileModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, err := Open(Options{Dir: dir, Settings: Settings{Default: DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := e.Put(Now(), []byte("work"), PutRequest{Data: []byte("hello")})
	if err := errors.Join(err, e.Commit(ticket), e.Close()); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if most := map[bool]fs.FileMode{true: 0o750, false: 0o640}[d.IsDir()]; info.Mode().Perm()&^most != 0 {
			t.Errorf("%s has mode %v, want %v at most", path, info.Mode(), most)
		}
		return nil
	})
	if err != nil || seen < 2 {
		t.Errorf("%d files, %v", seen, err)
	}
}
