package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/segment"
)

// putShapes says which kinds of put records are in the journal's buffer.
func putShapes(t *testing.T, j *journal) (kinds []byte) {
	t.Helper()
	for b := j.active[segment.FrameHeaderSize:]; len(b) > 0; {
		rec, n, err := record.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind <= record.KindFanout || rec.Kind == record.KindRun {
			kinds = append(kinds, rec.Kind)
		}
		b = b[n:]
	}
	return kinds
}

// TestPutRecordShapes: the puts of one frame to one queue name it once, whatever removes lie
// between, and a frame does not rely on the one before.
func TestPutRecordShapes(t *testing.T) {
	for _, tt := range []struct {
		puts string
		want []byte
	}{
		{"a", []byte{record.KindPut}},
		{"a a a", []byte{record.KindPut, record.KindNext, record.KindNext}},
		{"a -a a", []byte{record.KindPut, record.KindNext}},
		{"a b a", []byte{record.KindPut, record.KindPut, record.KindPut}},
		{"a a p a", []byte{record.KindPut, record.KindNext, record.KindFanout, record.KindPut}},
		{"a | a", []byte{record.KindPut}},
		{"a | a a", []byte{record.KindPut, record.KindNext}},
		{"3a a b 1a", []byte{record.KindRun, record.KindNext, record.KindPut, record.KindPut}},
		{"a 3a 2a", []byte{record.KindPut, record.KindRun, record.KindRun}},
	} {
		e, fsys := newQuiet(t)
		for _, name := range []string{"a", "b", "p", "p+c"} {
			mustPut(t, e, name, "first")
		}
		for _, op := range strings.Fields(tt.puts) {
			if op == "|" {
				mustCommit(t, e, Ticket{Written: e.journal.appendedEnd()})
			} else if name, take := strings.CutPrefix(op, "-"); take {
				e.Fetch(Now(), []byte(name), FetchRequest{}, &copied{})
			} else if n, of := op[0], op[1:]; of != "" && n <= '9' {
				puts := make([]PutRequest, n-'0')
				if _, err := e.PutAll(Now(), []byte(of), puts); err != nil {
					t.Fatal(err)
				}
			} else if _, err := e.Put(Now(), []byte(op), PutRequest{Data: []byte(op)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := putShapes(t, e.journal); !bytes.Equal(got, tt.want) {
			t.Errorf("puts %q are recorded by kinds %v, want %v", tt.puts, got, tt.want)
		}
		mustCommit(t, e, Ticket{Written: e.journal.appendedEnd()})
		again := openQuiet(t, testOptions(fsys.Kill()))
		for _, name := range []string{"a", "b", "p", "p+c"} {
			got, want := contents(again, name, false), contents(e, name, false)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("after puts %q queue %q comes back as %v, want %v", tt.puts, name, got, want)
			}
		}
	}
}

// TestJournalBytesPerItem holds a put to what it may cost on disk.
func TestJournalBytesPerItem(t *testing.T) {
	const items, size, most = 32, 64, 75 // bytes, the last of an item with its record
	e, _ := newQuiet(t)
	mustPut(t, e, "q", "first")
	for range items {
		e.Put(Now(), []byte("q"), PutRequest{Data: make([]byte, size)})
	}
	if got := len(e.journal.active) - segment.FrameHeaderSize; got > items*most {
		t.Errorf("%d items of %d bytes take %d in the journal, want %d at most",
			items, size, got, items*most)
	}
}

// TestPutToManyQueues has one record name more queues than 16 bits count.
func TestPutToManyQueues(t *testing.T) {
	e, _ := newQuiet(t)
	var to []record.Destination
	for i := range uint64(1 << 17) {
		to = append(to, record.Destination{Queue: i + 1, Item: 1})
	}
	e.journal.put(to, Item{Data: []byte("hello"), Flags: 7, Added: 1}, record.Destination{Queue: 7, Item: 8})
	b := e.journal.active[segment.FrameHeaderSize:]
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
	e.journal.active = e.journal.active[:segment.FrameHeaderSize] // there are no such queues
}
