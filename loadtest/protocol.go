package loadtest

import (
	"fmt"
	"time"

	codec "github.com/kestrelmq/kestrel/codec/thrift"
)

// Protocol is what a server speaks, and with which commands an operation is done.
type Protocol uint8

const (
	Memcache     Protocol = iota // set and get, with Kestrel's /open, /close and /t=, and MONITOR
	Thrift                       // Kestrel's Thrift service
	RedisList                    // LPUSH, RPOP, LMOVE and LREM on lists, BRPOP and BLMOVE to wait
	RedisString                  // SET and GET of one key per queue
	MemcacheMeta                 // memcached's ms and mg of one key per queue
	Beanstalk                    // put, reserve and delete in a tube per queue
	JetStream                    // NATS: acknowledged publishing, and a durable pull consumer
	NSQ                          // nsqd: PUB, and messages pushed to a channel
	numProtocols
)

// String returns the protocol's name in reports.
func (p Protocol) String() string {
	if p >= numProtocols {
		return fmt.Sprintf("Protocol(%d)", uint8(p))
	}
	return [...]string{"memcache", "thrift", "redis-list", "redis-string", "memcache-meta",
		"beanstalk", "jetstream", "nsq"}[p]
}

// can reports whether an operation can be done.
func (p Protocol) can(o Operation) bool {
	switch p {
	case Memcache:
		return o != Lease
	case RedisList:
		return o <= Consume
	case Thrift:
		return o != CloseOpen && o != Monitor
	case Beanstalk:
		return o == Set || o == OpenClose || o == Consume
	case JetStream, NSQ:
		return o == Set || o == CloseOpen
	}
	return o <= SetGet
}

// Operation is the cycle of requests each connection repeats.
type Operation uint8

const (
	Set       Operation = iota // put an item
	Get                        // get an item
	SetGet                     // put, then get
	OpenClose                  // put, open a reliable read, confirm it
	Consume                    // open a reliable read, confirm it
	CloseOpen                  // confirm the last reliable read and open the next, in one request
	Monitor                    // open up to Burst reliable reads in one request, confirm them in one
	Lease                      // open reads that abort themselves after a while, and confirm them
	numOperations
)

// String returns the operation's name in reports.
func (o Operation) String() string {
	if o >= numOperations {
		return fmt.Sprintf("Operation(%d)", uint8(o))
	}
	return [...]string{"SET", "GET", "SET/GET", "PUT/OPEN/CLOSE", "OPEN/CLOSE", "CLOSE/OPEN",
		"MONITOR",
		"LEASE"}[o]
}

// requestKind is one step of an operation's cycle.
type requestKind uint8

const (
	putRequest        requestKind = iota
	getRequest                    // one item; up to Burst in Thrift
	openRequest                   // get that leaves the item open
	confirmRequest                // end of one open read
	closeOpenRequest              // end of the open reads, and new ones
	fetchRequest                  // several items, left open
	confirmAllRequest             // end of all open reads of a fetch
	numKinds
)

// String returns the name of the kind's histograms.
func (k requestKind) String() string {
	return [...]string{"put", "get", "open", "confirm", "close-open", "fetch", "confirm-all"}[k]
}

// reads reports whether the reply may hold items.
func (k requestKind) reads() bool {
	return k == getRequest || k == openRequest || k == closeOpenRequest || k == fetchRequest
}

// opens reports whether the items in the reply stay open.
func (k requestKind) opens() bool { return k.reads() && k != getRequest }

// cycle holds, for each operation, the kinds of request it repeats.
func (o Operation) cycle() []requestKind {
	return [...][]requestKind{
		Set:       {putRequest},
		Get:       {getRequest},
		SetGet:    {putRequest, getRequest},
		OpenClose: {putRequest, openRequest, confirmRequest},
		Consume:   {openRequest, confirmRequest},
		CloseOpen: {closeOpenRequest, confirmRequest}, // the second only when leaving
		Monitor:   {fetchRequest, confirmAllRequest},
		Lease:     {fetchRequest, confirmAllRequest},
	}[o]
}

