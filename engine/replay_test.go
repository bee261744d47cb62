package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// records encodes what a test says, separated by ", ":
//
//	queue NEXT      queue 1, called q, exists, and its next item id is NEXT
//	put ID          … gets an item
//	next            the queue of the last put gets another one
//	puts ID-ID      … gets items
//	remove ID-ID    … loses items
//	flush ID ID…    … loses the items below the first id, except the others
//	delete          … is gone
//
// A number behind @ names another queue, and one behind : its name; "put 1@1 4@2" is a fanout put.
func records(t testing.TB, text string) (batch []byte) {
	t.Helper()
	for _, one := range recordTexts(text) {
		batch = append(batch, oneRecord(t, strings.Fields(one))...)
	}
	return batch
}

func recordTexts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ", ")
}

func oneRecord(t testing.TB, f []string) []byte {
	t.Helper()
	var ids []uint64
	var to []record.Destination
	queue, name := uint64(1), "q"
	for _, arg := range f[1:] {
		id, of, other := strings.Cut(arg, "@")
		if other {
			number, called, _ := strings.Cut(of, ":")
			queue, name = number64(t, number), called
		}
		for _, n := range strings.Split(id, "-") {
			if n != "" {
				ids = append(ids, number64(t, n))
				to = append(to, record.Destination{Queue: queue, Item: ids[len(ids)-1]})
			}
		}
	}
	switch f[0] {
	case "queue":
		return record.AppendQueue(nil, queue, ids[0], 1000, name)
	case "put":
		it := Item{Data: fmt.Append(nil, ids)}
		if len(to) == 1 {
			return record.AppendPut(nil, to[0], it)
		}
		return record.AppendFanout(nil, to, it)
	case "next":
		return record.AppendNext(nil, Item{})
	case "puts":
		var images []byte
		for range ids[1] - ids[0] + 1 {
			images = item.AppendImage(images, &Item{})
		}
		return record.AppendPuts(nil, to[0], images)
	case "remove":
		return record.AppendRemove(nil, queue, ids[0], uint32(ids[1]-ids[0]))
	case "flush":
		return record.AppendFlush(nil, queue, ids[0], ids[1:])
	case "delete":
		return record.AppendDelete(nil, queue)
	}
	t.Fatalf("no record %q", f)
	return nil
}

