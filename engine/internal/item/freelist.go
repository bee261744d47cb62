package item

import "sync/atomic"

// maxFreeMemory is how many bytes of unused reads and small chunks an engine keeps for items to come. It leaves the
// rest to the collector. The arena keeps as much of its own. It is at most one part in freeShare of the memory limit.
const (
	maxFreeMemory = 32 << 20
	freeShare     = 16
	// Half of it is dealt out to the shards, so that busy queues do not meet at one counter.
	ownShare = 2
)

// MaxFree is how many bytes an engine with that memory limit keeps.
func MaxFree(memoryLimit int64) int64 { return min(maxFreeMemory, memoryLimit/freeShare) }

// freeMemory is what the pools of an engine keep beyond their own shares.
type freeMemory struct {
	limit int64 // bytes; never changes
	bytes atomic.Int64
}

// freeList accounts for the bytes that one pool keeps. The pool's owner guards it.
type freeList struct {
	shared *freeMemory
	own    int64 // bytes kept without asking
	bytes  int64
	idle   int64 // of bytes: kept, and not needed since CountIdle
}

// NewFreeLists returns one list for each of so many shards of an engine with that memory limit.
func NewFreeLists(shards int, memoryLimit int64) []freeList {
	limit := MaxFree(memoryLimit)
	own := limit / ownShare / int64(shards)
	shared := &freeMemory{limit: limit - own*int64(shards)}
	lists := make([]freeList, shards)
	for i := range lists {
		lists[i] = freeList{shared: shared, own: own}
	}
	return lists
}

// Store reports whether n more bytes may be kept, and accounts for them if so.
func (f *freeList) Store(n int) bool {
	after := f.bytes + int64(n)
	if more := max(after, f.own) - max(f.bytes, f.own); more > 0 {
		if f.shared.bytes.Add(more) > f.shared.limit {
			f.shared.bytes.Add(-more)
			return false
		}
	}
	f.bytes = after
	return true
}

// Reuse accounts for n bytes that were kept and are in use again.
func (f *freeList) Reuse(n int) {
	f.take(n)
	f.idle = min(f.idle, f.bytes)
}

// Release accounts for n bytes of idle that are left to the collector.
func (f *freeList) Release(n int) {
	f.take(n)
	f.idle -= int64(n)
}

// Account returns how many bytes are kept, how many of them without asking, and how many the pools of the
// engine keep beyond that.
func (f *freeList) Account() (bytes, own, shared int64) { return f.bytes, f.own, f.shared.bytes.Load() }

// IsIdle reports whether n bytes of what is kept were not needed since CountIdle.
func (f *freeList) IsIdle(n int) bool { return int64(n) <= f.idle }

// CountIdle counts all that is kept as not needed, until somebody takes it.
func (f *freeList) CountIdle() { f.idle = f.bytes }

func (f *freeList) take(n int) {
	after := f.bytes - int64(n)
	if less := max(f.bytes, f.own) - max(after, f.own); less > 0 {
		f.shared.bytes.Add(-less)
	}
	f.bytes = after
}
