package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/repair"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// wreck is a data directory at rest, to be damaged.
type wreck struct {
	disk *segmenttest.FS
	opts Options
	ever map[string]map[uint64]string // what was ever put, by queue and id
	live map[string]map[uint64]string // what of it is there
	// numbers are the names of the queues by the number that the journal has for them.
	numbers map[uint64]string
	// tamper spoils what was found out before it is judged; nil leaves it.
	tamper func(*Damage, []*repair.Queue)
}

// newWreck makes a directory with queues in memory, in read-behind and half drained. One had an open read, some are
// children of a fanout, and one was deleted and made again. Checkpoints and drops come between, if the journal is to
// be cut at its front.
func newWreck(t *testing.T, cut bool) *wreck {
	t.Helper()
	fsys := segmenttest.New()
	w := &wreck{
		opts: testOptions(fsys, tiny), ever: make(map[string]map[uint64]string),
		numbers: make(map[uint64]string),
	}
	w.opts.SegmentSize, w.opts.Shards = 1024, 2
	e, err := open(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, first, n int) {
		for i := range n {
			mustPut(t, e, name, fmt.Sprintf("%s item %05d, and some more", name, first+i))
		}
		spoolAll(e)
		for _, name := range []string{"a", "b", "f", "f+x", "z"} {
			w.note(e, name)
		}
	}
	mustGetNothing(t, e, "f+x")
	put("z", 0, 2)
	mustCommit(t, e, e.Delete(Now(), []byte("z")))
	put("a", 0, 14)
	put("f", 0, 5)
	for range 5 {
		mustGet(t, e, "a")
	}
	e.spool.tend()
	spoolAll(e)
	if cut {
		if err := e.trimJournal(); err != nil {
			t.Fatal(err)
		}
	}
	put("z", 2, 3)
	put("a", 14, 8)
	if _, ok := tryGet(t, e, "f"); !ok {
		t.Fatal("f is empty")
	}
	ref, _ := mustOpen(t, e, "a")
	for range 3 {
		mustGet(t, e, "a")
	}
	put("b", 0, 3)
	e.spool.tend()
	spoolAll(e)
	e.boundJournal() // rewrites the open read
	if ref.IsZero() {
		t.Fatal("nothing was opened")
	}
	put("f", 5, 2)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	w.disk = fsys.Kill()
	w.live, err = w.contents(w.disk)
	if err != nil || len(w.live) != 5 || len(w.live["a"]) < 10 || len(runFiles(w.disk)) < 2 {
		t.Fatalf("the directory lacks variety: %v, %v, runs %q", w.live, err, runFiles(w.disk))
	}
	return w
}

// note remembers what a queue holds.
func (w *wreck) note(e *Engine, name string) {
	if w.ever[name] == nil {
		w.ever[name] = make(map[uint64]string)
	}
	for _, it := range contents(e, name, false) {
		w.ever[name][it.ID] = string(it.Data)
	}
	if q := e.shardOf([]byte(name)).queues[name]; q != nil {
		w.numbers[q.number] = name
	}
}

func (w *wreck) on(image *segmenttest.FS) Options {
	o := w.opts
	o.FS = image
	return o
}

// contents reads every queue of an image as a server would find it.
func (w *wreck) contents(image *segmenttest.FS) (map[string]map[uint64]string, error) {
	s, err := Inspect(w.on(image))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Tear != nil {
		return nil, fmt.Errorf("torn: %+v", *s.Tear)
	}
	all := make(map[string]map[uint64]string)
	for _, q := range s.Queues {
		items := make(map[uint64]string)
		last, bytes := uint64(0), 0
		err := s.Each(q.Name, func(it Item) bool {
			if it.ID <= last {
				err = fmt.Errorf("queue %q: item %d follows item %d", q.Name, it.ID, last)
			}
			last = it.ID
			bytes += len(it.Data)
			items[it.ID] = string(it.Data)
			return true
		})
		if err != nil {
			return nil, fmt.Errorf("queue %q: %w", q.Name, err)
		}
		if int64(len(items)) != q.Items || int64(bytes) != q.Bytes {
			return nil, fmt.Errorf("queue %q counts %d items of %d bytes, has %d of %d",
				q.Name, q.Items, q.Bytes, len(items), bytes)
		}
		all[q.Name] = items
	}
	return all, nil
}

// repairTally counts what repairs came to.
type repairTally struct{ tried, sound, repaired, lost, back int }

