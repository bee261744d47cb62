package aside

import (
	"math"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/engine/internal/idset"
	"github.com/kestrelmq/kestrel/engine/internal/item"
)

// State is where an item that is not in line stands.
type State uint8

const (
	// Delayed items are hidden until they are due.
	Delayed State = iota
	// The client that knows its token holds a leased item until the item is due.
	Leased
	// Ready items are due again, and are handed out in the order of their ids. One whose lease has
	// lapsed still has its token.
	Ready
	// Restored items are Ready, but the journal says of them only that they were put.
	Restored
	states = iota
)

// Entry is what there is to know of an item aside beside the item itself.
type Entry struct {
	State State
	Due   item.Time // of those that are delayed or leased
	Token uint64    // zero if there is none
	Count uint16    // deliveries that have ended and count
}

// Ref names an item of a Set until the next call of Remove.
type Ref uint32

// slot is an item of a Set: 32 bytes. Its place in a heap takes 12, and its bucket 4.
type slot struct {
	id    uint64
	token uint64
	at    place
	state uint32 // state in the upper 2 bits, then the turn of its set, and its place in its heap in the others
	next  uint32 // the slot behind this one in its bucket, plus one; zero at the end
}

const (
	stateBits = 30
	turnBit   = 1 << (stateBits - 1)
	placeMask = turnBit - 1
	// MaxCount is the highest count of an Entry; what is more stays there.
	MaxCount = math.MaxUint16
)

func (s *slot) stateOf() State     { return State(s.state >> stateBits) }
func (s *slot) place() uint32      { return s.state & placeMask }
func (s *slot) setPlace(at uint32) { s.state = s.state&^placeMask | at }
func (s *slot) turn() uint32       { return s.state & turnBit }

// Set is the items of one queue that are aside. The zero Set is empty and ready for use, once Memory
// is set. It must not be copied. It is not safe for concurrent use.
//
// Invariants, checked by Verify:
//
//	A1  Every item is found by its id, and by its token if it has one, and no other is.
//	A2  An item is in the heap of its state, at the place that its slot names.
//	A3  Every image names the slot of its item, and the slot the image.
//	A4  The tallies are those of the items.
//	A5  There are ids if there are more than fewItems, and then those of the items.
//
// What Flush has dropped, and Tidy has not yet let go of, is no item any more; A3 holds for it.
type Set struct {
	// Memory counts the bytes that the set takes.
	Memory *atomic.Int64
	// Warm, unless it is nil, lets the set keep its memory while it is empty.
	Warm *Warm

	room
	tallies [states]item.Tally
	counted int64 // bytes of the set that Memory has
}

// room is what a Set has memory for.
type room struct {
	slots      rows[slot]
	buckets    rows[uint32]      // linear hashing: as many as slots; the first slot of each, plus one
	tokens     map[uint64]uint32 // of items that have one: their slots
	mostTokens int               // that there were at a time since tokens was made
	// heaps has the delayed slots, and the leased ones, by when they are due. It has the ready ones by id.
	heaps [Ready + 1]heap
	// ids are those of the slots in each heap, in their order. A set of few has none.
	ids     [Ready + 1]idset.Bitmap
	ordered bool // there are ids
	images  store

	turn    uint32 // turnBit or zero; Flush changes it. A slot of the other turn that is not leased is dropped
	all     bool   // so is every slot
	dropped int    // slots that Flush has dropped and that are still there
	left    int    // of the slots, so many Tidy still has to look at
}

// Warm names the set that keeps its memory while it is empty. Of the sets that share it, the one that became empty
// last does. A consumer that leases some items, and then confirms them, empties the set each time. The memory is
// maxWarm bytes at most, and nobody counts it while the set is empty. The zero Warm is ready for use.
type Warm struct{ set *Set }

const (
	maxWarm = 64 << 10
	// fewBytes are left to any set that is empty: most sets that ever have an item will have one again.
	fewBytes = 2 << 10
	// fewItems are gone through one by one.
	fewItems = 256
)

// Len is the number of items, and of those dropped by Flush that are still there. Their Refs are all the numbers below it.
func (s *Set) Len() int { return s.slots.count }

// Dropped is how many items that Flush has dropped are still there.
func (s *Set) Dropped() int { return s.dropped }

// IsDropped reports whether Flush has dropped what is there.
func (s *Set) IsDropped(r Ref) bool { return s.isDropped(s.slots.at(uint32(r))) }

func (s *Set) isDropped(sl *slot) bool {
	return s.dropped > 0 && (s.all || sl.turn() != s.turn && sl.stateOf() != Leased)
}

// State returns where an item stands. It looks at less than Get.
func (s *Set) State(r Ref) State { return s.slots.at(uint32(r)).stateOf() }

// Tally is what there is of the items in a state.
func (s *Set) Tally(state State) item.Tally { return s.tallies[state] }

