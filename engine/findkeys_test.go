package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/keyindex"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// keyCase is a queue "q" with items of keys in runs of a backlog, or in hidden runs.
type keyCase struct {
	*hiding
	delay time.Duration
	want  map[string]uint64 // keys of what lives
}

func newKeyCase(t *testing.T, delay time.Duration) *keyCase {
	k := &keyCase{
		hiding: &hiding{T: t, fsys: segmenttest.New(), now: 1700000000000, damaged: true},
		delay:  delay, want: make(map[string]uint64),
	}
	k.open()
	t.Cleanup(func() { k.Close() })
	return k
}

// put puts n items with keys, and has them written to a run of their own.
func (k *keyCase) put(n int) {
	k.Helper()
	for range n {
		key := fmt.Append(nil, "key ", len(k.want))
		ticket, err := k.Put(k.now, []byte("q"), PutRequest{
			Data: fmt.Appendf(nil, "%050d", len(k.want)), Extra: &PutExtra{Key: key, Delay: k.delay},
		})
		if err == nil {
			err = k.Commit(ticket)
		}
		id, ok := k.Find(k.now, []byte("q"), key)
		if err != nil || !ok {
			k.Fatalf("a put = %v, and is found = %t", err, ok)
		}
		k.want[string(key)] = id
	}
	awaitRuns(k.Engine)
	k.work()
	if k.delay == 0 {
		k.spool.endRun(k.queue())
		awaitRuns(k.Engine)
	}
}

// remove removes every nth item by its id.
func (k *keyCase) remove(n uint64) {
	k.Helper()
	for key, id := range k.want {
		if id%n != 0 {
			continue
		}
		ticket, err := k.Remove(k.now, []byte("q"), "", Which{ID: id})
		if err == nil {
			err = k.Commit(ticket)
		}
		if err != nil {
			k.Fatal(err)
		}
		delete(k.want, key)
	}
}

