package engine

import (
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// kept adds up what the pools of e hold, and compares it with their accounts.
func kept(t *testing.T, e *Engine) (total int64) {
	t.Helper()
	shared := int64(0)
	for i := range e.shards {
		p := &e.shards[i].pool
		n := p.Unused()
		for class := range e.shards[i].freeReads {
			r := e.shards[i].freeReads[class].Top()
			for ; r != nil; r = r.link.Next() {
				n += int64(r.memory())
			}
		}
		bytes, own, _ := p.Free.Account()
		if n != bytes {
			t.Errorf("shard %d keeps %d bytes, and accounts for %d", i, n, bytes)
		}
		shared += max(n-own, 0)
		total += n
	}
	if _, _, got := e.shards[0].pool.Free.Account(); got != shared {
		t.Errorf("%d bytes are kept beyond the own shares, %d are accounted for", shared, got)
	}
	return total
}

// TestFreeMemory fills queues in every shard far beyond what is kept, by windows and by open reads,
// and empties them, twice.
func TestFreeMemory(t *testing.T) {
	const limit, queues, fill = 64 << 20, 16, 12 << 20 // bytes
	o := testOptions(newFS(), func(o *QueueOptions) { o.KeepJournal = false })
	o.MemoryLimit = limit
	e := openQuiet(t, o)
	for _, size := range sampled([]int{5_000, 60_000}, []int{100, 5_000, 60_000, 100}) {
		var refs []ReadRef
		for i := range fill / size {
			mustPut(t, e, fmt.Sprint("q", i%queues), string(make([]byte, size)))
		}
		for i := range fill / size / 2 {
			ref, _ := mustOpen(t, e, fmt.Sprint("q", i%queues))
			refs = append(refs, ref)
		}
		kept(t, e)
		for _, ref := range refs {
			mustCommitted(t, e)(e.Confirm(Now(), ref))
		}
		for i := range queues {
			drain(t, e, fmt.Sprint("q", i))
		}
		if got, most := kept(t, e), item.MaxFree(limit); got > most || got < most/2 {
			t.Errorf("after items of %d bytes %d bytes are kept, want up to %d", size, got, most)
		}
	}
	if got := memoryBeyondQueues(e); got != 0 {
		t.Errorf("%d bytes are in use without any item", got)
	}
}

// TestTrimPools tests that pools let go of what nobody has needed from one look to the next, and of
// nothing else.
func TestTrimPools(t *testing.T) {
	o := testOptions(newFS(), func(o *QueueOptions) { o.KeepJournal = false })
	o.Shards, o.MemoryLimit = 1, 64<<20
	e := openQuiet(t, o)
	fillAndDrain := func(items int) {
		for i := range items { // each in a small chunk of its own: the largest are not the pools'
			mustPut(t, e, fmt.Sprint("q", i), string(make([]byte, 50_000)))
		}
		ref, _ := mustOpen(t, e, "q0")
		mustCommitted(t, e)(e.Confirm(Now(), ref))
		for i := range items {
			drain(t, e, fmt.Sprint("q", i))
		}
	}
	fillAndDrain(2 * trimBatch / 5)
	all := kept(t, e)
	if e.trimPools(); kept(t, e) != all {
		t.Errorf("the first look leaves %d bytes of %d", kept(t, e), all)
	}
	fillAndDrain(20)
	e.trimPools()
	used := kept(t, e)
	if used < 20*50_000 || used > all/2 {
		t.Errorf("of %d bytes, %d are kept, of which about %d were used", all, used, 20*50_000)
	}
	if e.trimPools(); kept(t, e) != 0 {
		t.Errorf("%d bytes are kept that nobody has used", kept(t, e))
	}
	fillAndDrain(20)
	if e.trimPools(); kept(t, e) == 0 {
		t.Error("what has just been kept is gone")
	}
}
