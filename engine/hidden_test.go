package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/hidden"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// hiding is an engine without background work, whose clock stands still until a test sets it. Its queues have so
// little memory that delayed items are hidden at once.
type hiding struct {
	*testing.T
	*Engine
	fsys *segmenttest.FS
	now  Time
	// damaged says that files are not what the journal says: nothing is verified, and the test closes the engine.
	damaged bool
}

func newHiding(t *testing.T, fsys *segmenttest.FS, change ...func(*Options)) *hiding {
	h := &hiding{T: t, fsys: fsys, now: 1700000000000}
	h.open(change...)
	return h
}

func (h *hiding) open(change ...func(*Options)) {
	h.Helper()
	o := testOptions(h.fsys, func(o *QueueOptions) { o.MaxMemorySize = 100 })
	o.readBack = time.Second
	for _, f := range change {
		f(&o)
	}
	if h.damaged {
		e, err := open(o)
		if err != nil {
			h.Fatal(err)
		}
		h.Engine = e
	} else {
		h.Engine = openQuiet(h.T, o)
	}
	h.precise = func() (Time, time.Duration) { return h.now, 0 }
	h.spool.now = h.precise.Now
}

// put puts an item that is due so long from now, and whose body says when that is.
func (h *hiding) put(delay time.Duration) string {
	h.Helper()
	body := fmt.Sprintf("due %d %s", h.now.After(delay), strings.Repeat("x", int(delay/time.Second)%40))
	p := PutRequest{Data: []byte(body), Extra: &PutExtra{Delay: delay}}
	ticket, err := h.Put(h.now, []byte("q"), p)
	if err == nil {
		err = h.Commit(ticket)
	}
	if err != nil {
		h.Fatal(err)
	}
	return body
}

// putMany puts n items that are due one second after the other, the last first, from first on.
func (h *hiding) putMany(n int, first time.Duration) (bodies []string) {
	h.Helper()
	for i := n - 1; i >= 0; i-- {
		bodies = append(bodies, h.put(first+time.Duration(i)*time.Second))
	}
	slices.Reverse(bodies)
	return bodies
}

func (h *hiding) queue() *queue { return h.shardOf([]byte("q")).queues["q"] }

// work has the spool do all that it has to do, and the journal be written.
func (h *hiding) work() {
	for range 3 {
		h.spool.tend()
		spoolSome(h.Engine, 1<<30)
	}
	h.Commit(Ticket{Written: h.journal.End(), Synced: h.journal.End()}) // it may fail, as calls of the disk do
}

func (h *hiding) disk() int64 { return h.queue().hiddenDisk().Count }

// next takes the next item, and returns its body; "" if there is none.
func (h *hiding) next() string {
	h.Helper()
	return h.nextWith(FetchRequest{})
}

// nextWith is next by a request.
func (h *hiding) nextWith(request FetchRequest) string {
	h.Helper()
	var got copied
	f, err := h.Fetch(h.now, []byte("q"), request, &got)
	for ; err == ErrComing; f, err = h.Fetch(h.now, []byte("q"), request, &got) {
		h.work()
	}
	if err == nil {
		err = h.Commit(f.Ticket)
	}
	if err != nil && err != ErrEmpty {
		h.Fatal(err)
	}
	return string(got.item.Data)
}

// wantInOrder takes items out as they become due, and fails the test unless these are the ones, none earlier than
// it is due.
func (h *hiding) wantInOrder(want []string) {
	h.Helper()
	for _, body := range want {
		var due Time
		if _, err := fmt.Sscanf(body, "due %d", &due); err != nil {
			h.Fatal(err)
		}
		if h.now = max(h.now, due); due == h.now {
			if got := h.next(); got != "" {
				h.Fatalf("at %d, when %.30q is not due yet, %.30q came", h.now, body, got)
			}
		}
		h.now++
		if got := h.next(); got != body {
			h.Fatalf("at %d %.30q came, want %.30q", h.now, got, body)
		}
	}
}

