package engine

import (
	"maps"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// TestRepairStrayHidden: a repair goes on if the record of a hidden run is lost, though its frames are not those of a
// backlog. It says what is in the file.
func TestRepairStrayHidden(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	h.putMany(20, 10*time.Second)
	h.work()
	file := h.queue().aside.hidden.Runs()[0].Path
	o := shut(t, h.Engine)
	if n := loseRecords(t, o, func(r *record.Record) bool { return r.Kind == record.KindHidden }); n == 0 {
		t.Fatal("there is no record of a hidden run")
	}
	d, _ := repaired(t, o)
	i := slices.IndexFunc(d.Stray, func(u StrayRun) bool { return u.Path == file })
	if i < 0 || d.Stray[i].Items != 20 || d.Stray[i].FirstID != 1 || d.Stray[i].LastID != 20 {
		t.Errorf("found %+v", d.Stray)
	}
}

// TestRepairStrayMarks is TestRepairStrayHidden of a file that says what is gone of a queue.
func TestRepairStrayMarks(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(2, 30, 300)
	m.checkpointed()
	awaitRuns(m.Engine)
	file := m.file().Path
	o := shut(t, m.Engine)
	if n := loseRecords(t, o, func(r *record.Record) bool { return r.Kind == record.KindMarks }); n == 0 {
		t.Fatal("there is no record of a file of marks")
	}
	d, _ := repaired(t, o)
	i := slices.IndexFunc(d.Stray, func(u StrayRun) bool { return u.Path == file })
	if i < 0 || d.Stray[i].Items != 0 || d.Stray[i].Removed != 136 {
		t.Errorf("found %+v", d.Stray)
	}
}

// TestRepairRescuesTheLastImage: an item was hidden, overwritten, and hidden again. Both files are damaged, and the
// journal still has it as it was overwritten. That image comes back, and not the one before.
func TestRepairRescuesTheLastImage(t *testing.T) {
	h := newHiding(t, segmenttest.New())
	put := func(body string, delay time.Duration) {
		p := PutRequest{Data: []byte(body), Extra: &PutExtra{Delay: delay, Key: []byte("k")}}
		ticket, err := h.Put(h.now, []byte("q"), p)
		if err == nil {
			err = h.Commit(ticket)
		}
		if err != nil {
			t.Fatal(err)
		}
		h.putMany(5, 300*time.Second)
		h.work()
	}
	put("before", 100*time.Second)
	put("now", 500*time.Second)
	o := shut(t, h.Engine)
	image := o.FS.(*segmenttest.FS)
	for _, name := range runFiles(image) {
		if err := image.FlipBit(name, segment.RunStart+segment.RunFrameOverhead, 3); err != nil {
			t.Fatal(err)
		}
	}
	_, after := repaired(t, o)
	if got := after["q"][1]; got != "now" {
		t.Errorf("item 1 is %q", got)
	}
}

// TestRepairNamelessLoss: of a queue whose name is lost nothing can be had, since its backlog is damaged too. The repair
// says so, and copies the file before a start removes it.
func TestRepairNamelessLoss(t *testing.T) {
	for _, what := range []string{"backlog", "hidden"} {
		t.Run(what, func(t *testing.T) {
			h := newHiding(t, segmenttest.New())
			mustPut(t, h.Engine, "other", "x")
			if what == "hidden" {
				h.putMany(10, 100*time.Second)
			} else {
				putMany(t, h.Engine, "q", 0, 30)
				spoolAll(h.Engine)
				h.spool.tend()
			}
			h.work()
			o := shut(t, h.Engine)
			loseRecords(t, o, func(r *record.Record) bool {
				return r.Queue == h.queue().number && r.Kind != record.KindSpill && r.Kind != record.KindHidden
			})
			image := o.FS.(*segmenttest.FS)
			files := runFiles(image)
			for _, name := range files {
				all, err := image.Bytes(name)
				if err != nil {
					t.Fatal(err)
				}
				for off := int64(segment.RunStart); off < int64(len(all)); off++ {
					if err := image.FlipBit(name, off, 3); err != nil {
						t.Fatal(err)
					}
				}
			}
			d, after := repaired(t, o)
			if len(after["other"]) != 1 || len(files) == 0 {
				t.Fatalf("found %v, files %q", after, files)
			}
			lost := int64(0)
			for _, l := range d.Losses {
				lost += l.Items
			}
			if lost == 0 {
				t.Errorf("lost are %+v", d.Losses)
			}
			for _, name := range files {
				if _, err := image.Bytes(path.Join(d.Saved, "backlog", path.Base(name))); err != nil {
					t.Errorf("of %s there is no copy: %v", name, err)
				}
			}
		})
	}
}

// TestRepairLostRemovals: files of a backlog leave out items that were removed, and what says so is lost. A server on the
// repaired directory does not look for these in the files.
func TestRepairLostRemovals(t *testing.T) {
	m := newMarking(t, segmenttest.New())
	m.put(400)
	m.removeEvery(2, 30, 300)
	m.checkpointed()
	awaitRuns(m.Engine) // writes the files again, without what is gone
	turnOver(t, m.Engine)
	o := shut(t, m.Engine)
	if err := o.FS.Remove(m.file().Path); err != nil {
		t.Fatal(err)
	}
	_, after := repaired(t, o)
	again := openQuiet(t, o)
	verify(t, again)
	if got := drain(t, again, "q"); len(got) != len(after["q"]) || len(got) == 0 {
		t.Errorf("%d items came, want %d", len(got), len(after["q"]))
	}
	verify(t, kill(t, again))
}

// TestRepairHiddenOfTwoNumbers is TestRepairRunOfTwoNumbers of a hidden run, which may be damaged too: its items are
// there once, and what is lost of them is reported.
func TestRepairHiddenOfTwoNumbers(t *testing.T) {
	for _, what := range []string{"whole", "damaged"} {
		for _, lost := range [][]byte{{record.KindDelete}, {record.KindDelete, record.KindQueue}} {
			h := newHiding(t, segmenttest.New())
			mustGetNothing(t, h.Engine, "q")
			mustPut(t, h.Engine, "other", "x")
			h.putMany(20, 100*time.Second)
			h.work()
			old, s := h.queue().number, h.opts.Settings
			for _, keep := range []bool{false, true} {
				s.Default.KeepJournal = keep
				if err := h.Reload(s); err != nil {
					t.Fatal(err)
				}
				mustPut(t, h.Engine, "other", "x")
			}
			o := shut(t, h.Engine)
			if n := loseRecords(t, o, func(r *record.Record) bool {
				return r.Queue == old && slices.Contains(lost, r.Kind)
			}); n == 0 {
				t.Fatal("no frame is damaged")
			}
			image := o.FS.(*segmenttest.FS)
			if what == "damaged" {
				if err := image.FlipBit(runFiles(image)[0], segment.RunStart+segment.RunFrameOverhead, 3); err != nil {
					t.Fatal(err)
				}
			}
			d, after := repaired(t, o)
			found, reported := 0, int64(0)
			for name, items := range after {
				if name != "other" {
					found += len(items)
				}
			}
			for _, l := range d.Losses {
				if l.Queue != "other" && l.Items > 0 {
					reported += l.Items
				}
			}
			if found+int(reported) != 20 {
				t.Errorf("%s, lost are %v: %d items are there, %d reported lost, want 20 in all: %v, %+v",
					what, lost, found, reported, slices.Sorted(maps.Keys(after)), d.Losses)
			}
		}
	}
}
