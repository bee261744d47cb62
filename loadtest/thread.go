package loadtest

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// tickInterval is how often a thread looks at what no event reports: the stop flag and stalls.
	tickInterval = 20 * time.Millisecond

	readBufferSize = 64 << 10 // bytes
	maxEvents      = 256      // per turn

	// unbounded stands for a bound of a window that is not given.
	unbounded = math.MaxInt64
)

// window bounds one span of load on one thread.
type window struct {
	operations int64         // to send, split over the threads
	end        time.Duration // since the start of the run, after which no batch is sent
}

// thread drives some of the connections from one operating system thread.
type thread struct {
	// Immutable.
	plan   *plan
	target *target
	start  time.Time    // the run's
	stop   *atomic.Bool // set when the run is cancelled or another thread failed
	cpu    int          // to run on; negative means any
	hold   bool         // see epollWait

	// Owned by the thread's goroutine.
	epoll       int
	conns       []conn
	events      []unix.EpollEvent
	buf         []byte
	tally       *tally
	left        int64 // operations to send in this window
	end         time.Duration
	outstanding int // connections with a batch in flight
	napper      napper
}

// serve connects, then drives one window for each that it receives, and answers every one.
// It never unlocks its operating system thread, which therefore ends with it, pinned or not.
func (t *thread) serve(windows <-chan window, results chan<- threadResult) {
	runtime.LockOSThread()
	err := t.open()
	defer t.close()
	results <- threadResult{err: err}
	for w := range windows {
		t.tally = &tally{latency: newHistogram()}
		before := cpuTime(unix.CLOCK_THREAD_CPUTIME_ID)
		if err = t.drive(w); err != nil {
			t.tally.errors++
		}
		t.tally.cpu = cpuTime(unix.CLOCK_THREAD_CPUTIME_ID) - before
		results <- threadResult{tally: t.tally, err: err}
	}
}

// threadResult is a thread's answer to a window, or, without a tally, that it has connected.
type threadResult struct {
	tally *tally
	err   error
}

// open pins the thread and connects, one connection after the other, so that no listener's backlog
// overflows.
func (t *thread) open() error {
	t.epoll = -1
	for i := range t.conns {
		t.conns[i].fd = -1
	}
	if t.cpu >= 0 {
		if err := pinThread(t.cpu); err != nil {
			return fmt.Errorf("pin to processor %d: %w", t.cpu, err)
		}
	}
	var err error
	if t.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if err := setTimerSlack(); err != nil {
		return err
	}
	t.events = make([]unix.EpollEvent, maxEvents)
	t.buf = make([]byte, readBufferSize)
	for i := range t.conns {
		if t.stop.Load() {
			return errStopped
		}
		if err := t.connect(i); err != nil {
			return fmt.Errorf("connection %d: %w", t.conns[i].index, err)
		}
		if err := awaitConnect(t.conns[i].fd, t.plan.opts.ReplyWait); err != nil {
			return fmt.Errorf("connection %d: %w", t.conns[i].index, err)
		}
	}
	return nil
}

// connect starts to connect conns[i]. Events are edge-triggered: a connection is reported once per
// arrival, and writability costs nothing unless a write was cut short.
func (t *thread) connect(i int) error {
	fd, err := t.target.connect()
	if err != nil {
		return err
	}
	t.conns[i].fd, t.conns[i].batches = fd, 0
	err = unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET,
		Fd:     int32(i), // user data: not the descriptor, which may be reused
	})
	return os.NewSyscallError("epoll_ctl", err)
}

// close closes everything open has opened.
func (t *thread) close() {
	for i := range t.conns {
		if t.conns[i].fd >= 0 {
			unix.Close(t.conns[i].fd)
		}
	}
	if t.epoll >= 0 {
		unix.Close(t.epoll)
	}
}