// restart ends the process, or cuts the power of the machine, and starts another.
func (h *hiding) restart(power bool, change ...func(*Options)) {
	h.Helper()
	verify(h.T, h.Engine)
	if h.fsys = h.fsys.Kill(); power {
		h.fsys = h.Engine.opts.FS.(*segmenttest.FS).PowerCut(segmenttest.CutOptions{Mode: segmenttest.Lose})
	}
	h.open(change...)
	verify(h.T, h.Engine)
}

// wantNothingLeft tests that hidden runs are gone, and their memory with them.
func (h *hiding) wantNothingLeft() {
	h.Helper()
	if files := runFiles(h.fsys); len(files) > 0 {
		h.Errorf("%q are left", files)
	}
	if n := memoryBeyondQueues(h.Engine); n != 0 {
		h.Errorf("%d bytes are taken by nothing", n)
	}
}

// TestHiddenRuns hides delayed items, ends the process, and takes them all out when they are due.
func TestHiddenRuns(t *testing.T) {
	for _, power := range []bool{false, true} {
		for _, codec := range []segment.Codec{segment.CodecNone, segment.CodecS2} {
			h := newHiding(t, segmenttest.New())
			compressed := func(o *Options) { o.BacklogCompression = codec }
			h.restart(false, compressed)
			early := h.putMany(50, time.Minute)
			h.work()
			late := h.putMany(50, 90*time.Second+time.Millisecond)
			h.work()
			if n := h.disk(); n != 100 {
				t.Fatalf("%d items are hidden, want 100", n)
			}
			if s, _ := h.QueueStats(h.now, []byte("q")); s.Delayed != 100 || s.Items != 100 || s.MemItems != 0 || s.BacklogBytes == 0 {
				t.Errorf("stats are %+v", s)
			}
			h.restart(power, compressed)
			if n := h.disk(); n != 100 {
				t.Fatalf("after a restart %d items are hidden, want 100", n)
			}
			all := append(early, late...)
			slices.Sort(all)
			h.wantInOrder(all[:70])
			h.restart(power, compressed)
			h.wantInOrder(all[70:])
			if n := h.queue().items(); n != 0 {
				h.Errorf("%d items are left", n)
			}
			h.work()
			if files := runFiles(h.fsys); len(files) > 0 {
				t.Errorf("%q are left", files)
			}
		}
	}
}

// TestHiddenBackground tests that, with background work, delayed items reach waiting clients at most 2 ms after they
// are due. They come no earlier, and take no memory before that.
func TestHiddenBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(segmenttest.New(), func(o *QueueOptions) { o.MaxMemorySize = 64 << 10 })
		e, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		q, err := e.Queue("q")
		if err != nil {
			t.Fatal(err)
		}
		began, items := time.Now(), 3000
		for i := range items {
			p := PutRequest{Data: fmt.Append(nil, i), Extra: &PutExtra{Delay: time.Minute + time.Duration(i*7919%items)*10*time.Millisecond}}
			if _, err := e.Put(Now(), []byte("q"), p); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if s, _ := e.QueueStats(Now(), []byte("q")); s.Delayed != int64(items) || s.MemItems > 500 {
			t.Errorf("of %d delayed items %d are in memory", s.Delayed, s.MemItems)
		}
		for i := range items {
			it, err := q.Get(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var n int
			fmt.Sscan(string(it.Data), &n)
			due := time.Minute + time.Duration(i)*10*time.Millisecond
			if late := time.Since(began) - due; n*7919%items != i || late < 0 || late > 2*time.Millisecond {
				t.Fatalf("item %d came %v late, in place %d", n, late, i)
			}
		}
		if err := e.Verify(); err != nil {
			t.Error(err)
		}
	})
}

