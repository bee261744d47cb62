package loadtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tickInterval is how often a thread looks at what no event reports: the stop flag, stalls, the
	// end of an interval.
	tickInterval = 20 * time.Millisecond

	readBufferSize = 64 << 10 // bytes

	holdInterval = time.Millisecond // between looks at the clock while connections are held

	connectPause = 20 * time.Millisecond // before another attempt
)

// window bounds one span of load.
type window struct {
	warm      bool
	headStart bool            // connections that put wait to be released
	lengths   []time.Duration // by group: how long batches are sent; 0: unbounded
}

// thread drives some of the connections from one operating system thread.
type thread struct {
	// Immutable.
	index   int
	run     *runner
	target  *target
	cpu     int  // to run on; negative means any
	hold    bool // see eventSet
	napping bool // see napper

	// Owned by the thread's goroutine.
	events      eventSet
	conns       []conn
	buf         []byte
	random      *rand.Rand
	pacers      []pacer
	window      window
	begin       time.Duration   // of the window, since the start of the run
	ends        []time.Duration // by group: when it ends
	tally       *tally
	active      int           // connections that are not done with the window
	outstanding int           // connections with a batch in flight
	hungry      int           // active connections that get what others put
	held        bool          // connections that put wait for the window to begin
	cpuBefore   time.Duration // of the thread, when the window began
	interval    int           // index of the current one
	progress    int64         // items the ledger had seen
	progressAt  time.Duration // when that last changed
	retries     int64
	napper      napper
}

// serve connects, then drives one window for each that it receives, and answers every one.
// It never unlocks its operating system thread, which therefore ends with it, pinned or not.
func (t *thread) serve(windows <-chan window) {
	runtime.LockOSThread()
	err := t.open()
	defer t.close()
	t.run.reports <- report{thread: t.index, final: true, retries: t.retries, err: err}
	for t.window = range windows {
		t.tally = t.run.newTally(t)
		t.cpuBefore = cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		if err = t.drive(); err != nil {
			t.tally.errors++
		}
		t.tally.cpu = cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) - t.cpuBefore
		t.run.reports <- report{thread: t.index, final: true, tally: t.tally, err: err}
	}
}

// open pins the thread and connects, one connection after the other, so that no listener's backlog
// overflows.
func (t *thread) open() error {
	for i := range t.conns {
		t.conns[i].fd = -1
	}
	if t.cpu >= 0 {
		if err := pinThread(t.cpu); err != nil {
			return fmt.Errorf("pin to processor %d: %w", t.cpu, err)
		}
	}
	if err := t.events.open(); err != nil {
		return err
	}
	if err := setTimerSlack(); err != nil {
		return err
	}
	if len(t.pacers) > 0 {
		hurry()
	}
	t.buf = make([]byte, readBufferSize)
	for i := range t.conns {
		if err := t.connectFirst(i); err != nil {
			return fmt.Errorf("%v connection %d: %w", t.conns[i].group.Operation, t.conns[i].index, err)
		}
	}
	return nil
}

// connectFirst connects conns[i] and waits for that, and tries again while it is refused.
func (t *thread) connectFirst(i int) error {
	o := &t.run.opts
	for deadline := t.now() + o.ConnectWait; ; t.retries++ {
		if t.run.stop.Load() {
			return errStopped
		}
		err := t.connect(i)
		if err == nil {
			if err = awaitConnect(t.conns[i].fd, o.ReplyWait); err == nil {
				return t.greet(&t.conns[i])
			}
			unix.Close(t.conns[i].fd)
			t.conns[i].fd = -1
		}
		refused := errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EAGAIN)
		if !refused || t.now() >= deadline {
			return err
		}
		nap(connectPause)
	}
}

// connect starts to connect conns[i].
func (t *thread) connect(i int) error {
	fd, err := t.target.connect()
	if err != nil {
		return err
	}
	t.conns[i].fd, t.conns[i].batches = fd, 0
	return t.events.add(fd, i)
}

// reconnect closes conns[i] and starts to connect it again.
func (t *thread) reconnect(i int) error {
	c := &t.conns[i]
	unix.Close(c.fd)
	c.fd = -1
	c.open.reset()
	if err := t.connect(i); err != nil {
		return fmt.Errorf("%v connection %d: %w", c.group.Operation, c.index, err)
	}
	return nil
}

// close closes everything open has opened.
func (t *thread) close() {
	for i := range t.conns {
		if t.conns[i].fd >= 0 {
			unix.Close(t.conns[i].fd)
		}
	}
	t.events.close()
}
