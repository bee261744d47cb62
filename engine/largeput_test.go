package engine

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// largeData is the body of a large item.
func largeData() []byte { return bytes.Repeat([]byte("large item "), item.MaxChunkSize/11+100) }

// TestLargePutUnderLock tests that nothing of a large item is copied with a lock held. Its bytes change before the
// shard is locked, and yet the queue, its fanout children and the journal have them as they were.
//
// Its control is an of that always reports false.
func TestLargePutUnderLock(t *testing.T) {
	for _, children := range []int{0, 3} {
		t.Run(fmt.Sprint(children, " children"), func(t *testing.T) {
			e, _ := newQuiet(t)
			names := []string{"p"}
			for i := range children {
				names = append(names, fmt.Sprintf("p+%d", i))
				mustGet(t, e, names[i+1])
			}
			sh, now := e.shardOf([]byte("p")), Now()
			p := PutRequest{Data: largeData(), Flags: 7}
			l, err := e.prepare(sh, now, []byte("p"), &p)
			if err != nil {
				t.Fatal(err)
			}
			clear(p.Data)
			sh.mu.Lock()
			sh.large = l
			q, _, err := e.find(sh, now, []byte("p"))
			var s Stored
			if err == nil {
				_, err = e.put(q, now, []PutRequest{p}, &s)
			}
			sh.large = nil
			e.unlock(sh, now)
			e.dropLarge(l)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Commit(s.Ticket); err != nil {
				t.Fatal(err)
			}
			expectItems := func(e *Engine, when string) {
				for _, name := range names {
					var got copied
					if _, err := e.Fetch(Now(), []byte(name), FetchRequest{Access: Peek}, &got); err != nil {
						t.Errorf("%s: queue %s: %v", when, name, err)
					} else if it := got.item; it.Flags != 7 || !bytes.Equal(it.Data, largeData()) {
						t.Errorf("%s: queue %s has %d bytes that begin with %.20q", when, name, len(it.Data), it.Data)
					}
				}
			}
			expectItems(e, "before a restart")
			expectItems(kill(t, e), "after a restart")
		})
	}
}

// TestLargePutMemory tests that the memory of a large item counts once, however many queues have it, until
// the last of them and the journal have no use for it; and that a put that is refused gives it back.
func TestLargePutMemory(t *testing.T) {
	o := testOptions(newFS())
	o.MemoryLimit = 10 << 20
	e := openQuiet(t, o)
	const children = 100
	for i := range children {
		mustGet(t, e, fmt.Sprintf("p+%d", i))
	}
	if err := e.Commit(Ticket{Written: e.journal.End()}); err != nil {
		t.Fatal(err)
	}
	before := memoryBeyondQueues(e)
	data := make([]byte, 1<<20)
	put := func() Ticket {
		s, err := e.PutAll(Now(), []byte("p"), []PutRequest{{Data: data}})
		if err != nil {
			t.Fatal(err)
		}
		return s.Ticket
	}
	expect := func(want int64, when string) {
		t.Helper()
		if got := memoryBeyondQueues(e) - before; got < want || got > want+1<<13 {
			t.Errorf("%d bytes are counted %s, want about %d", got, when, want)
		}
	}
	take := func(name string) {
		var got copied
		if _, err := e.Fetch(Now(), []byte(name), FetchRequest{}, &got); err != nil || len(got.item.Data) != len(data) {
			t.Errorf("queue %s has an item of %d bytes, %v", name, len(got.item.Data), err)
		}
	}
	commit := func(ticket Ticket) {
		if err := e.Commit(ticket); err != nil {
			t.Fatal(err)
		}
	}
	commit(put())
	expect(1<<20, fmt.Sprint("of an item in ", children+1, " queues"))
	for i := range children {
		take(fmt.Sprintf("p+%d", i))
	}
	expect(1<<20, "when one queue has the item")
	take("p")
	expect(0, "when nobody has the item")
	ticket := put()
	for i := range children {
		take(fmt.Sprintf("p+%d", i))
	}
	take("p")
	if got := memoryBeyondQueues(e) - before; got < 1<<20 {
		t.Errorf("%d bytes are counted while the journal has the item", got)
	}
	commit(ticket)
	commit(Ticket{Written: e.journal.End()})
	expect(0, "when the journal is written")
	if _, err := e.Put(Now(), []byte("p"), PutRequest{Data: make([]byte, 11<<20)}); err != ErrOutOfMemory {
		t.Errorf("Put of more than the limit = %v, want ErrOutOfMemory", err)
	}
	if _, err := e.Put(Now(), []byte(".bad"), PutRequest{Data: data}); err == nil {
		t.Errorf("Put to a queue with a bad name succeeds")
	}
	expect(0, "behind puts that were refused")
}