// TestHiddenLetsGoOfJournal: delayed items do not keep the journal from staying at its size, nor do they keep a
// full queue's memory.
func TestHiddenLetsGoOfJournal(t *testing.T) {
	const size = 1 << 20
	h := newHiding(t, segmenttest.New(), func(o *Options) {
		o.JournalSize, o.SegmentSize = size, 64<<10
		o.Settings.Default.MaxMemorySize = 128 << 20
	})
	for range 4000 {
		h.put(time.Hour)
		h.put(time.Hour + 30*time.Second)
	}
	for round := range 40 {
		for range 50 {
			mustPut(t, h.Engine, "other", strings.Repeat("y", 1000))
			mustGet(t, h.Engine, "other")
		}
		h.boundJournal()
		h.work()
		if err := h.trimJournal(); err != nil {
			t.Fatal(err)
		}
		if n := h.Stats().JournalBytes; round > 20 && n > size*3/2 {
			t.Fatalf("round %d: the journal has %d bytes, want about %d", round, n, size)
		}
	}
	if n := h.disk(); n < 7000 {
		t.Errorf("%d items are hidden", n)
	}
	h.restart(true)
	if n := h.queue().items(); n != 8000 {
		t.Errorf("%d items are left, want 8000", n)
	}
}

// TestHiddenWrittenAgain: of a run that is mostly gone the rest is written again, and its file goes.
func TestHiddenWrittenAgain(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	soon := h.putMany(80, 10*time.Second)
	last := h.putMany(10, time.Hour)
	h.work()
	before := runFiles(h.fsys)
	if h.disk() != 90 || len(before) != 1 {
		t.Fatalf("%d items are hidden in %q", h.disk(), before)
	}
	for _, body := range soon {
		h.now = h.now.After(time.Second)
		for h.next() != body {
			h.now++
		}
	}
	h.now = h.now.After(2 * quietShare * time.Second)
	h.work()
	after := runFiles(h.fsys)
	if h.disk() != 10 || len(after) != 1 || after[0] == before[0] {
		t.Fatalf("%d items are hidden in %q, before in %q", h.disk(), after, before)
	}
	h.restart(true)
	h.wantInOrder(last)
}

// TestHiddenFaults has every call of the disk fail once while items are hidden, read back and written again. No
// item is lost, none comes early, and when the disk works all goes on.
func TestHiddenFaults(t *testing.T) {
	for n := 1; ; n++ {
		fsys := segmenttest.New()
		h := newHiding(t, fsys)
		calls, hit := 0, ""
		fsys.SetFault(func(op segmenttest.Op) segmenttest.Fault {
			if !strings.Contains(op.Path, "backlog") {
				return segmenttest.Fault{}
			}
			if calls++; calls == n {
				hit = fmt.Sprint(op.Kind, " ", op.Path)
				return segmenttest.Fault{Err: syscall.EIO}
			}
			return segmenttest.Fault{}
		})
		want := h.putMany(30, 10*time.Second)
		h.work()
		h.now = h.now.After(5 * time.Second)
		h.work()
		far := h.putMany(3, time.Hour)
		h.work()
		for _, body := range want {
			for tries := 0; ; tries++ {
				h.now = h.now.After(500 * time.Millisecond)
				if got := h.next(); got == body {
					break
				} else if got != "" || tries > 100 {
					t.Fatalf("call %d, %s: %q came, want %q", n, hit, got, body)
				}
				h.work()
			}
		}
		h.now = h.now.After(2 * quietShare * time.Second)
		h.work()
		fsys.SetFault(nil)
		verify(t, h.Engine)
		h.restart(true)
		h.wantInOrder(far)
		h.work()
		if files := runFiles(h.fsys); len(files) > 0 && hit != "" {
			t.Errorf("call %d, %s: %q are left", n, hit, files)
		}
		if hit == "" {
			t.Logf("%d calls failed, one at a time", n-1)
			return
		}
	}
}

