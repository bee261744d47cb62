package replay

import (
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
	"github.com/kestrelmq/kestrel/engine/internal/record"
	"github.com/kestrelmq/kestrel/engine/internal/runs"
	"github.com/kestrelmq/kestrel/segment"
)

// TestManyRuns tests that a start does not look at all files of a queue for each record of one. A checkpoint of tens of
// thousands names each of them.
func TestManyRuns(t *testing.T) {
	const n = 1000
	r := New(Options{Pool: &item.Pool{}, ValidateName: func(string) error { return nil }})
	hidden := func(number, first, last uint64) []byte {
		var live idset.Bitmap
		live.AddRange(idset.Between(first, last))
		return record.AppendHidden(nil, 1, segment.RunID{Number: number}, record.Hidden{
			Index: 1000, End: 2000, Bytes: 1, IDs: live.AppendTo(nil),
		})
	}
	frame := func(b []byte) {
		t.Helper()
		if err := r.Frame(segment.Frame{Payload: b}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range uint64(n) {
		frame(hidden(i+1, 10*i+1, 10*i+10))
		frame(record.AppendSpill(nil, 1, segment.RunID{Number: n + i + 1}, runs.State{
			End: 1000, FirstID: 20*n + i, LastID: 20*n + i, Count: 1, Bytes: 1,
		}))
	}
	q := r.queue(1)
	all := q.Hidden
	q.Hidden = make([]*Hidden, n)  // who looks at one of them fails
	frame(hidden(501, 5001, 5005)) // it has a part of what it had
	frame(hidden(2*n+1, 7001, 7003))
	q.leaveHidden(8001)
	if !q.isHidden(8002) || q.isHidden(8001) || q.isHidden(5006) || !q.isHidden(7001) {
		t.Error("an item is not where the journal says")
	}
	if got := all[700].Live.Len(); got != 7 {
		t.Errorf("%d items are left where 3 of 10 went to another file", got)
	}
	frame(record.AppendSpill(nil, 1, segment.RunID{Number: n + 1}, runs.State{End: 1500, FirstID: 20 * n, LastID: 20 * n, Count: 1, Bytes: 1}))
	if len(q.Runs) != n || q.Runs[0].State.End != 1500 {
		t.Errorf("of %d files the first ends at %d", len(q.Runs), q.Runs[0].State.End)
	}
}