// reopen closes the engine and opens another one, and returns what that logs.
func (k *keyCase) reopen() (logged string) {
	k.Helper()
	if err := k.Close(); err != nil {
		k.Fatal(err)
	}
	var log strings.Builder
	k.open(func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	return log.String()
}

// check fails the test unless every key that lives is found, and the index has no other.
func (k *keyCase) check() {
	k.Helper()
	if w := k.Withheld(); len(w) > 0 {
		k.Fatalf("withheld are %+v", w)
	}
	for key, id := range k.want {
		if found, ok := k.Find(k.now, []byte("q"), []byte(key)); !ok || found != id {
			k.Errorf("%q finds %d, %t, want %d", key, found, ok, id)
		}
	}
	if n := k.queue().keys.Len(); n != len(k.want) {
		k.Errorf("the index has %d keys, want %d", n, len(k.want))
	}
}

// keyedRun is a file with keys, and where its frames are.
type keyedRun struct {
	path        string
	keys, items []int64 // offsets
}

// files returns the runs of the queue.
func (k *keyCase) files() (all []keyedRun) {
	k.Helper()
	type file struct {
		runs.File
		first, end int64
	}
	var found []file
	if b := k.queue().backlog; b != nil {
		for _, r := range b.runs {
			found = append(found, file{r.File, segment.RunStart, r.recorded.End})
		}
	}
	if k.queue().aside != nil {
		for _, r := range k.queue().aside.hidden.Runs() {
			found = append(found, file{r.File, segment.RunStart, r.End})
		}
	}
	for _, f := range found {
		r, err := segment.OpenRun(k.fsys, f.Path, f.ID, nil)
		if err != nil {
			k.Fatal(err)
		}
		run := keyedRun{path: f.Path}
		for off := f.first; off < f.end; {
			frame, err := r.Frame(off, f.end)
			if err != nil {
				k.Fatal(err)
			}
			if keyindex.IsFrame(frame.Tag) {
				run.keys = append(run.keys, off)
			} else {
				run.items = append(run.items, off)
			}
			off = frame.Next
		}
		all = append(all, run)
		r.Close()
	}
	return all
}

// flip damages the bodies of frames.
func (k *keyCase) flip(path string, frames []int64) {
	k.Helper()
	for _, off := range frames {
		if err := k.fsys.FlipBit(path, off+segment.RunFrameOverhead+20, 3); err != nil {
			k.Fatal(err)
		}
	}
}

// eachKeyCase runs a test with a backlog, and with delayed items.
func eachKeyCase(t *testing.T, test func(k *keyCase)) {
	for name, delay := range map[string]time.Duration{"backlog": 0, "delayed": time.Hour} {
		t.Run(name, func(t *testing.T) { test(newKeyCase(t, delay)) })
	}
}

// TestKeysWithoutItems: a start reads no items of a run to know their keys. So it finds them in one whose items it
// could not read.
func TestKeysWithoutItems(t *testing.T) {
	eachKeyCase(t, func(k *keyCase) {
		k.put(40)
		k.put(60)
		k.remove(7)
		files := k.files()
		if len(files) < 2 {
			t.Fatalf("there are %d files", len(files))
		}
		for _, f := range files {
			if len(f.keys) == 0 {
				t.Fatalf("a run has no keys: %+v", f)
			}
		}
		k.reopen()
		k.check()
		if k.delay == 0 {
			return // a start reads frames of a backlog of which a part is gone
		}
		for _, f := range files {
			k.flip(f.path, f.items[:len(f.items)-1]) // but the index
		}
		k.reopen()
		k.check()
	})
	k := newKeyCase(t, 0)
	k.put(40)
	for _, f := range k.files() {
		k.flip(f.path, f.items)
	}
	k.reopen()
	k.check()
}

// TestKeysDamaged: if a frame of keys is damaged, the items are read, and the log says so.
func TestKeysDamaged(t *testing.T) {
	eachKeyCase(t, func(k *keyCase) {
		k.put(40)
		k.put(40)
		k.remove(5)
		k.flip(k.files()[1].path, k.files()[1].keys)
		if log := k.reopen(); !strings.Contains(log, "keys of a backlog file cannot be used") {
			t.Errorf("logged is %q", log)
		}
		k.check()
	})
}

// TestKeysOfOtherSeed: hashes with another seed than that of the newest run are made anew.
func TestKeysOfOtherSeed(t *testing.T) {
	eachKeyCase(t, func(k *keyCase) {
		k.put(40)
		k.queue().keys.Seed = keyindex.NewSeed()
		for key, id := range k.want {
			k.queue().keys.Note([]byte(key), id)
		}
		k.put(40)
		if log := k.reopen(); !strings.Contains(log, "an earlier start") {
			t.Errorf("logged is %q", log)
		}
		k.check()
		k.put(10)
		k.reopen()
		k.check()
	})
}

// TestKeysOfOldRun: of a run that was written before there were frames of keys, the items are read.
func TestKeysOfOldRun(t *testing.T) {
	eachKeyCase(t, func(k *keyCase) {
		k.put(40)
		k.remove(3)
		for _, f := range k.files() {
			data, err := k.fsys.Bytes(f.path)
			if err != nil {
				t.Fatal(err)
			}
			segmenttest.SetRunVersion(data, uint32(data[8])-4)
			if err := errors.Join(k.fsys.Remove(f.path), k.fsys.WriteFile(f.path, data)); err != nil {
				t.Fatal(err)
			}
			k.flip(f.path, f.keys) // that release had none
		}
		if log := k.reopen(); strings.Contains(log, "frames of keys") {
			t.Errorf("logged is %q", log)
		}
		k.check()
	})
}

// TestKeysRepaired: a repair of a run with a damaged frame of keys loses nothing, and all keys are found behind it.
func TestKeysRepaired(t *testing.T) {
	eachKeyCase(t, func(k *keyCase) {
		k.put(40)
		k.put(40)
		k.remove(5)
		files := k.files()
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		k.flip(files[0].path, files[0].keys)
		d, err := Examine(k.opts)
		if err != nil {
			t.Fatal(err)
		}
		if d.Sound() || len(d.Losses) > 0 {
			t.Errorf("sound = %t, losses %+v", d.Sound(), d.Losses)
		}
		if err := errors.Join(d.Repair(), d.Close()); err != nil {
			t.Fatal(err)
		}
		k.open()
		k.check()
		verify(t, k.Engine)
		if n := k.queue().items(); n != int64(len(k.want)) {
			t.Errorf("%d items are left, want %d", n, len(k.want))
		}
	})
}

// TestKeysInThinRun: a run that is written again without what is gone has its keys.
func TestKeysInThinRun(t *testing.T) {
	k := newKeyCase(t, 0)
	k.put(10)
	k.put(60)
	k.put(10)
	before := k.files()
	k.remove(2)
	awaitRuns(k.Engine)
	after := k.files()
	if len(after) != len(before) || after[1].path == before[1].path || len(after[1].keys) == 0 {
		t.Fatalf("runs before %+v, after %+v", before, after)
	}
	k.reopen()
	k.check()
	verify(t, k.Engine)
}

// TestKeysBehindLastItem hands out all items of a run, and has its file removed, before the next one is read. What stands
// behind its last item is a frame of keys, which nobody needs to see then.
func TestKeysBehindLastItem(t *testing.T) {
	k := newKeyCase(t, 0)
	k.put(3)
	k.put(3)
	take := func() {
		t.Helper()
		var got collected
		f, err := k.Fetch(k.now, []byte("q"), FetchRequest{}, &got)
		for ; err == ErrComing; f, err = k.Fetch(k.now, []byte("q"), FetchRequest{}, &got) {
			k.spool.fill(k.queue())
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Commit(f.Ticket); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 {
		take()
		k.spool.record(k.queue()) // removes the file of a run that was handed out
		if b := k.queue().backlog; b != nil {
			onDisk(k.Engine, b)
		}
		verify(t, k.Engine)
	}
}

// TestFlushFindsNewestKey flushes a queue of which a client has two items of one key. The first had expired when the
// second was put, and expires no more. The key is that of the second, in whatever order the client has opened them.
func TestFlushFindsNewestKey(t *testing.T) {
	e, _ := newQuiet(t)
	closeAtEnd(t, e)
	key, now := []byte("k"), Now()
	put := func(key []byte) {
		t.Helper()
		if _, err := e.Put(now, []byte("q"), PutRequest{Data: []byte("data"), Extra: &PutExtra{Key: key}}); err != nil {
			t.Fatal(err)
		}
	}
	open := func() ReadRef {
		t.Helper()
		f, err := e.Fetch(now, []byte("q"), FetchRequest{Access: OpenRead}, &copied{})
		if err != nil {
			t.Fatal(err)
		}
		return f.Read
	}
	expire := func(after time.Duration) {
		t.Helper()
		s := Settings{Default: DefaultQueueOptions()}
		s.Default.MaxAge = after
		if err := e.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	put(key)
	first := open()
	expire(time.Second)
	now = now.After(2 * time.Second)
	put(key)
	open()
	expire(0)
	e.Return(now, []ReadRef{first}, Return{How: Release})
	open()
	put([]byte("other"))
	if _, err := e.Flush(now, []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	if id, ok := e.Find(now, []byte("q"), key); id != 2 || !ok {
		t.Errorf("the key is that of item %d, %v, want 2", id, ok)
	}
}

// TestKeysOfSmallNewest: the newest file has many small items, and older ones have few large ones. A start takes
// memory for the keys that there are. It must not take as much as if all files were like the newest.
func TestKeysOfSmallNewest(t *testing.T) {
	k := newKeyCase(t, 0)
	large := make([]byte, 1<<20)
	for i := range 40 {
		key := fmt.Append(nil, "large ", i)
		ticket, err := k.Put(k.now, []byte("q"), PutRequest{Data: large, Extra: &PutExtra{Key: key}})
		if err == nil {
			err = k.Commit(ticket)
		}
		id, ok := k.Find(k.now, []byte("q"), key)
		if err != nil || !ok {
			t.Fatalf("a put = %v, and is found = %t", err, ok)
		}
		k.want[string(key)] = id
		awaitRuns(k.Engine)
	}
	k.spool.endRun(k.queue())
	k.put(1000)
	k.reopen()
	k.check()

	q := k.queue()
	files, err := k.spool.keyFiles(q)
	if err != nil || len(files) < 2 {
		t.Fatalf("there are %d files, %v", len(files), err)
	}
	q.keys = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = k.spool.reader.LoadKeys(files, q.index, func(_ runs.File, err error) { t.Error(err) })
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d keys in %d files took %d bytes", q.keys.Len(), len(files), took)
	}
}
