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
	MaxConnections = 1 << 16 // of all groups
	MaxPipeline    = 1 << 12
	MaxItemSize    = 64 << 20  // bytes
	MaxRate        = 1e9       // per second
	maxBatchSize   = 256 << 20 // bytes of values in one batch
	MaxThreads     = 64
	maxQueueName   = 200 // bytes

	// MinVerifiedSize is the smallest item, in bytes, that says which one it is, as a Ledger needs.
	MinVerifiedSize = stampSize
)

// Options say what to send, over how many connections, and for how long. Zero means the default
// given, or none. The run as a whole is also bounded by Run's context.
type Options struct {
	Addr     string // host:port, TCP
	Protocol Protocol
	ClientID string  // who Thrift connections say they are; empty: plain connections
	Groups   []Group // at least one

	// Ledger, if set, has every put carry a value of its own and every item that is got checked
	// against what was put. It may serve several runs, one after the other. Without, all values are
	// alike and only their bytes are checked.
	Ledger *Ledger

	// Warmup is the time of the same load before the measured window.
	Warmup time.Duration

	// HeadStart is how long groups that only get have to begin to wait for items, before the others
	// start and the measured window begins.
	HeadStart time.Duration

	// ReplyWait is how long a batch may remain unanswered, from its write to its last reply, before
	// the run fails with ErrStalled; default 10 s. It is checked every tickInterval.
	ReplyWait time.Duration

	// DrainWait is how long consumers that are owed items may get none, once nothing more is put, before the run fails
	// with a *LostError. The default is 10 s, and more than any Wait.
	DrainWait time.Duration

	// ConnectWait is how long a connection is tried again while it is refused; default: once.
	ConnectWait time.Duration

	// Threads is the number of generator threads, default 1. CPUs, if not empty, pins thread i to
	// processor CPUs[i modulo len].
	Threads int
	CPUs    []int

	Seed uint64 // of everything random: arrivals, leaks, kills

	// OnInterval, if set, is called on Run's goroutine for each Interval of the measured window,
	// default 1 s, and for what remains at its end.
	Interval   time.Duration
	OnInterval func(Interval)

	// OnItem, if set, is called for each item that is got and counted in the Ledger. Its caller is a generator's
	// thread: with several Threads, several at once. Forgotten says that Lease will not confirm it.
	OnItem func(item Item, forgotten bool)

	// Begin and End, if set, are called on Run's goroutine when the measured window begins and when it has ended. No
	// request is outstanding then, but for gets that wait in vain, so this is the place to read a server's counters.
	Begin, End func()
}

// Group is a number of connections that do the same.
type Group struct {
	Operation   Operation
	Connections int    // default 1
	Pipeline    int    // requests in flight per connection, default 1
	Burst       int    // items of one request, where the operation has such requests; default 1
	ItemSize    int    // bytes of a value, default 64
	Queue       string // queue name, or its prefix when there are several; default "load"
	Queues      int    // default 1; connection i uses queue i modulo Queues

	// Fanout names queues that get everything put to Queue as well. It takes a Ledger and one
	// queue. FanoutOnly says that Queue itself keeps nothing.
	Fanout     []string
	FanoutOnly bool

	// Operations and Duration bound what the group sends in the measured window; the first one
	// reached ends it. Requests on the way then are still answered, counted and timed, and a
	// connection ends with the last request of its cycle. Operations are split evenly over the
	// connections. Unless Drain is set, one of the two is needed.
	Operations int64
	Duration   time.Duration

	// Hits makes Operations count items that were got: a miss is asked again.
	Hits bool

	// Drain ends the group when nothing more is put and the Ledger has seen everything that was.
	// Gets that still wait then are left unanswered.
	Drain bool

	// WarmupOperations bounds the group in the warm-up, like Operations.
	WarmupOperations int64

	// Rate opens the loop: so many requests a second are due, whatever the server does. A request's latency counts from
	// the time it was due. A request due while no connection of the group is free waits for one. Poisson makes the
	// times between them random.
	Rate    float64
	Poisson bool

	// Wait is how long gets and opens ask the server to wait for an item; zero does not wait. Whole
	// milliseconds.
	Wait time.Duration

	// AutoAbort is how long Lease keeps its reads open; default 5 s, whole milliseconds.
	AutoAbort time.Duration

	// Leak is the share of items that Lease does not confirm, and expects to see again.
	Leak float64

	// Kill is the chance that a connection is closed right after it sent a request.
	Kill float64

	// Reconnect is the number of batches after which a connection is closed and opened again; zero
	// keeps connections. The latency of a batch then includes the connect before it. Connections to
	// the loopback come from many of its addresses, as one would run out of ports.
	Reconnect int
}

