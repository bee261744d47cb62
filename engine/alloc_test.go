package engine

import (
	"testing"
	"time"
)

// TestAllocs holds the operations of the hot path to not allocating in the steady state.
func TestAllocs(t *testing.T) {
	o := Options{Dir: t.TempDir(), SegmentSize: 1 << 20}
	o.Settings.Default = DefaultQueueOptions()
	o.Settings.Default.Sync = SyncNever
	e := openQuiet(t, o)
	for _, name := range []string{"q+c", "q"} { // a parent with a child: puts are fanout puts
		mustPut(t, e, name, "x")
	}
	p := newBencher(e, "q", 100)
	child := newBencher(e, "q+c", 100)
	fill := func() {
		p.done(p.put())
		child.fetch(FetchRequest{})
	}
	for range 100 { // some more items than the queue will hold
		p.put()
	}
	open := FetchRequest{Access: OpenRead}
	c := &collector{}
	c.Notify = c
	empty := newBencher(e, "empty", 100)
	puts := make([]PutRequest, commitEvery)
	for _, tt := range []struct {
		name string
		do   func()
	}{
		{"Put", fill},
		{"PutAll", func() { empty.putAll(puts); empty.take(len(puts)) }},
		{"Fetch(Take)", func() { fill(); p.fetch(FetchRequest{}) }},
		{"Fetch(Peek)", func() { p.fetch(FetchRequest{Access: Peek}) }},
		{"Fetch(OpenRead) and Confirm", func() { fill(); p.e.Confirm(p.now, p.fetch(open).Read) }},
		{"Abort", func() { p.e.Abort(p.now, p.fetch(open).Read) }},
		{"lease and confirm", func() {
			empty.put()
			f := FetchRequest{Access: Lease, Lease: time.Hour, Delivery: &empty.about}
			if _, err := e.Fetch(empty.now, empty.name, f, &empty.d); err != nil {
				t.Fatal(err)
			}
			ticket, err := e.ConfirmLease(empty.now, empty.name, empty.about.Receipt)
			if err != nil {
				t.Fatal(err)
			}
			empty.done(ticket)
		}},
		{"put and get on an empty queue", func() { empty.putGet() }},
		{"hand-over to a waiter", func() { empty.waiterHandoff(c) }},
	} {
		if n := testing.AllocsPerRun(500, tt.do); n != 0 {
			t.Errorf("%s allocates %v times", tt.name, n)
		}
	}
}
