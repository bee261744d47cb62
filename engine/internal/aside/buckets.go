package aside

import "math/bits"

// There are as many buckets as slots. Each Add splits one and each Remove joins two, so no operation takes longer
// because the table grows.

// bucketOf returns the bucket of an id. Ids are given by the queue, so nobody can choose them to collide.
func (s *Set) bucketOf(id uint64) uint32 {
	h := id * 0x9e3779b97f4a7c15
	return bucketIn(uint32(h>>32), uint32(s.buckets.count))
}

// bucketIn returns the bucket of a hash if there are count buckets.
func bucketIn(h, count uint32) uint32 {
	mask := uint32(1)<<bits.Len32(count-1) - 1
	if b := h & mask; b < count {
		return b
	}
	return h & (mask >> 1)
}

// grow adds a bucket, and moves to it what belongs there.
func (s *Set) grow() {
	n := uint32(s.buckets.count)
	s.buckets.push(0)
	if n == 0 {
		return
	}
	from := n &^ (uint32(1) << (bits.Len32(n) - 1))
	chain := *s.buckets.at(from)
	*s.buckets.at(from) = 0
	s.relink(chain)
}

// shrink removes the last bucket, and moves what is in it to another one.
func (s *Set) shrink() { s.relink(s.buckets.pop()) }

// relink puts the slots of a chain into the buckets where they belong now.
func (s *Set) relink(chain uint32) {
	for chain != 0 {
		i := chain - 1
		chain = s.slots.at(i).next
		s.link(i)
	}
}

// link puts slot i into its bucket.
func (s *Set) link(i uint32) {
	sl := s.slots.at(i)
	head := s.buckets.at(s.bucketOf(sl.id))
	sl.next = *head
	*head = i + 1
}

// unlink takes slot i out of its bucket.
func (s *Set) unlink(i uint32) {
	sl := s.slots.at(i)
	at := s.buckets.at(s.bucketOf(sl.id))
	for *at != i+1 {
		at = &s.slots.at(*at - 1).next
	}
	*at, sl.next = sl.next, 0
}