func (o Operation) first() requestKind { return o.cycle()[0] }

// Puts reports whether the operation puts items, and Gets whether it takes some.
func (o Operation) Puts() bool { return o.first() == putRequest }

// Gets reports whether the operation takes items.
func (o Operation) Gets() bool { return o != Set }

// request is one request and what its reply must contain.
type request struct {
	kind  requestKind
	queue []byte
	seq   int32    // index in its batch
	items [][]byte // put: the items; otherwise the items due, if they are known
	count int      // get, close-open, fetch: items at most
	got   int      // items of the reply seen so far
	held  *held    // confirm, close-open, confirm-all: the open reads
	which int      // confirm: index in held
	conn  int      // number of the connection in the run
}

// value returns the only item, or nil.
func (r *request) value() []byte {
	if len(r.items) == 0 {
		return nil
	}
	return r.items[0]
}

// outcome classifies a reply.
type outcome uint8

const (
	accepted outcome = iota // put or confirm done; the end of a reply of several items
	hit                     // an item, in reply.value, or several in reply.list
	miss                    // get or open of an empty queue
	refused                 // an error, a reply to another kind of request, or not a reply at all
	noise                   // nothing that was asked for, and nothing wrong
)

// reply is one parsed reply, or a part of it.
type reply struct {
	outcome outcome
	more    bool           // the reply goes on
	value   []byte         // aliases the source; hit only
	id      []byte         // names the open read, if the server does; aliases the source
	list    codec.ItemList // hit without value: the items
}

// protocol encodes requests and frames replies. It keeps no state and may be shared by threads.
type protocol interface {
	// appendRequest extends dst by the request.
	appendRequest(dst []byte, r *request) []byte

	// appendReply extends dst by the reply due. It returns false if that is one of several that a
	// correct server may give; what it appended is then an example, for error messages.
	appendReply(dst []byte, r *request) ([]byte, bool)

	// parseReply parses one reply, or one part of it, at the start of src and returns the bytes it
	// occupies. Zero means that src is a proper prefix. The bytes of a refused reply may be fewer
	// than it has.
	parseReply(src []byte, r *request) (reply, int)

	// named reports whether a confirm names what it confirms, so that it cannot be sent together
	// with the open before it.
	named() bool
}

// greeter is a protocol whose connections begin with an exchange before the first request.
type greeter interface {
	// appendGreeting extends dst by what a new connection sends. The queue is its own, conn its
	// number in the run.
	appendGreeting(dst []byte, queue string, conn int, g *Group) []byte

	// greeted returns the size of the answer at the start of src, which is all that has arrived. It returns 0 while the
	// answer is not whole, or that it is not one.
	greeted(src []byte, g *Group) (n int, err error)
}

// personal is a protocol whose requests differ by connection.
type personal interface{ personal() }

// endless is a protocol whose gets are answered only when there is an item.
type endless interface{ endless() }

// newProtocol returns the codec for a group.
func newProtocol(o *Options, g *Group) protocol {
	switch o.Protocol {
	case Thrift:
		p := thriftCalls{wait: millis(g.Wait), lease: millis(g.AutoAbort), burst: g.Burst}
		if o.ClientID != "" {
			p.client = codec.Client{Upgraded: true, ClientID: []byte(o.ClientID)}
		}
		return p
	case RedisList:
		return redisList{wait: g.Wait, unique: o.Ledger != nil}
	case RedisString:
		return redisString{}
	case MemcacheMeta:
		return memcacheMeta{}
	case Beanstalk:
		return beanstalk{wait: g.Wait}
	case JetStream:
		return jetStream{wait: g.Wait}
	case NSQ:
		return nsq{}
	default:
		return memcache{wait: g.Wait}
	}
}

func millis(d time.Duration) int32 { return int32(min(d.Milliseconds(), 1<<31-1)) }
