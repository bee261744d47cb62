package netloop

import (
	"net"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

// This file counts what the clients of one loop ask; sniffing.go adds that up for an operator.

const (
	// maxAsked bounds the kinds of requests that a loop counts apart, and the queues that it knows while it does.
	maxAsked = 4096
	// maxCallers bounds the connections whose peers a loop knows meanwhile.
	maxCallers = 16 << 10
	// sizePrecision is that of the sizes of items: figures are right to a few per cent.
	sizePrecision = histogram.Coarse
)

// Asked is what clients asked of one queue in one way.
type Asked struct {
	AskedBy
	Requests int64
	Put      *histogram.Counts // sizes of the items put, bytes; nil: none
	Got      *histogram.Counts // sizes of the items handed out, bytes; nil: none
}

// AskedBy tells what is counted apart.
type AskedBy struct {
	Request  string // as its protocol calls it: "set", "get", "put", …
	Queue    string // "" if it is about none
	Client   string // the host of the peer, behind USER@ or ID@ if the client says who it is
	Protocol string
}

// sniffer counts what the clients of one loop ask, while an operator listens. It belongs to the loop, which has none
// at other times: then it costs a branch for each request.
type sniffer struct {
	match   func(queue string) bool // the queues that are of interest
	queues  map[string]*sniffedQueue
	callers map[uint64]*caller // by the number of their connections
	kinds   int                // in all queues
	beyond  Asked              // requests that there was no room to count apart
	name    []byte             // scratch
}

// sniffedQueue is what is asked of one queue; nothing is counted of one that is not of interest.
type sniffedQueue struct {
	name  string
	of    bool // interest
	asked map[AskedBy]*Asked
}

// caller is a connection. What it asked last gets the sizes of the items that follow.
type caller struct {
	id   string // as of label
	by   AskedBy
	last *Asked // nil: nothing that is of interest
}

func newSniffer(match func(queue string) bool) *sniffer {
	return &sniffer{match: match, queues: make(map[string]*sniffedQueue), callers: make(map[uint64]*caller)}
}

// asks notes which request is being run, and on which queue, if on any. The queue's name must not change until the
// part of the turn has ended.
func (s *session) asks(what string, queue []byte) {
	s.loop.watchdog.request(what, queue)
	if s.loop.sniff != nil {
		s.noteAsked()
	}
}

// asksAgain notes that the request being run stands so many more times in a row.
func (s *session) asksAgain(times int) {
	if n := s.loop.sniff; n != nil && times > 0 {
		n.noteAgain(s, times)
	}
}

// puts notes the size of an item that the request being run puts.
func (s *session) puts(size int) {
	if n := s.loop.sniff; n != nil {
		n.notePut(s, size)
	}
}

// gets notes the size of an item that the client gets.
func (s *session) gets(size int) {
	if n := s.loop.sniff; n != nil {
		n.noteGot(s, size)
	}
}

// last is what the client of s asked last; nil if that is not of interest.
func (n *sniffer) last(s *session) *Asked {
	if c := n.callers[s.tally.number]; c != nil {
		return c.last
	}
	return nil
}

func (n *sniffer) noteAgain(s *session, times int) {
	if a := n.last(s); a != nil {
		a.Requests += int64(times)
	}
}

func (n *sniffer) notePut(s *session, size int) {
	if a := n.last(s); a != nil {
		record(&a.Put, size)
	}
}

// noteGot counts no item of Burrow's: mostly they leave in lists that jobs make.
func (n *sniffer) noteGot(s *session, size int) {
	if a := n.last(s); a != nil && s.burrow == nil {
		record(&a.Got, size)
	}
}

func record(sizes **histogram.Counts, size int) {
	if *sizes == nil {
		*sizes = &histogram.Counts{Precision: sizePrecision}
	}
	(*sizes).Record(int64(size), 1)
}

// noteAsked counts the request that the watchdog has noted.
func (s *session) noteAsked() {
	n, what, queue := s.loop.sniff, s.loop.watchdog.doing, s.loop.watchdog.queue
	c := n.callerOf(s)
	c.last = nil
	q := n.queueOf(s, queue)
	if q == nil {
		n.beyond.Requests++
		return
	}
	if !q.of {
		return
	}
	c.by.Request, c.by.Queue = what, q.name
	a := q.asked[c.by]
	if a == nil {
		if n.kinds >= maxAsked {
			n.beyond.Requests++
			return
		}
		n.kinds++
		a = &Asked{AskedBy: c.by}
		q.asked[c.by] = a
	}
	a.Requests++
	c.last = a
}

// callerOf returns who asks.
func (n *sniffer) callerOf(s *session) *caller {
	c := n.callers[s.tally.number]
	if c == nil {
		c = new(caller)
		if len(n.callers) >= maxCallers { // its requests count, and the sizes of its items do not
			c.by = AskedBy{Client: "others", Protocol: s.proto.name()}
			return c
		}
		n.callers[s.tally.number] = c
	}
	id := s.clientID
	if u := s.id.user; u != nil {
		id = u.Name
	}
	if c.by.Protocol == "" || c.id != id {
		host, _, err := net.SplitHostPort(s.sink.peer())
		if err != nil {
			host = s.sink.peer() // a Unix socket
		}
		if c.id = id; id != "" {
			host = id + "@" + host
		}
		c.by = AskedBy{Client: host, Protocol: s.proto.name()}
	}
	return c
}

// queueOf returns the queue called name, as the client spells it; nil if there is no room for it.
func (n *sniffer) queueOf(s *session, name []byte) *sniffedQueue {
	if _, ok := s.proto.(memcacheProtocol); ok && !isPlainName(name) {
		n.name = appendLatin1AsUTF8(n.name[:0], name)
		name = n.name
	}
	q := n.queues[string(name)]
	if q == nil && len(n.queues) < maxAsked {
		q = &sniffedQueue{name: string(name)}
		if q.of = n.match(q.name); q.of {
			q.asked = make(map[AskedBy]*Asked)
		}
		n.queues[q.name] = q
	}
	return q
}