// Add takes in an item, which must not be there. It copies its Data, unless that has memory of its own, which nobody
// changes. No segment of the journal before segment holds it; zero says that the journal need not keep it.
func (s *Set) Add(it *item.Item, segment uint64, e Entry) Ref {
	i := uint32(s.slots.count)
	s.images.slots = &s.slots
	if i == fewItems && !s.ordered {
		s.order()
	}
	s.slots.push(slot{id: it.ID})
	at := s.images.put(i, segment, it)
	s.slots.at(i).at = at
	s.grow()
	s.link(i)
	s.enter(i, e)
	s.tallies[e.State].Account(it, 1)
	s.account()
	return Ref(i)
}

// Find returns the item with that id, if it is there.
func (s *Set) Find(id uint64) (Ref, bool) {
	if s.slots.count == 0 {
		return 0, false
	}
	for n := *s.buckets.at(s.bucketOf(id)); n != 0; {
		sl := s.slots.at(n - 1)
		if sl.id == id {
			return Ref(n - 1), !s.isDropped(sl)
		}
		n = sl.next
	}
	return 0, false
}

// FindToken returns the item with that token, which is not zero, if it is there.
func (s *Set) FindToken(token uint64) (Ref, bool) {
	i, ok := s.tokens[token]
	return Ref(i), ok && !s.isDropped(s.slots.at(i))
}

// Get returns what there is to know of an item.
func (s *Set) Get(r Ref) Entry {
	sl := s.slots.at(uint32(r))
	e := Entry{State: sl.stateOf(), Token: sl.token, Count: s.images.count(sl.at)}
	if e.State < Ready && !s.isDropped(sl) {
		e.Due = item.Time(s.heap(e.State).at(sl.place()).key())
	}
	return e
}

// ID returns the id of an item.
func (s *Set) ID(r Ref) uint64 { return s.slots.at(uint32(r)).id }

// Item returns an item. Its Data is valid until the next Add, Change or Remove, or for good if it
// has memory of its own.
func (s *Set) Item(r Ref) item.Item {
	sl := s.slots.at(uint32(r))
	it, _ := s.load(sl)
	return it
}

// load decodes the item of a slot, and returns the size of its image.
func (s *Set) load(sl *slot) (item.Item, int) {
	it, n := s.images.load(sl.at)
	if n == 0 {
		panic("broken invariant: an item that is aside has no image")
	}
	it.ID = sl.id
	return it, n
}

// Change replaces what there is to know of an item.
func (s *Set) Change(r Ref, e Entry) {
	i := uint32(r)
	sl := s.slots.at(i)
	it, _ := s.load(sl)
	s.leave(i, &it)
	s.tallies[e.State].Account(&it, 1)
	s.enter(i, e)
	s.account()
}

// Segment returns the segment of the journal before which an item does not lie; zero for none.
func (s *Set) Segment(r Ref) uint64 { return s.images.segment(s.slots.at(uint32(r)).at) }

// LieIn notes that no segment of the journal before that one holds the item.
func (s *Set) LieIn(r Ref, segment uint64) {
	s.images.setSegment(s.slots.at(uint32(r)).at, segment)
}

// Remove takes an item out, and returns how many bytes its Data had. The last Ref now names another item.
func (s *Set) Remove(r Ref) (size int) {
	i := uint32(r)
	sl := s.slots.at(i)
	it, taken := s.load(sl)
	size = len(it.Data)
	s.leave(i, &it)
	s.unlink(i)
	s.images.slots = &s.slots // another set's room may have come
	s.images.drop(sl.at, taken)
	if last := uint32(s.slots.count - 1); last != i {
		s.move(last, i)
	}
	s.slots.pop()
	s.shrink()
	if s.ordered && s.slots.count < fewItems/2 {
		s.ordered, s.ids = false, [Ready + 1]idset.Bitmap{}
	}
	if s.slots.count == 0 {
		s.empty()
	}
	s.account()
	return size
}

// Flush drops every item in one step, however many there are; unless all is set, not those that are leased. Then what was
// dropped before must have gone. Behind all, nothing may be added. The memory comes back by Tidy.
func (s *Set) Flush(all bool) {
	for state := range s.tallies {
		if all || State(state) != Leased {
			s.tallies[state] = item.Tally{}
			*s.heap(State(state)), s.ids[min(State(state), Ready)] = heap{}, idset.Bitmap{}
		}
	}
	s.all, s.turn = all, s.turn^turnBit
	s.left = s.slots.count
	s.dropped = s.slots.count - s.heap(Leased).count
	s.account()
}

// Tidy lets go of what Flush has dropped. It looks at n items at most, and reports whether there is more. It goes from
// the last one down: what is removed meanwhile is replaced by the last, which it has seen or was added since. It calls
// gone with each before that goes.
func (s *Set) Tidy(n int, gone func(Ref)) (more bool) {
	for s.left = min(s.left, s.slots.count); s.dropped > 0 && n > 0; n-- {
		s.left--
		if r := Ref(s.left); s.IsDropped(r) {
			gone(r)
			s.Remove(r)
		}
	}
	return s.dropped > 0
}

