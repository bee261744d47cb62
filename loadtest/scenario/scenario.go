package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/loadtest"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// Scenario is a load test with its options.
type Scenario interface {
	// Name is what the scenario is called on the command line.
	Name() string

	// Validate reports every problem of the options that package loadtest would not.
	Validate() error

	// queues returns the queues that are used.
	queues() []string

	// run runs the scenario. What it reports is the first failure.
	run(ctx context.Context, e *Env) error
}

// Env is where and how a scenario runs. Zero means the default given, or none.
type Env struct {
	Server   string // host:port
	Protocol loadtest.Protocol
	Control  string // host:port of a memcache port for flushing and statistics; empty: Server
	PID      int    // of the server, if its processor time and memory can be read
	ClientID string // sent by Thrift connections

	Out      io.Writer      // what the scenario prints; default none
	Progress func(Progress) // called at the end of each interval
	Monitor  bool           // print the state of the queues at the end of each interval
	Interval time.Duration  // default 1 s
	Log      *figures.Log   // gets every interval's histograms
	Figures  *figures.Run   // filled by Run; its options, label, versions and machine are the caller's

	Seed    uint64
	Threads int
	CPUs    []int
	Verify  bool          // every item is stamped and checked
	Flush   bool          // empty the queues first; otherwise one that is not empty is an error
	NoFlush bool          // leave in the queues what is there; items of other runs are passed over
	Timeout time.Duration // of the whole scenario

	DialWait time.Duration                       // for a server that is not there yet; default 10 s
	Waits    func(why error, most time.Duration) // called once, when that begins; default none

	// Set by Run.
	ledger  *loadtest.Ledger
	control *control
	began   time.Time
}

// Progress is the state of a phase.
type Progress struct {
	Phase     string
	Elapsed   time.Duration // of the phase
	Rate      float64       // requests a second in the last interval
	P99       time.Duration // of the last interval
	Depth     int64         // items in the queues; -1 if not known
	Remaining time.Duration // -1 if not known
}

// Run runs a scenario and checks that everything that it put was delivered, if it was to be. The
// error is the first failure; it is also in the figures, which holds what was measured until then.
func Run(ctx context.Context, e *Env, s Scenario) (err error) {
	if e.Out == nil {
		e.Out = io.Discard
	}
	if e.Interval == 0 {
		e.Interval = time.Second
	}
	if e.Timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, e.Timeout,
			fmt.Errorf("the scenario did not end within %v", e.Timeout))
		defer cancel()
		ctx = limited
	}
	e.began = time.Now()
	r := e.Figures
	r.Format, r.Scenario, r.Started, r.Seed = figures.Format, s.Name(), e.began, e.Seed
	r.Server.Address, r.Server.Protocol, r.Server.PID = e.Server, e.Protocol.String(), e.PID
	defer func() {
		if cause := context.Cause(ctx); cause != nil && (errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed)) {
			err = cause // a signal, for example: what it ended says nothing more
		} else if err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		if err != nil {
			r.Failure = err.Error()
		}
	}()
	if err := s.Validate(); err != nil {
		return err
	}
	defer func() {
		if e.control != nil { // also if begin has failed behind it
			e.control.close()
			e.control = nil
		}
	}()
	if err := e.begin(ctx, s); err != nil {
		return err
	}
	err = s.run(ctx, e)
	e.count(err)
	return err
}

// begin prepares what the phases share, and the queues.
func (e *Env) begin(ctx context.Context, s Scenario) error {
	if e.Verify {
		e.ledger = loadtest.NewLedger(e.Seed, e.NoFlush)
	}
	if e.PID > 0 {
		cpus, err := spawn.Processors(e.PID)
		if err != nil {
			return err
		}
		e.Figures.Server.Processors = len(cpus)
	}
	addr, protocol := e.Server, e.Protocol
	if e.Control != "" {
		addr, protocol = e.Control, loadtest.Memcache
	}
	c, err := e.dial(ctx, addr, protocol)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	e.control = c
	if e.Figures.Versions.Server, err = c.version(); err != nil {
		return fmt.Errorf("ask %s for its version: %w", addr, err)
	}
	if e.NoFlush {
		return nil
	}
	if !e.Flush {
		return e.expectEmpty(s.queues())
	}
	fmt.Fprintln(e.Out, "Flushing queues first.")
	for _, queue := range s.queues() {
		if err := c.flush(queue); err != nil {
			return fmt.Errorf("flush %q: %w", queue, err)
		}
	}
	return nil
}

// A NotEmptyError says that a queue of the scenario holds items, which may be somebody's.
type NotEmptyError struct {
	Queue string
	Depth int64
}

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("queue %q holds %d items, and nothing was done to it: choose other queues, "+
		"or say --flush to destroy the items, or --no-flush to leave them where they are", e.Queue, e.Depth)
}

// expectEmpty returns a *NotEmptyError if a queue holds items. A queue that the server has no
// statistics of counts as empty.
func (e *Env) expectEmpty(queues []string) error {
	for _, queue := range queues {
		depth, err := e.control.depth(queue)
		if err != nil {
			return fmt.Errorf("ask for the depth of %q: %w", queue, err)
		}
		if depth > 0 {
			return &NotEmptyError{queue, depth}
		}
	}
	return nil
}

// count notes what the ledger has seen, at the end with the given error.
func (e *Env) count(err error) {
	if e.ledger == nil || e.Figures.Checked.Verified {
		return
	}
	c := e.ledger.Counts()
	e.Figures.Checked = figures.Checked{
		Verified:    true,
		Put:         c.Put,
		Got:         c.Got,
		Left:        c.Owed,
		Redelivered: c.Redelivered,
		Foreign:     c.Foreign,
	}
	var lost *loadtest.LostError
	if errors.As(err, &lost) {
		e.Figures.Checked.Lost = lost.Lost
	}
}

// allGot returns an error if an item is missing that was put.
func (e *Env) allGot() error {
	if e.ledger == nil {
		return nil
	}
	return e.ledger.Check()
}

// printf prints a line of the scenario's output.
func (e *Env) printf(format string, args ...any) { fmt.Fprintf(e.Out, format+"\n", args...) }

// note adds a doubt about the figures to the figures.
func (e *Env) note(format string, args ...any) {
	e.Figures.Notes = append(e.Figures.Notes, fmt.Sprintf(format, args...))
}

// checkQueue gathers what is wrong with the name of a queue.
func checkQueue(errs *[]error, name string) {
	why := loadtest.CheckQueueName(name)
	if why == nil && strings.ContainsAny(name, ".~") {
		why = errors.New("has a . or ~, which no Kestrel takes")
	}
	if why != nil {
		*errs = append(*errs, fmt.Errorf("queue name %.300q %w", name, why))
	}
}

// checkSize gathers a size of items that cannot be.
func checkSize(errs *[]error, size int) {
	if size < 1 || size > loadtest.MaxItemSize {
		*errs = append(*errs, fmt.Errorf("an item of %d bytes, want 1 to %d", size, loadtest.MaxItemSize))
	}
}

// positive gathers the options that are not at least 1.
func positive(errs *[]error, name string, n int64) {
	if n < 1 {
		*errs = append(*errs, fmt.Errorf("%s is %d, want at least 1", name, n))
	}
}