// Validate reports every problem of the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	c := checker{}
	c.bad(o.Addr == "", "Addr is empty")
	c.bad(o.Protocol >= numProtocols, "unknown %v", o.Protocol)
	c.bad(len(o.Groups) == 0, "no Groups")
	c.within("Threads", o.Threads, 1, MaxThreads)
	c.bad(o.Warmup < 0 || o.HeadStart < 0 || o.ReplyWait < 0 || o.DrainWait < 0 || o.ConnectWait < 0 || o.Interval < 0,
		"Warmup, HeadStart, ReplyWait, DrainWait, ConnectWait or Interval is negative")
	connections := 0
	for i := range o.Groups {
		c.group = fmt.Sprintf("group %d: ", i)
		o.Groups[i].validate(&c, &o)
		connections += o.Groups[i].Connections
	}
	c.group = ""
	c.bad(connections > MaxConnections, "%d connections, want at most %d", connections, MaxConnections)
	return errors.Join(c.errs...)
}

// checker gathers problems.
type checker struct {
	group string // before each problem
	errs  []error
}

func (c *checker) bad(wrong bool, format string, args ...any) {
	if wrong {
		c.errs = append(c.errs, fmt.Errorf(c.group+format, args...))
	}
}

func (c *checker) within(name string, n, low, high int) {
	c.bad(n < low || n > high, "%s is %d, want %d to %d", name, n, low, high)
}

// validate reports the problems of a group, whose defaults are in place.
func (g *Group) validate(c *checker, o *Options) {
	c.bad(g.Operation >= numOperations, "unknown %v", g.Operation)
	c.within("Connections", g.Connections, 1, MaxConnections)
	c.within("Pipeline", g.Pipeline, 1, MaxPipeline)
	c.within("Burst", g.Burst, 1, MaxPipeline)
	c.within("ItemSize", g.ItemSize, 1, MaxItemSize)
	c.bad(g.ItemSize > 0 && g.Pipeline > 0 && g.Burst > maxBatchSize/g.ItemSize/g.Pipeline,
		"a batch of %d values of %d bytes exceeds %d bytes", g.Pipeline*g.Burst, g.ItemSize, maxBatchSize)
	c.within("Queues", g.Queues, 1, MaxConnections)
	c.within("Reconnect", g.Reconnect, 0, math.MaxInt)
	for _, name := range append([]string{g.Queue}, g.Fanout...) {
		if why := CheckQueueName(name); why != nil {
			c.bad(true, "Queue %.300q %w", name, why)
		}
	}
	c.bad(g.Operations < 0 || g.Duration < 0, "Operations or Duration is negative")
	c.bad(g.Operations == 0 && g.Duration == 0 && !g.Drain,
		"neither Operations nor Duration bounds the run")
	c.bad(g.WarmupOperations < 0, "WarmupOperations is negative")
	c.bad(g.Wait < 0 || g.AutoAbort < 0, "Wait or AutoAbort is negative")
	c.bad(g.Wait%time.Millisecond != 0 || g.AutoAbort%time.Millisecond != 0,
		"Wait is %v and AutoAbort %v, want whole milliseconds", g.Wait, g.AutoAbort)
	c.bad(g.Wait >= o.ReplyWait, "Wait %v is not below ReplyWait %v", g.Wait, o.ReplyWait)
	c.bad(!(g.Rate >= 0 && g.Rate <= MaxRate), "Rate is %v, want 0 to %v", g.Rate, float64(MaxRate))
	c.bad(!(g.Leak >= 0 && g.Leak < 1 && g.Kill >= 0 && g.Kill < 1),
		"Leak is %v and Kill %v, want 0 to less than 1", g.Leak, g.Kill)
	g.validateFit(c, o)
}