// empty lets go of the memory of a set without items, unless it is little, or stays warm.
func (s *Set) empty() {
	size := s.memory() + int64(s.mostTokens)*tokenSize
	switch {
	case size <= fewBytes:
	case s.Warm == nil || size > maxWarm:
		s.room = room{}
	case s.Warm.set != s:
		if other := s.Warm.set; other != nil && other.slots.count == 0 {
			other.room = room{}
			other.account()
		}
		s.Warm.set = s
	}
}

// Clear takes every item out, and lets go of all memory.
func (s *Set) Clear() {
	*s = Set{Memory: s.Memory, Warm: s.Warm, counted: s.counted}
	s.account()
}

// move makes slot to, which is free, what slot from is.
func (s *Set) move(from, to uint32) {
	s.unlink(from)
	sl := s.slots.at(to)
	*sl = *s.slots.at(from)
	s.link(to)
	if !s.isDropped(sl) {
		s.heap(sl.stateOf()).at(sl.place()).slot = to
	}
	s.images.setSlot(sl.at, to)
	if sl.token != 0 {
		s.tokens[sl.token] = to
	}
}

// FirstDue returns the item that is due next, of those delayed and leased, and when it is.
func (s *Set) FirstDue() (r Ref, due item.Time, ok bool) {
	for _, state := range [...]State{Delayed, Leased} {
		if h := s.heap(state); h.count > 0 {
			if top := h.at(0); !ok || item.Time(top.key()) < due {
				r, due, ok = Ref(top.slot), item.Time(top.key()), true
			}
		}
	}
	return r, due, ok
}

// FirstReady returns the item to hand out next, of those that are ready.
func (s *Set) FirstReady() (r Ref, ok bool) {
	ready := s.heap(Ready)
	if ready.count == 0 {
		return 0, false
	}
	return Ref(ready.at(0).slot), true
}

// EachFrom calls f for the ids from one on of items in a state; those that are Restored come with the Ready. Of a set of
// many they come in their order, until f returns false.
func (s *Set) EachFrom(state State, id uint64, f func(id uint64) bool) {
	if s.ordered {
		s.ids[min(state, Ready)].EachFrom(id, f)
		return
	}
	h := s.heap(state)
	for i := range uint32(h.count) {
		if found := s.slots.at(h.at(i).slot).id; found >= id {
			f(found)
		}
	}
}

// order has there be ids from now on.
func (s *Set) order() {
	s.ordered = true
	for i := range s.heaps {
		for at := range uint32(s.heaps[i].count) {
			s.ids[i].Add(s.slots.at(s.heaps[i].at(at).slot).id)
		}
	}
}

func (s *Set) heap(state State) *heap { return &s.heaps[min(state, Ready)] }

// enter notes what there is to know of slot i, which is in no heap, and adds it to that of its state.
func (s *Set) enter(i uint32, e Entry) {
	sl := s.slots.at(i)
	sl.token, sl.state = e.Token, uint32(e.State)<<stateBits|s.turn
	s.images.setCount(sl.at, e.Count)
	key := sl.id
	if e.State < Ready {
		key = uint64(max(e.Due, 0))
	}
	s.push(s.heap(e.State), key, i)
	if s.ordered {
		s.ids[min(e.State, Ready)].Add(sl.id)
	}
	if sl.token != 0 {
		if s.tokens == nil {
			s.tokens = make(map[uint64]uint32)
		}
		s.tokens[sl.token] = i
		s.mostTokens = max(s.mostTokens, len(s.tokens))
	}
}

// leave takes slot i, whose item is it, out of the heap and the tally of its state, and its token out of the others.
func (s *Set) leave(i uint32, it *item.Item) {
	sl := s.slots.at(i)
	if s.isDropped(sl) {
		s.dropped--
	} else {
		s.tallies[sl.stateOf()].Account(it, -1)
		s.cut(s.heap(sl.stateOf()), sl.place())
		if s.ordered {
			s.ids[min(sl.stateOf(), Ready)].Remove(sl.id)
		}
	}
	if sl.token != 0 {
		delete(s.tokens, sl.token)
	}
}

const (
	// tokenSize is how many bytes a token takes in its table, about.
	tokenSize = 20
	// idSize is how many bytes of ids an item takes, about: two, or a bit, and room to grow.
	idSize = 3
)

// memory is how many bytes the set takes.
func (s *Set) memory() int64 {
	n := s.slots.memory() + s.buckets.memory() + s.images.memory() + int64(len(s.tokens))*tokenSize
	for i := range s.heaps {
		n += s.heaps[i].memory()
	}
	if s.ordered {
		n += int64(s.slots.count) * idSize
	}
	return n
}

// account updates Memory to what the set takes now.
func (s *Set) account() {
	now := s.memory()
	if s.slots.count == 0 && s.Warm != nil && s.Warm.set == s {
		now = 0
	}
	if now != s.counted {
		s.Memory.Add(now - s.counted)
		s.counted = now
	}
}