// TestHiddenOverdue: what is due when the process starts is handed out, and a fetch waits for it.
func TestHiddenOverdue(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	want := h.putMany(40, 10*time.Second)
	h.work()
	h.now = h.now.After(time.Hour)
	h.restart(false)
	var got copied
	if _, err := h.Fetch(h.now, []byte("q"), FetchRequest{}, &got); err != ErrComing {
		t.Fatalf("Fetch = %v, want %v", err, ErrComing)
	}
	var all []string
	for body := h.next(); body != ""; body = h.next() {
		all = append(all, body)
	}
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("%d items came, want %d", len(all), len(want))
	}
}

// TestHiddenFlush: a flush takes hidden items, and leaves those of open reads that live in runs; a deletion takes
// all, and the files.
func TestHiddenFlush(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(3, 10*time.Second)
	h.putMany(20, time.Hour)
	h.work()
	h.now = h.now.After(11 * time.Second)
	h.work()
	var got copied
	f, err := h.Fetch(h.now, []byte("q"), FetchRequest{Access: OpenRead}, &got)
	for ; err == ErrComing; f, err = h.Fetch(h.now, []byte("q"), FetchRequest{Access: OpenRead}, &got) {
		h.work()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Flush(h.now, []byte("q"), ""); err != nil {
		t.Fatal(err)
	}
	verify(t, h.Engine)
	h.work()
	turnOver(t, h.Engine)
	h.restart(true)
	if n := h.queue().items(); n != 1 || f.Read.IsZero() {
		t.Errorf("%d items are left, want the one that was open", n)
	}
	if body := h.next(); body != string(got.item.Data) {
		t.Errorf("got %q, want %q", body, got.item.Data)
	}
	h.putMany(20, time.Hour)
	h.work()
	h.Delete(h.now, []byte("q"))
	h.work()
	h.wantNothingLeft()
}

// TestHiddenMoves: a journal that is written anew after a failed sync has the hidden runs, and so has one that a
// queue enters.
func TestHiddenMoves(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	want := h.putMany(20, 10*time.Second)
	h.work()
	if err := h.moveJournal(); err != nil {
		t.Fatal(err)
	}
	h.restart(true)
	keep := func(keep bool) {
		s := h.Engine.opts.Settings
		s.Default.KeepJournal = keep
		if err := h.Reload(s); err != nil {
			t.Fatal(err)
		}
		verify(t, h.Engine)
	}
	keep(false)
	keep(true)
	turnOver(t, h.Engine)
	h.restart(true)
	h.wantInOrder(want)
}

// TestHiddenInspect: a directory that is looked at shows hidden items, and a queue whose run is missing is
// withheld.
func TestHiddenInspect(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(20, 10*time.Second)
	h.work()
	h.put(time.Second)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o := h.Engine.opts
	o.FS = h.fsys.Kill()
	s, err := Inspect(o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := s.Each("q", func(it Item) bool { n++; return true }); err != nil || n != 21 {
		t.Errorf("it has %d items, %v", n, err)
	}
	if q := s.Queues[0]; q.Items != 21 || q.Delayed != 21 {
		t.Errorf("it holds %+v", q)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range runFiles(h.fsys) {
		if err := o.FS.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	e := openQuiet(t, o)
	if w := e.Withheld(); len(w) != 1 || w[0].Name != "q" {
		t.Errorf("withheld are %+v", w)
	}
}

// TestHiddenDamage flips a bit in a hidden run at one place after another. Others of its items are served; the
// queue may be withheld if the index is hit. A repair says what is lost, and keeps the rest with its delays.
func TestHiddenDamage(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	var want []string
	for range 5 {
		want = append(want, h.putMany(10, time.Duration(20+len(want))*time.Second)...)
		h.work()
	}
	want = append(want, h.putMany(3, 1000*time.Second)...)
	turnOver(t, h.Engine)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	sound, lossy := 0, 0
	for _, name := range runFiles(h.fsys) {
		all, err := h.fsys.Bytes(name)
		if err != nil {
			t.Fatal(err)
		}
		size := int64(len(all))
		for off := int64(0); off < size; off += max(size/sampled(int64(12), 40), 1) {
			image := h.fsys.Kill()
			if err := image.FlipBit(name, off, uint(off%8)); err != nil {
				t.Fatal(err)
			}
			o := h.Engine.opts
			o.FS = image
			d, err := Examine(o)
			if err != nil {
				t.Fatalf("%s, offset %d: %v", name, off, err)
			}
			if d.Sound() {
				sound++
			} else if err := d.Repair(); err != nil {
				t.Fatalf("%s, offset %d: %v", name, off, err)
			}
			lost := int64(0)
			for _, l := range d.Losses {
				if l.Queue != "q" || l.Path != name || l.Items <= 0 {
					t.Fatalf("%s, offset %d: loss %+v", name, off, l)
				}
				lost += l.Items
			}
			announced := d.Queues[slices.IndexFunc(d.Queues, func(q SalvagedQueue) bool { return q.Name == "q" })]
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if lost > 0 {
				lossy++
			}
			again := &hiding{T: t, fsys: image, now: h.now, damaged: true}
			again.open()
			left := again.queue().items()
			if left+lost != int64(len(want)) || announced.Items != left {
				t.Fatalf("%s, offset %d: %d items are left and %d lost of %d, announced %+v",
					name, off, left, lost, len(want), announced)
			}
			if lost == 0 && off%3 == 0 {
				again.wantInOrder(want)
			}
			if verify(t, again.Engine); t.Failed() {
				t.Fatalf("%s, offset %d", name, off)
			}
			again.Engine.Close()
		}
	}
	if sound == 0 || lossy == 0 {
		t.Errorf("%d places were sound, %d cost something", sound, lossy)
	}
}

// TestHiddenReadFails: a frame that cannot be read is reported, and keeps nobody from other items.
func TestHiddenReadFails(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(10, 10*time.Second)
	h.work()
	bad := runFiles(h.fsys)[0]
	h.now++
	others := h.putMany(10, 20*time.Second)
	h.work()
	h.fsys, h.damaged = h.fsys.Kill(), true
	h.open()
	defer h.Engine.Close()
	if err := h.fsys.FlipBit(bad, 200, 1); err != nil {
		t.Fatal(err)
	}
	h.now = h.now.After(time.Minute)
	var got []string
	for body := h.next(); body != ""; body = h.next() {
		got = append(got, body)
	}
	slices.Sort(got)
	if !slices.Equal(got, others) {
		t.Errorf("%d items came, want %d", len(got), len(others))
	}
	if s, _ := h.QueueStats(h.now, []byte("q")); s.ReadErrors != 1 || s.Delayed != 10 {
		t.Errorf("stats are %+v", s)
	}
	if errors.Is(h.queue().aside.hidden.Runs()[0].Err, segment.ErrCorrupt) == false {
		t.Errorf("the run fails with %v", h.queue().aside.hidden.Runs()[0].Err)
	}
}

// TestHiddenFrameIsNoBacklog: what reads backlogs does not take a hidden run for one.
func TestHiddenFrameIsNoBacklog(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(10, 10*time.Second)
	h.work()
	r := h.queue().aside.hidden.Runs()[0]
	h.spool.readMu.Lock()
	defer h.spool.readMu.Unlock()
	entries, err := h.spool.hiddenReader.Frame(r, 0)
	if err != nil || len(entries) != 10 || !slices.IsSortedFunc(entries, func(a, b hidden.Entry) int { return int(a.Due - b.Due) }) {
		t.Fatalf("a frame has %d items, %v", len(entries), err)
	}
	tag, body, err := h.spool.reader.Read(r.File, r.Frames[0].Offset, r.End, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runs.ParseTag(tag).Check(body); err == nil {
		t.Error("a backlog takes a frame of a hidden run for its own")
	}
}