// judge examines and repairs a damaged image, and says what is wrong with that. Whatever the report
// says to be lost, and no more, may be missing afterwards; whatever is there was put.
func (w *wreck) judge(image *segmenttest.FS, n *repairTally) error {
	n.tried++
	before := dumpOf(image)
	var queues []*repair.Queue
	d, err := examine(w.on(image), func(q *repair.Queue) { queues = append(queues, q) })
	if err != nil {
		return err
	}
	defer d.Close()
	if !maps.Equal(before, dumpOf(image)) {
		return errors.New("examining it changed it")
	}
	if w.tamper != nil {
		w.tamper(d, queues)
	}
	if d.Sound() {
		n.sound++
	} else {
		n.repaired++
		if err := d.Repair(); err != nil {
			return err
		}
	}
	after, err := w.contents(image)
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	if len(d.Queues) != len(after) {
		return fmt.Errorf("announced %+v, there are %d queues", d.Queues, len(after))
	}
	for _, q := range d.Queues {
		if int64(len(after[q.Name])) != q.Items {
			return fmt.Errorf("announced %+v, there are %d items", q, len(after[q.Name]))
		}
		if err := w.judgeQueue(d, q, after[q.Name], n); err != nil {
			return err
		}
	}
	for name, items := range w.live {
		if _, there := after[w.nameIn(after, name)]; !there && len(items) > 0 && !lossy(d) {
			return fmt.Errorf("queue %q is gone, and nothing was said", name)
		}
	}
	return w.serve(image, after)
}

// nameIn is how the queue called name is called after a repair that may have lost its name.
func (w *wreck) nameIn(after map[string]map[uint64]string, name string) string {
	for number, was := range w.numbers {
		if as := fmt.Sprint("recovered-", number); was == name && after[as] != nil {
			return as
		}
	}
	return name
}

// tells reports whether something tells that a file is missing: not of the first and the last of a
// journal.
func (w *wreck) tells(name string) bool {
	var segments []string
	for _, other := range w.disk.Paths() {
		if strings.HasSuffix(other, ".seg") {
			segments = append(segments, other)
		}
	}
	i := slices.Index(segments, name)
	return i != 0 && i < len(segments)-2 // the last may be empty
}

// lossy reports whether records of the journal may be missing that leave no other trace.
func lossy(d *Damage) bool {
	return d.Tear != nil || slices.ContainsFunc(d.Gaps, func(g segment.Gap) bool {
		return g.Batches && strings.HasSuffix(g.Path, ".seg")
	})
}

// judgeQueue is judge of one queue.
func (w *wreck) judgeQueue(d *Damage, q SalvagedQueue, after map[uint64]string, n *repairTally) error {
	name := q.Name
	var number uint64
	if _, err := fmt.Sscanf(name, "recovered-%d", &number); err == nil {
		name = w.numbers[number]
	}
	for id, data := range after {
		if w.ever[name][id] != data {
			return fmt.Errorf("queue %q: item %d is %q, which was never put", name, id, data)
		}
		if _, was := w.live[name][id]; !was {
			if n.back++; !lossy(d) {
				return fmt.Errorf("queue %q: item %d is back, and no record is lost", name, id)
			}
		}
	}
	exact := make(map[int]int64) // missing items, by loss
	for id := range w.live[name] {
		if _, there := after[id]; there {
			continue
		}
		n.lost++
		at := slices.IndexFunc(d.Losses, func(l Loss) bool {
			return l.Queue == q.Name && l.FirstID <= id && id <= l.LastID
		})
		stray := slices.ContainsFunc(d.Stray, func(u StrayRun) bool {
			return u.FirstID <= id && id <= u.LastID
		})
		if at >= 0 {
			exact[at]++
		} else if (!lossy(d) || id < q.NextID) && !stray {
			return fmt.Errorf("queue %q: item %d is missing, next id %d, and the losses are %+v, gaps %+v",
				name, id, q.NextID, d.Losses, d.Gaps)
		}
	}
	for i, l := range d.Losses {
		if l.Queue == q.Name && (!l.AtMost && exact[i] != l.Items || l.Items >= 0 && exact[i] > l.Items) {
			return fmt.Errorf("%+v, but %d items are missing", l, exact[i])
		}
	}
	return nil
}

