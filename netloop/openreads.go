package netloop

import "github.com/kestrelmq/kestrel/engine"

// openReads are the open reads of one session, by queue, each in the order they were opened.
type openReads struct {
	queues map[string]*queueReads
	last   *queueReads // the one used last
	empty  int         // queues without an open read
}

// queueReads is a FIFO of open reads.
type queueReads struct {
	name string
	refs []engine.ReadRef // from start on
	head int
	// leased says that some may end by themselves, because a lease lapses.
	leased bool
}

// maxEmptyReads is how many queues are remembered without an open read, so that opening the next
// one there allocates nothing.
const maxEmptyReads = 16

func (q *queueReads) len() int { return len(q.refs) - q.head }

// of returns the reads of the queue called name, or nil.
func (o *openReads) of(name []byte) *queueReads {
	if o.last != nil && o.last.name == string(name) {
		return o.last
	}
	q := o.queues[string(name)]
	if q != nil {
		o.last = q
	}
	return q
}

// count is the number of open reads of the queue called name.
func (o *openReads) count(name []byte) int {
	if len(o.queues) == 0 {
		return 0
	}
	if q := o.of(name); q != nil {
		return q.len()
	}
	return 0
}

// add appends reads, at least one, of the queue called name.
func (o *openReads) add(name []byte, refs ...engine.ReadRef) {
	q := o.of(name)
	switch {
	case q == nil:
		q = &queueReads{name: string(name)}
		if o.queues == nil {
			o.queues = make(map[string]*queueReads)
		}
		o.queues[q.name] = q
		o.last = q
	case q.len() == 0:
		o.empty--
	}
	q.refs = append(q.refs, refs...)
}

// take removes the oldest read of the queue called name and returns it.
func (o *openReads) take(name []byte) (ref engine.ReadRef, ok bool) {
	if o.count(name) == 0 {
		return ref, false
	}
	q := o.of(name)
	ref = q.refs[q.head]
	q.head++
	if q.len() > 0 {
		if q.head >= 64 && q.head > len(q.refs)/2 {
			q.refs = append(q.refs[:0], q.refs[q.head:]...)
			q.head = 0
		}
		return ref, true
	}
	o.emptied(q)
	return ref, true
}

// takeOldest removes the oldest n reads of the queue called name, of which there are as many, and returns
// them. It copies nothing: the slice is the caller's.
func (o *openReads) takeOldest(name []byte, n int) []engine.ReadRef {
	q := o.of(name)
	refs := q.refs[q.head : q.head+n : q.head+n]
	q.refs, q.head = q.refs[q.head+n:], 0
	if q.len() == 0 {
		o.emptied(q)
	}
	return refs
}

// takeQueue removes the reads of the queue called name and appends them to dst, in the order they
// were opened.
func (o *openReads) takeQueue(name []byte, dst []engine.ReadRef) []engine.ReadRef {
	if o.count(name) == 0 {
		return dst
	}
	q := o.of(name)
	dst = append(dst, q.refs[q.head:]...)
	o.emptied(q)
	return dst
}

// keep has refs, which are some of those of q, be all of them.
func (o *openReads) keep(q *queueReads, refs []engine.ReadRef) {
	q.refs = q.refs[:q.head+len(refs)]
	if len(refs) == 0 {
		o.emptied(q)
	}
}

// emptied is called when the reads of q, of which there was one at least, have all been taken.
func (o *openReads) emptied(q *queueReads) {
	q.refs, q.head, q.leased = q.refs[:0], 0, false
	o.empty++
	if o.empty > maxEmptyReads {
		o.forgetEmpty()
	}
}

func (o *openReads) forgetEmpty() {
	for name, q := range o.queues {
		if q.len() == 0 {
			delete(o.queues, name)
		}
	}
	o.last, o.empty = nil, 0
}

// takeAll removes every read and calls f for each queue, with its reads in the order they were
// opened.
func (o *openReads) takeAll(f func([]engine.ReadRef)) {
	for _, q := range o.queues {
		f(q.refs[q.head:])
	}
	*o = openReads{}
}
