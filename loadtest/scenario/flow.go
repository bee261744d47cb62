package scenario

import (
	"errors"
	"fmt"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
)

// Flow is producers and consumers of some queues of a kind.
type Flow struct {
	Queue     string
	Queues    int
	Size      int // bytes
	Producers int // connections
	Consumers int // connections; 0 leaves the items in the queue
	Rate      float64
	Poisson   bool
	Pipeline  int           // requests in flight, of connections without a rate
	Wait      time.Duration // of gets; consumers without it ask again and again
	Reliable  bool          // gets are opened and confirmed
	Reconnect int           // batches after which connections are opened anew; 0: never
}

// Validate reports every problem of the options.
func (f Flow) Validate() error {
	var errs []error
	checkQueue(&errs, f.Queue)
	checkSize(&errs, f.Size)
	positive(&errs, "queues", int64(f.Queues))
	positive(&errs, "producers", int64(f.Producers))
	positive(&errs, "pipeline", int64(f.Pipeline))
	if f.Consumers < 0 {
		errs = append(errs, fmt.Errorf("consumers is %d, want at least 0", f.Consumers))
	}
	if f.Consumers > 0 && f.Consumers < f.Queues {
		errs = append(errs, fmt.Errorf("%d consumers for %d queues: every queue needs one", f.Consumers,
			f.Queues))
	}
	if f.Rate < 0 {
		errs = append(errs, fmt.Errorf("rate is %v, want at least 0", f.Rate))
	}
	return errors.Join(errs...)
}

// names returns the queues.
func (f Flow) names() []string {
	g := loadtest.Group{Queue: f.Queue, Queues: f.Queues}
	var names []string
	for i := range min(f.Queues, max(f.Producers, f.Consumers)) {
		names = append(names, g.QueueName(i))
	}
	return names
}

// groups returns the connections of the flow, which puts so long, or so many items, or both.
func (f Flow) groups(duration time.Duration, items int64) []loadtest.Group {
	put := loadtest.Group{
		Connections: f.Producers,
		Pipeline:    f.Pipeline,
		ItemSize:    f.Size,
		Queue:       f.Queue,
		Queues:      f.Queues,
		Operations:  items,
		Duration:    duration,
		Rate:        f.Rate,
		Poisson:     f.Poisson,
		Reconnect:   f.Reconnect,
	}
	if f.Consumers == 0 {
		return []loadtest.Group{put}
	}
	get := loadtest.Group{
		Operation:   loadtest.Get,
		Connections: f.Consumers,
		Pipeline:    f.Pipeline,
		ItemSize:    f.Size,
		Queue:       f.Queue,
		Queues:      f.Queues,
		Wait:        f.Wait,
		Drain:       true,
		Reconnect:   f.Reconnect,
	}
	if f.Wait > 0 {
		get.Pipeline = 1
	}
	if f.Reliable {
		get.Operation = loadtest.Consume
	}
	return []loadtest.Group{put, get}
}

// errNeedsLedger is the error of consumers without a ledger: they cannot know when they have everything.
var errNeedsLedger = errors.New("consumers need verification to know when every item has come")