func number64(t testing.TB, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const frameOffset = 100 // of the frames of replayRecords

// replayRecords replays batches of records, each in a segment of its own. It returns the error, or what the queues
// hold, as "name:next id[ids]" sorted by name.
func replayRecords(t testing.TB, batches ...[]byte) (string, error) {
	t.Helper()
	e := openQuiet(t, testOptions(newFS()))
	r := newRevival(e, nil)
	for i, b := range batches {
		f := segment.Frame{Payload: b, Segment: uint64(i + 1), Path: "x", Offset: frameOffset}
		if err := r.frame(f); err != nil {
			return "", err
		}
	}
	if _, _, err := r.finish(); err != nil {
		return "", err
	}
	verify(t, e)
	var all []string
	e.eachQueue(func(q *queue) {
		var ids []string
		for _, it := range contents(e, q.name, false) {
			ids = append(ids, fmt.Sprint(it.ID))
		}
		all = append(all, fmt.Sprintf("%s:%d%v", q.name, q.nextID, ids))
	})
	slices.Sort(all)
	return strings.Join(all, " "), nil
}

func TestReplay(t *testing.T) {
	for _, tt := range []struct{ name, records, want string }{
		{"nothing", "", ""},
		{"a queue", "queue 1", "q:1[]"},
		{"puts", "queue 1, put 1, put 2", "q:3[1 2]"},
		{"the name comes last, as after a trim", "put 5, put 6, queue 7", "q:7[5 6]"},
		{"the next id is recorded without items", "queue 1, put 1, remove 1-1, queue 9", "q:9[]"},
		{"ids with gaps", "queue 1, put 3, put 7", "q:8[3 7]"},
		{"removes at the head", "queue 1, put 1, put 2, put 3, remove 1-2", "q:4[3]"},
		{"removes in the middle, then before it",
			"queue 1, put 1, put 2, put 3, put 4, remove 3-3, remove 2-2", "q:5[1 4]"},
		{"removes in the middle that reach the head later",
			"queue 1, put 1, put 2, put 3, put 4, remove 2-3, remove 1-1", "q:5[4]"},
		{"removes that overlap",
			"queue 1, put 1, put 2, put 3, put 4, put 5, remove 2-3, remove 3-4, remove 2-2",
			"q:6[1 5]"},
		{"a remove between puts", "queue 1, put 1, put 2, remove 2-2, put 3", "q:4[1 3]"},
		{"a remove of items dropped long ago", "queue 9, remove 1-8, put 9", "q:10[9]"},
		{"removes twice", "queue 1, put 1, remove 1-1, remove 1-1", "q:2[]"},
		{"flush", "queue 1, put 1, put 2, flush 3, put 3", "q:4[3]"},
		{"flush leaves open reads", "queue 1, put 1, put 2, put 3, put 4, flush 5 3 1", "q:5[1 3]"},
		{"flush leaves all", "queue 1, put 1, put 2, flush 3 1 2", "q:3[1 2]"},
		{"flush, then the open read is confirmed",
			"queue 1, put 1, put 2, flush 3 2, remove 2-2", "q:3[]"},
		{"delete", "queue 1, put 1, delete", ""},
		{"delete, then removes that were on their way", "queue 1, put 1, delete, remove 1-1", ""},
		{"delete of a queue whose name was dropped", "put 5, delete", ""},
		{"deleted and made again", "queue 1, put 1, delete, queue 1@2:q, put 1@2", "q:2[1]"},
		{"fanout", "queue 1, queue 4@2:q+c, put 4@2 1@1, remove 1-1@1", "q+c:5[4] q:2[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := replayRecords(t, records(t, tt.records)); err != nil || got != tt.want {
				t.Errorf("in one batch: %s, %v, want %s", got, err, tt.want)
			}
			var batches [][]byte
			for _, text := range recordTexts(tt.records) {
				batches = append(batches, records(t, text))
			}
			if got, err := replayRecords(t, batches...); err != nil || got != tt.want {
				t.Errorf("in several segments: %s, %v, want %s", got, err, tt.want)
			}
		})
	}
}

// TestReplayNext: a next record continues the put before, in its frame only.
func TestReplayNext(t *testing.T) {
	got, err := replayRecords(t, records(t,
		"queue 1, queue 1@2:p, put 5, next, remove 6-6, next, queue 8, put 3@2, next, puts 8-9, next"))
	if want := "p:5[3 4] q:11[5 7 8 9 10]"; err != nil || got != want {
		t.Errorf("in one frame: %s, %v, want %s", got, err, want)
	}
	_, err = replayRecords(t, records(t, "queue 1, put 1"), records(t, "next"))
	if err == nil || !strings.Contains(err.Error(), "a record continues a put") {
		t.Errorf("in another frame: %v, want that no put comes before", err)
	}
}

func TestReplayCorrupt(t *testing.T) {
	const journal = "data/journal: damaged at offset 0: "
	for _, tt := range []struct{ name, records, extra, want string }{
		{"no record", "", "hello", "at record 0: unknown record kind 104"},
		{"no record behind one", "queue 1", "\xff\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08",
			"at record 7: unknown record kind 255"},
		{"puts that go back", "queue 1, put 4, puts 3-6", "", "queue 1: item 3 is put twice, or out of order"},
		{"puts past the last id", "puts 18446744073709551613-18446744073709551615", "",
			"queue 1: item id 18446744073709551615 is out of range"},
		{"next without a put", "queue 1, next", "", "a record continues a put to one queue, and none precedes it"},
		{"next behind a fanout put", "queue 1, put 1, queue 1@2:p, put 2@1 1@2, next", "",
			"a record continues a put to one queue, and none precedes it"},
		{"next behind the next id of a queue record", "queue 1, put 1, queue 7, next", "",
			"queue 1: item 2 is put twice, or out of order"},
		{"an illegal name", "queue 1@1:a.b", "", `queue name "a.b" contains illegal characters`},
		{"another name", "queue 1, queue 1@1:p", "", `queue 1 is named "p", but was "q"`},
		{"the next id goes back", "queue 1, put 1, queue 1", "",
			`queue "q": next item id is 1, but item 1 was put`},
		{"an item twice", "queue 1, put 1, put 1", "", "queue 1: item 1 is put twice, or out of order"},
		{"items out of order", "queue 1, put 2, put 1", "", "queue 1: item 1 is put twice, or out of order"},
		{"an item twice in one put", "queue 1, put 1@1 1@1", "", "queue 1: item 1 is put twice, or out of order"},
		{"item zero", "queue 1, put 0", "", "queue 1: item 0 is put twice, or out of order"},
		{"the last id there could be", "queue 1, put 18446744073709551615", "",
			"queue 1: item id 18446744073709551615 is out of range"},
		{"removes past every id", "queue 1, remove 18446744073709551615-18446744073709551615", "",
			"a record removes 1 items from item 18446744073709551615 on"},
		{"flush leaves what it does not reach", "queue 9, flush 5 5", "",
			"a flush of all items below 5 leaves item 5"},
		{"items without a name", "put 1", "", journal + "queue 1 has 1 items but no name"},
	} {
		_, err := replayRecords(t, append(records(t, tt.records), tt.extra...))
		var damage *segment.CorruptionError
		if !errors.As(err, &damage) {
			t.Errorf("%s: %v, want a CorruptionError", tt.name, err)
			continue
		}
		at := damage.Offset - frameOffset - segment.FrameHeaderSize
		got := fmt.Sprintf("at record %d: %s", at, damage.Reason)
		if damage.Offset == 0 {
			got = damage.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %q", tt.name, got, tt.want)
		}
	}
}

