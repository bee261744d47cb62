package main

import (
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

// What clients do that none should.
const (
	opStuff    = "stuff"                  // have some connections ask for items that nobody reads, for a while
	opAnnounce = "announce"               // have some connections announce large items, and send a few bytes of them
	opBadEnd   = "put without a line end" // and hide another put in what follows
)

// stuffTime is how long such connections stay.
const stuffTime = 50 * time.Millisecond

// replySlack is how many bytes of replies a server may keep for a client beyond its limit and one item. That item is
// sent in whole; the slack is what goes with it.
const replySlack = 64 << 10

// stuff has some more connections ask for items, and read nothing.
func (c *caller) stuff(op Op) {
	var links []link
	for range op.N {
		l := c.w.dial(c)
		l.stuff(op.Queue, op.Size)
		links = append(links, l)
	}
	time.Sleep(stuffTime)
	for _, l := range links {
		if most := c.w.script.Config.MaxPending + int(c.w.ledger.largest.Load()) + replySlack; l.kept() > most {
			c.w.ledger.report("unread", "the server keeps %d bytes of replies for a client that reads none, and may keep %d",
				l.kept(), most)
		}
		l.reset(false)
	}
}

// announcedSize is how many bytes an item has of which only a few are sent.
const announcedSize = 900_000

// announce has some more connections begin to put large items, and then say nothing.
func (c *caller) announce(op Op) {
	var links []*memcacheLink
	for range op.N {
		l, ok := c.w.dial(c).(*memcacheLink)
		if !ok {
			return
		}
		l.conn.Write(fmt.Appendf(nil, "set %s 0 0 %d\r\nonly this", op.Queue, announcedSize))
		links = append(links, l)
	}
	time.Sleep(stuffTime)
	for _, l := range links {
		l.reset(false)
	}
}

// lineEnd is what a body must end in.
const lineEnd = "\r\n"

// badEnds are two bytes each that a body must not end in.
var badEnds = [...]string{"XX", "\rX", "\nX", "X\n"}

// badEnd puts an item that does not end as it should, and another one behind it. The server stores the first, and must
// not store the second: it may be a part of the first.
func (c *caller) badEnd(op Op, l *memcacheLink) error {
	first, data := c.w.ledger.putting(op.Queue, op.Size, 0, 0)
	request := memcache.AppendSet(nil, []byte(op.Queue), 0, 0, data)
	request = append(request[:len(request)-len(lineEnd)], badEnds[op.N%len(badEnds)]...)
	second, data := c.w.ledger.putting(op.Queue, op.Size, 0, 0)
	l.conn.Write(memcache.AppendSet(request, []byte(op.Queue), 0, 0, data))
	c.w.ledger.putEnded(first, putStateOf(l.stored(1)[0]))
	c.w.ledger.putEnded(second, refused)
	for l.next() == nil { // until the server has ended the connection
		if l.r.Kind == memcache.KindStored {
			c.w.ledger.report("refused", "item %d was stored behind an item without a line end", second)
			break
		}
	}
	return errBroken
}
