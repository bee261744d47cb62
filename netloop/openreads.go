package netloop

import (
	"slices"

	"github.com/kestrelmq/kestrel/engine"
)

// openReads are the open reads of one session, by queue, each in the order they were opened.
type openReads struct {
	ledger *ledger // of the loop
	usage  *usage  // of the user, whose quota they count against; nil: none
	queues map[string]*queueReads
	last   *queueReads   // the one used last
	open   int           // reads
	empty  int           // queues without an open read
	unused []*queueReads // all that are empty, and others that were
	size   int           // bytes of memory, as counted in ledger
}

// queueReads is a FIFO of open reads.
type queueReads struct {
	name string
	refs []engine.ReadRef // from start on
	head int
	// leased says that some may end by themselves, because a lease lapses.
	leased bool
	unused bool // in the list of that name
	room   int  // references that there is memory for, as counted
}

const (
	// readsSize is about how many bytes a queue takes in the lists of a session, beside its name, and refSize
	// how many a reference.
	readsSize = 128
	refSize   = 16
	// smallReads is how many bytes of lists a session may have whatever the others do.
	smallReads = 4 << 10
)

// maxEmptyReads is how many queues are remembered without an open read, so that opening the next
// one there allocates nothing.
const maxEmptyReads = 16

// maxForgotten is how many unused queues are looked at, when a read ends, to forget those that are empty.
const maxForgotten = 2 * maxEmptyReads

// len is how many reads are open; q may be nil.
func (q *queueReads) len() int {
	if q == nil {
		return 0
	}
	return len(q.refs) - q.head
}

// of returns the reads of the queue called name, or nil.
func (o *openReads) of(name []byte) *queueReads {
	if o.last != nil && o.last.name == string(name) {
		return o.last
	}
	if len(o.queues) == 0 {
		return nil
	}
	q := o.queues[string(name)]
	if q != nil {
		o.last = q
	}
	return q
}

// count is the number of open reads of the queue called name.
func (o *openReads) count(name []byte) int { return o.of(name).len() }

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
		o.addSize(readsSize + len(name))
	case q.len() == 0:
		o.empty--
	}
	if len(refs) == 1 {
		q.refs = append(q.refs, refs[0])
	} else {
		q.refs = append(q.refs, refs...)
	}
	o.opened(len(refs))
	o.counted(q)
}

// opened counts n reads more, or fewer if n is negative.
func (o *openReads) opened(n int) {
	o.open += n
	o.charge(n)
}

// charge adds n to what the user has open.
func (o *openReads) charge(n int) {
	if o.usage != nil {
		o.usage.reads.Add(int64(n))
	}
}

// addSize counts n bytes more, or fewer if n is negative.
func (o *openReads) addSize(n int) {
	o.size += n
	o.ledger.add(n)
}

// counted counts what the list of q has grown or shrunk by.
func (o *openReads) counted(q *queueReads) {
	if n := cap(q.refs); n != q.room {
		o.addSize((n - q.room) * refSize)
		q.room = n
	}
}

// take removes the oldest read of q, which has one, and returns it.
func (o *openReads) take(q *queueReads) engine.ReadRef {
	ref := q.refs[q.head]
	q.head++
	o.opened(-1)
	switch {
	case q.len() == 0:
		o.emptied(q)
	case q.head >= 64 && q.head > len(q.refs)/2:
		q.refs = append(q.refs[:0], q.refs[q.head:]...)
		q.head = 0
	}
	return ref
}

