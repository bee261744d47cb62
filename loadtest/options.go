package loadtest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Bounds of Options, checked before anything is allocated.
const (
	MaxConnections = 1 << 16
	MaxPipeline    = 1 << 12
	MaxItemSize    = 64 << 20  // bytes
	maxBatchSize   = 256 << 20 // bytes of values in one batch
	maxQueueName   = 200       // bytes
	maxThreads     = 64
)

// Protocol is what a server speaks, and with which commands an operation is done.
type Protocol uint8

const (
	Memcache     Protocol = iota // set and get, with Kestrel's /open, /close and /t=
	RedisList                    // LPUSH, RPOP, LMOVE and LREM on lists, BRPOP and BLMOVE to wait
	RedisString                  // SET and GET of one key per queue
	MemcacheMeta                 // memcached's ms and mg of one key per queue
	numProtocols
)

// String returns the protocol's name in reports.
func (p Protocol) String() string {
	if p >= numProtocols {
		return fmt.Sprintf("Protocol(%d)", uint8(p))
	}
	return [...]string{"memcache", "redis-list", "redis-string", "memcache-meta"}[p]
}

// Operation is the cycle of requests each connection repeats.
type Operation uint8

const (
	Set       Operation = iota // put an item
	Get                        // get an item; the queue must have been filled, or gets miss
	SetGet                     // put, then get
	OpenClose                  // put, open a reliable read, confirm it
	numOperations
)

// String returns the operation's name in reports.
func (o Operation) String() string {
	if o >= numOperations {
		return fmt.Sprintf("Operation(%d)", uint8(o))
	}
	return [...]string{"SET", "GET", "SET/GET", "OPEN/CLOSE"}[o]
}

// Options say what to send, over how many connections, and for how long. Of the fields in one group
// zero means the default given, or none. The run as a whole is also bounded by Run's context.
type Options struct {
	Addr     string // host:port, TCP
	Protocol Protocol

	Operation   Operation
	Connections int    // default 1
	Pipeline    int    // requests in flight per connection, default 1
	ItemSize    int    // bytes of a value, default 64
	Queue       string // queue name, or its prefix when there are several; default "load"
	Queues      int    // default 1; connection i uses queue i modulo Queues

	// Operations and Duration bound the measured window; at least one is needed, and the first one
	// reached ends it. Requests on the way then are still answered, counted and timed.
	Operations int64
	Duration   time.Duration

	// WarmupOperations and Warmup bound the window before, likewise; with neither there is none.
	WarmupOperations int64
	Warmup           time.Duration

	// ReplyWait is how long a batch may remain unanswered, from its write to its last reply, before
	// the run fails with ErrStalled; default 10 s. It is checked every tickInterval.
	ReplyWait time.Duration

	// Wait is how long gets and opens ask the server to wait for an item; zero does not wait. Redis
	// and Kestrel only, whole milliseconds.
	Wait time.Duration

	// Reconnect is the number of batches after which a connection is closed and opened again; zero
	// keeps connections. The latency of a batch then includes the connect before it. Connections to
	// the loopback come from many of its addresses, as one would run out of ports.
	Reconnect int

	// Verify makes each value unique and checks the order of what gets return. Puts then need a
	// queue per connection (one producer each), SetGet and OpenClose also queues that are empty.
	Verify bool

	// Threads is the number of generator threads, default 1. CPUs, if not empty, pins thread i to
	// processor CPUs[i modulo len].
	Threads int
	CPUs    []int

	// Begin and End, if set, are called on Run's goroutine when the measured window begins and when
	// it has ended, at moments without an outstanding request: the place to read a server's counters.
	Begin, End func()
}

// Validate reports every problem of the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	within := func(name string, n, low, high int) {
		bad(n < low || n > high, "%s is %d, want %d to %d", name, n, low, high)
	}
	bad(o.Addr == "", "Addr is empty")
	bad(o.Protocol >= numProtocols, "unknown %v", o.Protocol)
	bad(o.Operation >= numOperations, "unknown %v", o.Operation)
	within("Connections", o.Connections, 1, MaxConnections)
	within("Pipeline", o.Pipeline, 1, MaxPipeline)
	within("ItemSize", o.ItemSize, 1, MaxItemSize)
	bad(o.ItemSize > 0 && o.Pipeline > maxBatchSize/o.ItemSize,
		"a batch of %d values of %d bytes exceeds %d bytes", o.Pipeline, o.ItemSize, maxBatchSize)
	within("Queues", o.Queues, 1, MaxConnections)
	within("Threads", o.Threads, 1, maxThreads)
	within("Reconnect", o.Reconnect, 0, math.MaxInt)
	bad(len(o.Queue) > maxQueueName || strings.ContainsAny(o.Queue, " \r\n\x00/+"),
		"Queue %q is not a queue name", o.Queue)
	bad(o.Operations < 0 || o.Duration < 0, "Operations or Duration is negative")
	bad(o.Operations == 0 && o.Duration == 0, "neither Operations nor Duration bounds the run")
	bad(o.WarmupOperations < 0 || o.Warmup < 0, "WarmupOperations or Warmup is negative")
	bad(o.ReplyWait < 0 || o.Wait < 0, "ReplyWait or Wait is negative")
	bad(o.Wait%time.Millisecond != 0, "Wait is %v, want whole milliseconds", o.Wait)
	bad(o.Wait >= o.ReplyWait, "Wait %v is not below ReplyWait %v", o.Wait, o.ReplyWait)
	noQueue := o.Protocol == RedisString || o.Protocol == MemcacheMeta
	bad(noQueue && (o.Operation == OpenClose || o.Wait > 0),
		"%v has neither reliable reads nor waits", o.Protocol)
	bad(o.Verify && o.ItemSize < stampSize,
		"ItemSize is %d, want at least %d to verify", o.ItemSize, stampSize)
	bad(o.Verify && o.Operation != Get && o.Queues < o.Connections,
		"%d queues for %d producers: Verify needs one each", o.Queues, o.Connections)
	return errors.Join(errs...)
}

// withDefaults returns o with the defaults in place of zeros.
func (o Options) withDefaults() Options {
	setDefault(&o.Connections, 1)
	setDefault(&o.Pipeline, 1)
	setDefault(&o.ItemSize, 64)
	setDefault(&o.Queue, "load")
	setDefault(&o.Queues, 1)
	setDefault(&o.Threads, 1)
	setDefault(&o.ReplyWait, 10*time.Second)
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// queueName returns the name of queue i.
func (o *Options) queueName(i int) string {
	if o.Queues == 1 {
		return o.Queue
	}
	return fmt.Sprintf("%s%d", o.Queue, i)
}
