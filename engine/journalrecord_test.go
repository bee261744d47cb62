package engine

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/record"
)

// putShapes says which kinds of put records are in the journal's buffer.
func putShapes(t *testing.T, e *Engine) (kinds []byte) {
	t.Helper()
	for b := unwritten(e); len(b) > 0; {
		rec, n, err := record.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind <= record.KindFanout || rec.Kind == record.KindPuts {
			kinds = append(kinds, rec.Kind)
		}
		b = b[n:]
	}
	return kinds
}

// TestPutRecordShapes tests that the puts of one frame to one queue name it once, whatever removes lie between. A
// frame does not rely on the one before.
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
		{"3a a b 1a", []byte{record.KindPuts, record.KindNext, record.KindPut, record.KindPut}},
		{"a 3a 2a", []byte{record.KindPut, record.KindPuts, record.KindPuts}},
	} {
		e, fsys := newQuiet(t)
		for _, name := range []string{"a", "b", "p", "p+c"} {
			mustPut(t, e, name, "first")
		}
		for _, op := range strings.Fields(tt.puts) {
			if op == "|" {
				mustCommit(t, e, Ticket{Written: e.journal.End()})
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
		if got := putShapes(t, e); !bytes.Equal(got, tt.want) {
			t.Errorf("puts %q are recorded by kinds %v, want %v", tt.puts, got, tt.want)
		}
		mustCommit(t, e, Ticket{Written: e.journal.End()})
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
	if got := len(unwritten(e)); got > items*most {
		t.Errorf("%d items of %d bytes take %d in the journal, want %d at most",
			items, size, got, items*most)
	}
}
