package main

import (
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// requests is what the server is asked to do from outside: by signals, and by clients.
type requests struct {
	reload chan struct{} // holds one request at most
	stop   chan struct{} // closed by the first request to stop

	once   sync.Once
	reason string // for stopping; written before stop is closed
}

// watchSignals returns what signals ask for until done is closed: SIGHUP to reload, SIGTERM and
// SIGINT to stop. A second signal to stop ends the process at once. SIGPIPE is ignored: a
// server outlives the program that reads its log. Go ends a process that writes to a broken pipe on standard error.
func watchSignals(log *slog.Logger, done <-chan struct{}) *requests {
	signal.Ignore(syscall.SIGPIPE)
	r := &requests{reload: make(chan struct{}, 1), stop: make(chan struct{})}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				r.signal(log, s.(syscall.Signal))
			}
		}
	}()
	return r
}

func (r *requests) signal(log *slog.Logger, s syscall.Signal) {
	if s == syscall.SIGHUP {
		select {
		case r.reload <- struct{}{}:
		default: // one that has not begun sees the same file
		}
		return
	}
	if !r.requestStop(unix.SignalName(s)) {
		log.Warn("second request to stop: exiting at once", "signal", unix.SignalName(s))
		os.Exit(128 + int(s))
	}
}

// requestStop asks the server to stop and reports whether it is the first to do so.
func (r *requests) requestStop(reason string) (first bool) {
	r.once.Do(func() {
		first, r.reason = true, reason
		close(r.stop)
	})
	return first
}