// validateFit reports what of a group does not go together.
func (g *Group) validateFit(c *checker, o *Options) {
	if g.Operation < numOperations && o.Protocol < numProtocols {
		c.bad(!o.Protocol.can(g.Operation), "%v cannot do %v", o.Protocol, g.Operation)
		c.bad(g.Wait > 0 && !o.Protocol.can(OpenClose) && !o.Protocol.can(CloseOpen),
			"%v has no waits", o.Protocol)
		c.bad(g.Burst > 1 && o.Protocol != Thrift && g.Operation.first() == putRequest,
			"%v has no put of several items", o.Protocol)
	}
	verify := o.Ledger != nil
	c.bad(!verify && (g.Drain || g.Leak > 0 || g.Kill > 0 || len(g.Fanout) > 0),
		"Drain, Leak, Kill and Fanout need a Ledger")
	c.bad(len(g.Fanout) > 0 && g.Queues > 1, "Fanout with %d queues", g.Queues)
	c.bad(verify && g.ItemSize < stampSize,
		"ItemSize is %d, want at least %d to verify", g.ItemSize, stampSize)
	c.bad(g.Leak > 0 && g.Operation != Lease, "Leak without Lease")
	c.bad(g.Kill > 0 && g.Operation != CloseOpen, "Kill with %v", g.Operation)
	if g.Operation < numOperations && o.Protocol < numProtocols {
		c.bad(o.HeadStart > 0 && g.Rate > 0 && !g.Operation.Puts(), "Rate of gets with HeadStart")
		c.bad(g.Rate > 0 && g.Pipeline > 1 && len(g.Operation.cycle()) > 1,
			"Rate with several requests in flight of %v", g.Operation)
		greets, ok := newProtocol(o, g).(greeter)
		c.bad(ok && (g.Reconnect > 0 || g.Kill > 0) && len(greets.appendGreeting(nil, "", 0, g)) > 0,
			"Reconnect with a protocol whose connections begin with an exchange")
	}
}

// CheckQueueName returns why a name cannot be sent, as in "is empty". The server may want more of it.
func CheckQueueName(name string) error {
	switch {
	case name == "":
		return errors.New("is empty")
	case len(name) > maxQueueName:
		return fmt.Errorf("is longer than %d bytes", maxQueueName)
	case strings.ContainsAny(name, " \r\n\x00/"):
		return errors.New("has a space, a slash, or a line end, which no name can have")
	}
	return nil
}

// withDefaults returns o with the defaults in place of zeros; the groups are copies.
func (o Options) withDefaults() Options {
	setDefault(&o.Threads, 1)
	setDefault(&o.ReplyWait, 10*time.Second)
	setDefault(&o.DrainWait, 10*time.Second)
	setDefault(&o.Interval, time.Second)
	o.Groups = append([]Group(nil), o.Groups...)
	for i := range o.Groups {
		g := &o.Groups[i]
		setDefault(&g.Connections, 1)
		setDefault(&g.Pipeline, 1)
		setDefault(&g.Burst, 1)
		setDefault(&g.ItemSize, 64)
		setDefault(&g.Queue, "load")
		setDefault(&g.Queues, 1)
		setDefault(&g.AutoAbort, 5*time.Second)
		o.DrainWait = max(o.DrainWait, 2*g.Wait)
		if g.Leak > 0 {
			o.DrainWait = max(o.DrainWait, 2*g.AutoAbort)
		}
	}
	return o
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// QueueName returns the name of queue i of the group.
func (g *Group) QueueName(i int) string {
	if g.Queues <= 1 {
		return g.Queue
	}
	return fmt.Sprintf("%s%d", g.Queue, i)
}