// TestReplayHandsOutNewNumbers: a number that any record of the journal names is not given to a new
// queue.
func TestReplayHandsOutNewNumbers(t *testing.T) {
	for _, text := range []string{
		"queue 1@77:q", "delete @77", "remove 1-1@77", "flush 1@77", "put 1@77, delete @77",
	} {
		e, _ := newQuiet(t)
		f := segment.Frame{Payload: records(t, text), Segment: 1}
		r := newRevival(e, nil)
		if err := r.frame(f); err != nil {
			t.Fatal(err)
		}
		if _, _, err := r.finish(); err != nil {
			t.Fatal(err)
		}
		if got := e.lastNumber.Add(1); got != 78 {
			t.Errorf("after %s the next queue gets number %d, want 78", text, got)
		}
	}
}

// messageSeeds are records of items that are delayed, leased, given up, or have keys. Each frame is cut between two
// records, so that both halves are whole.
func messageSeeds(f *testing.F) {
	var (
		to     = record.Destination{Queue: 1, Item: 1}
		plain  = Item{ID: 1, Data: []byte("body")}
		keyed  = plain.With(nil, []byte("key"), "", 0)
		buried = plain.With(nil, []byte("key"), "q", TooOften)
		queue  = record.AppendQueue(nil, 1, 1, 1000, "q")
		put    = slices.Concat(queue, record.AppendPut(nil, to, plain))
		due    = Time(1700000000000)
		ids    = idset.BitmapOf(idset.Of([]uint64{1, 7}))
		run    = segment.RunID{Number: 3, ID: 5}
		hidden = record.Hidden{Index: 100, End: 200, Bytes: 4, IDs: ids.AppendTo(nil)}
	)
	seed := func(first []byte, then ...[]byte) {
		f.Add(slices.Concat(first, slices.Concat(then...)), uint16(len(first)))
	}
	seed(put, record.AppendChange(nil, 1, 1, record.Change{Due: due}))
	seed(put, record.AppendChange(nil, 1, 1, record.Change{Due: due, Token: 77, Count: 2}),
		record.AppendChange(nil, 1, 1, record.Change{Token: 77, Count: 3}))
	seed(put, record.AppendChange(nil, 1, 1, record.Change{Due: due}), record.AppendRemove(nil, 1, 1, 0))
	seed(put, record.AppendChange(nil, 1, 1, record.Change{}), record.AppendFlush(nil, 1, 2, []uint64{1}))
	seed(slices.Concat(queue, record.AppendPut(nil, to, keyed)), record.AppendKeep(nil, 1, keyed),
		record.AppendChange(nil, 1, 1, record.Change{Due: due}))
	seed(slices.Concat(put, record.AppendQueue(nil, 2, 1, 1000, "q_dead")),
		record.AppendPut(nil, record.Destination{Queue: 2, Item: 1}, buried), record.AppendRemove(nil, 1, 1, 0))
	seed(put, record.AppendChange(nil, 1, 1, record.Change{Due: due}), record.AppendHidden(nil, 1, run, hidden))
	seed(put, record.AppendMarks(nil, 1, record.Marks{Run: run, End: 100, Count: 1}))
	seed(put, record.AppendMarks(nil, 1, record.Marks{}))
}

