package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// loseRecords damages the frames of the journal that hold a record that is said to be lost, and
// returns how many there were.
func loseRecords(t *testing.T, o Options, lost func(*record.Record) bool) (frames int) {
	t.Helper()
	image := o.FS.(*segmenttest.FS)
	dir, err := JournalDir(image, o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	hits := make(map[string][]int64)
	_, _, err = segment.Scan(image, dir, func(f segment.Frame) error {
		for b := f.Payload; len(b) > 0; {
			rec, size, err := record.Parse(b)
			if err != nil {
				return err
			}
			if b = b[size:]; lost(&rec) {
				hits[f.Path] = append(hits[f.Path], f.Offset+segment.FrameHeaderSize)
				frames++
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, offsets := range hits {
		for _, off := range offsets {
			if err := image.FlipBit(name, off, 7); err != nil {
				t.Fatal(err)
			}
		}
	}
	return frames
}

// repaired examines and repairs a directory, and returns what was found out and what is there then.
// The announcement must be right.
func repaired(t *testing.T, o Options) (*Damage, map[string]map[uint64]string) {
	t.Helper()
	d, err := Examine(o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if !d.Sound() {
		if err := d.Repair(); err != nil {
			t.Fatal(err)
		}
	}
	w := &wreck{opts: o}
	after, err := w.contents(o.FS.(*segmenttest.FS))
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	for _, q := range d.Queues {
		if got := int64(len(after[q.Name])); got != q.Items {
			t.Errorf("announced %+v, there are %d items", q, got)
		}
	}
	if len(after) != len(d.Queues) {
		t.Errorf("announced %+v, there are %q", d.Queues, slices.Sorted(maps.Keys(after)))
	}
	return d, after
}

// shut closes e and returns options for what it leaves.
func shut(t *testing.T, e *Engine) Options {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	o := e.opts
	o.FS = o.FS.(*segmenttest.FS).Kill()
	return o
}

// TestRepairCountsRewritten: an item that the journal has twice is one item.
func TestRepairCountsRewritten(t *testing.T) {
	o := testOptions(newFS())
	o.SegmentSize, o.JournalSize = 1024, 4096
	e := openQuiet(t, o)
	putMany(t, e, "small", 0, 5)
	putMany(t, e, "large", 0, 300)
	if e.boundJournal(); e.shardOf([]byte("small")).queues["small"].segments.Of(1) == 1 {
		t.Fatal("nothing was rewritten")
	}
	if _, after := repaired(t, shut(t, e)); len(after["small"]) != 5 {
		t.Errorf("%d items are there, want 5", len(after["small"]))
	}
}

// TestRepairRunNumberGivenAgain: earlier versions gave the number of a deleted queue's run to another
// run. The repair that finds the old one missing leaves the file alone.
func TestRepairRunNumberGivenAgain(t *testing.T) {
	e := openQuiet(t, testOptions(newFS(), tiny))
	putMany(t, e, "old", 0, 30)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	mustPut(t, e, "other", "x") // what was recorded and the delete are in two frames
	mustCommit(t, e, e.Delete(Now(), []byte("old")))
	spoolAll(e)
	e.spool.dir.Last.Store(0)
	putMany(t, e, "new", 0, 30)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	o := shut(t, e)
	if n := loseRecords(t, o, func(r *record.Record) bool { return r.Kind == record.KindDelete }); n != 1 {
		t.Fatalf("%d records of a delete", n)
	}
	if _, after := repaired(t, o); len(after["new"]) != 30 {
		t.Errorf("%d items are there, want 30", len(after["new"]))
	}
}

// TestRunNumbersAreNotGivenAgain: also not after a start, if only a deleted queue had the run.
func TestRunNumbersAreNotGivenAgain(t *testing.T) {
	e := openQuiet(t, testOptions(newFS(), tiny))
	putMany(t, e, "old", 0, 30)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	last := e.spool.dir.Last.Load()
	mustCommit(t, e, e.Delete(Now(), []byte("old")))
	spoolAll(e)
	if again := openQuiet(t, shut(t, e)); last == 0 || again.spool.dir.Last.Load() < last {
		t.Errorf("the next run is number %d, and the journal knows number %d", again.spool.dir.Last.Load()+1, last)
	}
}

// TestRepairRunOfTwoNumbers: a queue left the journal and entered it again, under another number, and
// the record that says so is lost. Its run belongs to the number that recorded it last.
func TestRepairRunOfTwoNumbers(t *testing.T) {
	e := openQuiet(t, testOptions(newFS(), tiny))
	putMany(t, e, "q", 0, 20)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	putMany(t, e, "q", 20, 10)
	old := e.shardOf([]byte("q")).queues["q"].number
	s := e.opts.Settings
	for _, keep := range []bool{false, true} {
		s.Default.KeepJournal = keep
		if err := e.Reload(s); err != nil {
			t.Fatal(err)
		}
	}
	o := shut(t, e)
	n := loseRecords(t, o, func(r *record.Record) bool {
		return r.Queue == old && (r.Kind == record.KindDelete || r.Kind == record.KindQueue)
	})
	if n != 2 {
		t.Fatalf("%d frames are damaged", n)
	}
	if _, after := repaired(t, o); len(after["q"]) != 30 {
		t.Errorf("%d items are there, want 30", len(after["q"]))
	}
}

// TestRepairNameIsTaken: a queue without a name does not get that of a younger one, which would have
// it dropped.
func TestRepairNameIsTaken(t *testing.T) {
	e := openQuiet(t, testOptions(newFS()))
	mustGetNothing(t, e, "q") // its name and its items are in two frames
	putMany(t, e, "q", 0, 3)
	number := e.shardOf([]byte("q")).queues["q"].number
	taken := fmt.Sprint("recovered-", number)
	putMany(t, e, taken, 3, 2)
	o := shut(t, e)
	n := loseRecords(t, o, func(r *record.Record) bool { return r.Kind == record.KindQueue && r.Queue == number })
	if n != 1 {
		t.Fatalf("%d frames are damaged", n)
	}
	_, after := repaired(t, o)
	if len(after[taken]) != 2 || len(after) != 2 {
		t.Errorf("%v", after)
	}
}

// TestRepairSavesDropped: of a queue that is dropped for a younger one of its name the files are
// copied too, as all that is taken away.
func TestRepairSavesDropped(t *testing.T) {
	e := openQuiet(t, testOptions(newFS(), tiny))
	putMany(t, e, "q", 0, 30)
	spoolAll(e)
	e.spool.tend()
	spoolAll(e)
	run, err := e.opts.FS.(*segmenttest.FS).Bytes("data/backlog/0000000001.run")
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, e, "other", "x") // what was recorded and the delete are in two frames
	mustCommit(t, e, e.Delete(Now(), []byte("q")))
	mustPut(t, e, "q", "new")
	o := shut(t, e) // before the file is removed
	if n := loseRecords(t, o, func(r *record.Record) bool { return r.Kind == record.KindDelete }); n != 1 {
		t.Fatalf("%d records of a delete", n)
	}
	d, after := repaired(t, o)
	if len(d.Dropped) != 1 || len(after["q"]) != 1 {
		t.Fatalf("dropped %q, %d items are left", d.Dropped, len(after["q"]))
	}
	saved, err := o.FS.(*segmenttest.FS).Bytes(d.Saved + "/backlog/0000000001.run")
	if err != nil || string(saved) != string(run) {
		t.Errorf("the run was not saved: %v", err)
	}
}

// TestRepairFullDisk: a repair that finds no room leaves nothing behind, wherever it ends, and can be
// tried again.
func TestRepairFullDisk(t *testing.T) {
	w := newWreck(t, true)
	if err := w.disk.FlipBit(runFiles(w.disk)[0], 700, 1); err != nil {
		t.Fatal(err)
	}
	before := dumpOf(w.disk)
	room := int64(0)
	for _, data := range before {
		room += int64(len(data))
	}
	failures := 0
	for ; ; room += 64 {
		image := w.disk.Kill()
		image.DiskFull(room)
		d, err := Examine(w.on(image))
		if err != nil {
			t.Fatal(err)
		}
		err = d.Repair()
		d.Close()
		if err == nil {
			break
		}
		if failures++; !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("room for %d bytes: Repair = %v, want that the disk is full", room, err)
		}
		if after := dumpOf(image); !maps.Equal(after, before) {
			t.Fatalf("room for %d bytes: Repair leaves %q, want %q", room,
				slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
		if names, err := image.List(testDir); err != nil || slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, "damaged")
		}) {
			t.Fatalf("room for %d bytes: %q are left, %v", room, names, err)
		}
	}
	if failures < 10 {
		t.Errorf("only %d repairs ran out of room", failures)
	}
}