// takeOldest removes the oldest n reads of the queue called name, of which there are as many, and returns
// them. It copies nothing: the slice is the caller's.
func (o *openReads) takeOldest(name []byte, n int) []engine.ReadRef {
	q := o.of(name)
	refs := q.refs[q.head : q.head+n : q.head+n]
	o.opened(-n)
	q.refs, q.head = q.refs[q.head+n:], 0
	if q.len() == 0 {
		q.refs = nil
		o.counted(q)
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
	o.opened(-q.len())
	o.emptied(q)
	return dst
}

// reduce leaves refs of the reads of q, which must be some of them.
func (o *openReads) reduce(q *queueReads, refs []engine.ReadRef) {
	o.opened(len(refs) - q.len())
	q.refs = q.refs[:q.head+len(refs)]
	if len(refs) == 0 {
		o.emptied(q)
	}
}

// emptied is called when the reads of q, of which there was one at least, have all been taken.
func (o *openReads) emptied(q *queueReads) {
	q.refs, q.head, q.leased = q.refs[:0], 0, false
	o.empty++
	if !q.unused {
		q.unused = true
		o.unused = append(o.unused, q)
	}
	if o.empty > maxEmptyReads {
		o.forgetEmpty()
	}
}

// forgetEmpty forgets queues that are empty. It looks at a few at a time: a client may have reads of any number of queues.
func (o *openReads) forgetEmpty() {
	for _, q := range o.unused[:min(len(o.unused), maxForgotten)] {
		if q.unused = false; q.len() == 0 {
			delete(o.queues, q.name)
			o.addSize(-readsSize - len(q.name) - q.room*refSize)
			o.empty--
		}
	}
	o.unused = slices.Delete(o.unused, 0, min(len(o.unused), maxForgotten))
	o.last = nil
}

// takeAll removes every read. It returns them by queue, and how many bytes of memory they take, which the caller
// counts from now on.
func (o *openReads) takeAll() (queues map[string]*queueReads, size int) {
	queues, size = o.queues, o.size
	o.opened(-o.open)
	o.addSize(-o.size)
	*o = openReads{ledger: o.ledger, usage: o.usage}
	return queues, size
}

// openedHere is how many reads of the queue called name are open that this connection has opened.
func (s *session) openedHere(name []byte) int {
	if h := s.thrift.holders[string(name)]; h != nil {
		return h.Leases()
	}
	return 0
}

// holder counts the reads of the queue called name that this connection opens.
func (s *session) holder(name []byte) *engine.Holder {
	holders := s.thrift.holders
	if h := holders[string(name)]; h != nil {
		return h
	}
	if holders == nil {
		holders = make(map[string]*engine.Holder)
		s.thrift.holders = holders
	}
	looked := 0
	for name, h := range holders { // by chance, and so all of them in the end
		if looked++; len(holders) < maxEmptyReads || looked > maxForgotten {
			break
		}
		if h.Leases() == 0 {
			delete(holders, name)
			s.accountHolder(-1, name)
		}
	}
	client := engine.Client{
		Connection: s.tally.number, Peer: s.sink.peer(), Protocol: s.proto.name(), ClientID: s.clientID,
	}
	if u := s.id.user; u != nil {
		client.User = u.Name
	}
	h := engine.NewHolder(s.id.holder(), client)
	holders[string(name)] = h
	s.accountHolder(1, string(name))
	return h
}

// accountHolder counts the memory of one Holder more, or one fewer.
func (s *session) accountHolder(n int64, queue string) {
	size := n * (holderSize + int64(len(queue)))
	s.thrift.holdersSize += size
	s.loop.engine.Account(size)
}

// holderSize is about how many bytes a Holder takes with its place in the session, beside the queue's name.
const holderSize = 224

// dropHolders forgets the reads that this connection, which has ended, has opened. They stay open.
func (s *session) dropHolders() {
	s.loop.engine.Account(-s.thrift.holdersSize)
	s.thrift.holders, s.thrift.holdersSize = nil, 0
}

// dropSeveral gives back what a session that has ended kept for fetches from several queues, unless an item is
// on its way.
func (s *session) dropSeveral() {
	if s.wait.several != nil && !s.wait.several.waiting {
		s.loop.engine.Account(-severalSize)
		s.wait.several = nil
	}
}