// FuzzReplay replays any bytes, cut into two batches. There is no panic, and errors say where they are. Memory is in
// proportion to what was read, and what is accepted is sound and can be used.
func FuzzReplay(f *testing.F) {
	seed := func(text string) { f.Add(records(f, text), uint16(30)) }
	seed("queue 1, put 1, put 2, remove 1-1")
	seed("queue 1, put 1, flush 9 1, delete")
	seed("queue 1, puts 1-5, next, remove 2-3, puts 7-9")
	seed("queue 1, put 1, next, next, remove 2-2, next")
	seed("put 3, remove 2-7, queue 9, queue 1@2:q+c, put 9@1 1@2")
	seed("remove 0-18446744073709551614, put 18446744073709551614, queue 18446744073709551615")
	f.Add(slices.Concat(
		record.AppendQueue(nil, 1, 10, 1700000000000, "jobs+a"), record.AppendFlush(nil, 1, 10, []uint64{3, 7}),
		record.AppendFanout(nil, []record.Destination{{Queue: 1, Item: 9}, {Queue: 128, Item: 0x01020304}}, Item{}),
		record.AppendPut(nil, record.Destination{Queue: 1, Item: 300}, Item{Data: []byte("hello"), Flags: 7}),
		record.AppendNext(nil, Item{Data: []byte("hello")}), record.AppendRemove(nil, 1, 5, 3)), uint16(7))
	messageSeeds(f)
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		const largest = 4 << 10
		if len(b) > largest {
			b = b[:largest]
		}
		n := int(cut) % (len(b) + 1)
		opts := testOptions(newFS())
		opts.Shards, opts.MemoryLimit = 1, 1<<20
		e := openQuiet(t, opts) // its disk is empty: a queue with runs is withheld
		sh := &e.shards[0]
		r := newRevival(e, nil)
		err := r.frame(segment.Frame{Payload: b[:n], Segment: 1})
		if err == nil {
			err = r.frame(segment.Frame{Payload: b[n:], Segment: 2})
		}
		if err == nil {
			_, _, err = r.finish()
		}
		// A destination takes 2 bytes, a chunk four times what it must hold, at least 1 KiB.
		if got, limit := e.memory.Load(), int64(len(b)/2*4*(len(b)+item.MinChunkSize)); got > limit {
			t.Errorf("%d bytes of records take %d bytes of memory", len(b), got)
		}
		var damage *segment.CorruptionError
		if err != nil && !errors.As(err, &damage) {
			t.Errorf("error %v is not a CorruptionError", err)
		}
		if err != nil {
			return
		}
		verify(t, e)
		for _, name := range slices.Sorted(maps.Keys(sh.queues)) {
			q := sh.queues[name]
			for it := (Item{}); q.first(&it); {
				e.drop(q, &it)
			}
			for _, id := range slices.Collect(q.asideIDs()) { // those that are not due
				r, _ := q.aside.Find(id)
				q.dropAside(r)
			}
			if n := q.items(); n != 0 {
				t.Errorf("queue %q has %d items that nobody can take", name, n)
			}
		}
		verify(t, e)
		for _, name := range slices.Sorted(maps.Keys(sh.queues)) {
			e.Delete(Now(), []byte(name))
		}
		if got := e.Stats().MemoryBytes; got != 0 {
			t.Errorf("%d bytes are in use without any queue", got)
		}
	})
}

// TestReplayManyRanges removes every other item of a long queue, oldest last: the worst there is
// for the ranges that wait.
func TestReplayManyRanges(t *testing.T) {
	const items = 10_000
	b := records(t, "queue 1")
	for id := uint64(1); id <= items; id++ {
		b = record.AppendPut(b, record.Destination{Queue: 1, Item: id}, Item{})
	}
	for id := uint64(items); id > 1; id -= 2 {
		b = record.AppendRemove(b, 1, id, 0)
	}
	got, err := replayRecords(t, b)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(strings.Fields(got)); n != items/2 || !strings.HasPrefix(got, "q:10001[1 3 5 ") {
		t.Errorf("%d items, %.40s…, want %d", n, got, items/2)
	}
}
