package journal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

const testDir = "data"

// openLog opens a log in dir with small segments.
func openLog(t testing.TB, fsys segment.FS, dir string) *segment.Log {
	t.Helper()
	log, _, err := segment.Open(dir, segment.Options{FS: fsys, SegmentSize: 4096}, func(segment.Frame) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// newTest returns a journal on fsys. Errors of background work fail the test.
func newTest(t testing.TB, fsys segment.FS, change ...func(*Options)) *Journal {
	t.Helper()
	o := Options{Log: slog.New(slog.DiscardHandler), Report: func(what string, err error) {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}}
	for _, f := range change {
		f(&o)
	}
	j := New(openLog(t, fsys, testDir), o)
	t.Cleanup(func() {
		if err := j.Close(); err != nil && !j.Failing() && !errors.Is(err, ErrClosed) {
			t.Errorf("Close = %v", err)
		}
	})
	return j
}

// put records an item of queue 1.
func put(j *Journal, id uint64, data string) LSN {
	lsn, _ := j.Put([]record.Destination{{Queue: 1, Item: id}}, item.Item{Data: []byte(data), Added: 1}, record.Destination{})
	return lsn
}

// onDisk returns the records that a log in dir holds.
func onDisk(t testing.TB, fsys segment.FS, dir string) (records []byte) {
	t.Helper()
	_, _, err := segment.Scan(fsys, dir, func(f segment.Frame) error {
		records = append(records, f.Payload...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// words says what records say, one word each.
func words(t testing.TB, records []byte) (all []string) {
	t.Helper()
	for len(records) > 0 {
		rec, n, err := record.Parse(records)
		if err != nil {
			t.Fatal(err)
		}
		word := fmt.Sprintf("%d:%d/%d", rec.Kind, rec.Queue, rec.ID)
		if rec.Kind == record.KindRemove {
			word = fmt.Sprintf("-%d/%d+%d", rec.Queue, rec.ID, rec.More)
		}
		all, records = append(all, word), records[n:]
	}
	return all
}

// gathered returns the records that are not written yet.
func gathered(t testing.TB, j *Journal) (records []byte) {
	t.Helper()
	err := j.Inspect(func() error { return nil }, func(batch []byte) error {
		records = append(records, batch...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestTicket(t *testing.T) {
	for _, tt := range []struct{ a, b, want Ticket }{
		{Ticket{}, Ticket{}, Ticket{}},
		{Ticket{Written: 5}, Ticket{Written: 3, Synced: 2}, Ticket{Written: 5, Synced: 2}},
		{Ticket{Written: 3, Synced: 3}, Ticket{Written: 9, Synced: 9}, Ticket{Written: 9, Synced: 9}},
	} {
		if got := tt.a.Merge(tt.b); got != tt.want {
			t.Errorf("%v.Merge(%v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
		if got := tt.b.Merge(tt.a); got != tt.want {
			t.Errorf("%v.Merge(%v) = %v, want %v", tt.b, tt.a, got, tt.want)
		}
	}
}

// TestRemovesExtend: ids that follow each other become one record, unless an item was put, or
// rewritten, behind that record, or the record has been written.
func TestRemovesExtend(t *testing.T) {
	fsys := segmenttest.New()
	j := newTest(t, fsys)
	var r, other Removal
	j.Remove(&r, 1, 5, 9)
	j.Remove(&other, 2, 1, 2) // of another queue: it is not in the way
	j.Remove(&r, 1, 6, 9)
	j.Remove(&r, 1, 8, 9) // a gap
	j.Remove(&r, 1, 9, 10)
	put(j, 10, "x")
	j.Remove(&r, 1, 10, 20) // put behind the record of 9
	j.Keep(&r, 1, item.Item{ID: 11})
	j.Remove(&r, 1, 11, 20)        // rewritten behind the record of 10
	end := j.Remove(&r, 1, 12, 20) // put before the record of 11
	if err := j.Write(end); err != nil {
		t.Fatal(err)
	}
	j.Remove(&r, 1, 13, 20)
	j.Remove(&r, 1, 14, 20)
	want := []string{"-1/13+1"}
	if got := words(t, gathered(t, j)); !slices.Equal(got, want) {
		t.Errorf("behind a write there are %q, want %q", got, want)
	}
	want = []string{"-1/5+1", "-2/1+0", "-1/8+0", "-1/9+0", "1:1/10", "-1/10+0", "8:1/11", "-1/11+1"}
	if got := words(t, onDisk(t, fsys, testDir)); !slices.Equal(got, want) {
		t.Errorf("the journal holds %q, want %q", got, want)
	}
}

// TestPutToManyQueues has one record name more queues than 16 bits count.
func TestPutToManyQueues(t *testing.T) {
	j := newTest(t, segmenttest.New())
	var to []record.Destination
	for i := range uint64(1 << 17) {
		to = append(to, record.Destination{Queue: i + 1, Item: 1})
	}
	j.Put(to, item.Item{Data: []byte("hello"), Flags: 7, Added: 1}, record.Destination{Queue: 7, Item: 8})
	b := gathered(t, j)
	rec, n, err := record.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	var got []record.Destination
	for list := rec.List; len(list) > 0; {
		got = append(got, record.Destination{Queue: list.Next(), Item: list.Next()})
	}
	if !slices.Equal(got, to) {
		t.Errorf("%d destinations are recorded, want %d", len(got), len(to))
	}
	rec, size, err := record.Parse(b[n:])
	if err != nil || n+size != len(b) || !bytes.Equal(b[n:], record.AppendRemove(nil, 7, 8, 0)) {
		t.Errorf("record behind the put is %+v, %v, want that item 8 of queue 7 is gone", rec, err)
	}
}

// TestAppendIsFree: recording a put, several puts and a remove allocates nothing.
func TestAppendIsFree(t *testing.T) {
	j := newTest(t, segmenttest.New())
	to := []record.Destination{{Queue: 1, Item: 1}}
	it := item.Item{Data: make([]byte, 64), Added: 1}
	images := item.AppendImage(item.AppendImage(nil, &it), &it)
	var r Removal
	if n := testing.AllocsPerRun(100, func() {
		j.Put(to, it, record.Destination{})
		j.PutImages(to[0], images, 2)
		j.Remove(&r, 1, 1, 3)
	}); n != 0 {
		t.Errorf("recording allocates %v times, want 0", n)
	}
}