// serve opens an image as a server does and takes everything out.
func (w *wreck) serve(image *segmenttest.FS, want map[string]map[uint64]string) error {
	e, err := open(w.on(image))
	if err != nil {
		return fmt.Errorf("afterwards: %w", err)
	}
	defer e.Close()
	for name, items := range want {
		for range len(items) {
			var got copied
			f, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &got)
			for ; err == ErrComing; f, err = e.Fetch(Now(), []byte(name), FetchRequest{}, &got) {
				spoolAll(e)
			}
			if err == nil {
				err = e.Commit(f.Ticket)
			}
			if err != nil || items[got.item.ID] != string(got.item.Data) {
				return fmt.Errorf("served item %d of %q: %q, %v", got.item.ID, name, got.item.Data, err)
			}
		}
	}
	if err := e.Verify(); err != nil {
		return err
	}
	// A new item does not end as one that was removed before.
	for name := range want {
		ticket, err := e.Put(Now(), []byte(name), PutRequest{Data: []byte("new")})
		if err == nil {
			err = e.Commit(ticket)
		}
		if err != nil {
			return err
		}
	}
	if err := e.Close(); err != nil {
		return err
	}
	found, err := w.contents(image)
	for name := range want {
		for id, data := range found[name] {
			if data != "new" {
				err = fmt.Errorf("queue %q: item %d is back", name, id)
			}
		}
		if err == nil && len(found[name]) == 0 {
			err = fmt.Errorf("queue %q has lost the new item", name)
		}
	}
	return err
}

// TestRepair flips a bit of every byte of a small directory, cuts every file at every length, and
// removes files.
//
// Its controls are the tallies, and TestRepairControl.
func TestRepair(t *testing.T) {
	step := amount(sampled[int64](113, 47), 29, 1) // primes
	for _, cut := range []bool{false, true} {
		w := newWreck(t, cut)
		var n repairTally
		try := func(what string, damage func(*segmenttest.FS) error) {
			t.Helper()
			image := w.disk.Kill()
			if err := damage(image); err != nil {
				t.Fatal(err)
			}
			if err := w.judge(image, &n); err != nil {
				t.Errorf("cut %t: %s: %v", cut, what, err)
			}
		}
		try("nothing", func(*segmenttest.FS) error { return nil })
		for name, data := range dumpOf(w.disk) {
			if !strings.HasSuffix(name, ".seg") && !strings.HasSuffix(name, runs.Ext) {
				continue
			}
			if w.tells(name) {
				try(name+" removed", func(image *segmenttest.FS) error { return image.Remove(name) })
			}
			for off := int64(0); off < int64(len(data)); off += step {
				try(fmt.Sprintf("bit flipped at %d of %s", off, name), func(image *segmenttest.FS) error {
					return image.FlipBit(name, off, uint(off*5)%8)
				})
				if (off/step)%3 > 0 && step > 1 {
					continue
				}
				try(fmt.Sprintf("%s cut to %d bytes", name, off), func(image *segmenttest.FS) error {
					return image.TruncateFile(name, off)
				})
			}
		}
		t.Logf("cut %t: %+v", cut, n)
		if n.sound == 0 || n.repaired < sampled(20, 50) || n.lost == 0 {
			t.Errorf("%+v: the damages lack variety", n)
		}
	}
}

// TestRepairControl breaks repairs on purpose, in ways that the judge of TestRepair must notice.
func TestRepairControl(t *testing.T) {
	pool := item.Pool{
		Memory: new(atomic.Int64), Arena: item.NewArena(testMemory), Free: item.NewFreeLists(1, testMemory)[0],
	}
	for _, tt := range []struct {
		name   string
		tamper func(*Damage, []*repair.Queue)
	}{
		{"nothing is broken", nil},
		{"losses are not reported", func(d *Damage, _ []*repair.Queue) { d.Losses = nil }},
		{"a loss is reported too large", func(d *Damage, _ []*repair.Queue) {
			for i := range d.Losses {
				d.Losses[i].Items++
			}
		}},
		{"an item is left behind", func(_ *Damage, queues []*repair.Queue) {
			for _, q := range queues {
				if q.Window.Count > 0 {
					var first Item
					q.Window.First(&first)
					q.Window.Pop(&pool, &first)
				}
			}
		}},
		{"an id is used again", func(_ *Damage, queues []*repair.Queue) {
			for _, q := range queues {
				*q.Window = item.Window{}
				q.NextID = 2
			}
		}},
		{"what was gone is forgotten", func(_ *Damage, queues []*repair.Queue) {
			for _, q := range queues {
				q.Gone = nil
			}
		}},
	} {
		w := newWreck(t, true)
		w.tamper = tt.tamper
		complaints := 0
		for _, name := range runFiles(w.disk) {
			data, err := w.disk.Bytes(name)
			if err != nil {
				t.Fatal(err)
			}
			for off := int64(100); off < int64(len(data)); off += 61 {
				image := w.disk.Kill()
				if err := image.FlipBit(name, off, 3); err != nil {
					t.Fatal(err)
				}
				if err := w.judge(image, &repairTally{}); err != nil {
					complaints++
				}
			}
		}
		if (tt.tamper != nil) != (complaints > 0) {
			t.Errorf("%s: %d complaints", tt.name, complaints)
		}
	}
}

// TestRepairCrash cuts the power at every step of a repair: another one then leaves what the first
// would have left.
func TestRepairCrash(t *testing.T) {
	for _, journal := range []bool{true, false} {
		t.Run(fmt.Sprintf("journal damaged=%t", journal), func(t *testing.T) {
			w := newWreck(t, true)
			for _, off := range []int64{700, 1100} {
				if err := w.disk.FlipBit(runFiles(w.disk)[0], off, 1); err != nil {
					t.Fatal(err)
				}
			}
			if journal {
				if err := w.disk.FlipBit(w.disk.Paths()[len(w.disk.Paths())-3], 150, 1); err != nil {
					t.Fatal(err)
				}
			}
			w.crashRepairs(t)
		})
	}
}

// TestRepairKilledOften kills repairs at one step after the other, in one directory: what they copied, and the journals
// that they began, do not pile up. Neither does the repair that ends.
func TestRepairKilledOften(t *testing.T) {
	w := newWreck(t, true)
	if err := w.disk.FlipBit(w.disk.Paths()[len(w.disk.Paths())-3], 150, 1); err != nil {
		t.Fatal(err)
	}
	image := w.disk.Kill()
	for n, ended := 1, false; !ended; n += 3 {
		image.StopAt(n)
		d, err := Examine(w.on(image))
		if err == nil {
			err = d.Repair()
		}
		ended = err == nil && !image.Stopped()
		image = image.Kill()
		dirs := make(map[string]bool)
		for _, name := range image.Paths() {
			if dir, _, _ := strings.Cut(strings.TrimPrefix(name, w.opts.Dir+"/"), "/"); dir != "backlog" {
				dirs[dir] = true
			}
		}
		if len(dirs) > 4 { // the journal and the one that takes its place; what it saves, and what an earlier one saved
			t.Fatalf("after a kill at step %d there are %v", n, slices.Sorted(maps.Keys(dirs)))
		}
	}
}

// crashRepairs cuts the power at every step of a repair.
func (w *wreck) crashRepairs(t *testing.T) {
	mend := func(image *segmenttest.FS) (*Damage, error) {
		d, err := Examine(w.on(image))
		if err == nil {
			if err = d.Repair(); err == nil {
				err = d.Close()
			}
		}
		return d, err
	}
	image := w.disk.Kill()
	d, err := mend(image)
	if err != nil || len(d.Losses) == 0 {
		t.Fatalf("repair = %v, losses %+v", err, d.Losses)
	}
	want, err := w.contents(image)
	if err != nil {
		t.Fatal(err)
	}
	crashes := 0
	for n := 1; ; n += sampled(5, 1) {
		image := w.disk.Kill()
		image.StopAt(n)
		if _, err := mend(image); err == nil && !image.Stopped() {
			break
		}
		crashes++
		mode := []segmenttest.Mode{segmenttest.Lose, segmenttest.Keep}[n%2]
		image = image.PowerCut(segmenttest.CutOptions{Mode: mode})
		d, err := Examine(w.on(image))
		if err == nil && !d.Sound() {
			err = d.Repair()
		}
		if err != nil {
			t.Fatalf("after a cut at step %d: %v", n, err)
		}
		d.Close()
		got, err := w.contents(image)
		if err != nil || !maps.EqualFunc(got, want, maps.Equal) {
			t.Errorf("after a cut at step %d: %v, %v, want %v", n, got, err, want)
		}
	}
	if crashes < sampled(10, 30) {
		t.Errorf("only %d steps", crashes)
	}
}
