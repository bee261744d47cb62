package main

import (
	"encoding/json"
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// event is what a worker reports to its parent, a line of JSON each: which seed begins, what came of it, or
// what it logs.
type event struct {
	Begin  uint64  `json:",omitempty"`
	Report *report `json:",omitempty"`
	Log    string  `json:",omitempty"`
}

// report is what a script has come to.
type report struct {
	Seed     uint64
	Problems []problem
	Figures  Figures
}

// events is the descriptor that a worker writes events to: in fake time, the runtime frames what goes to
// the others.
const events = 3

func tell(e event) {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	for b = append(b, '\n'); len(b) > 0; {
		n, err := unix.Write(events, b)
		if err != nil {
			os.Exit(1) // the parent is gone
		}
		b = b[n:]
	}
}

// logEvents is an io.Writer of logs.
type logEvents struct{}

func (logEvents) Write(p []byte) (int, error) {
	tell(event{Log: string(p)})
	return len(p), nil
}

// realTime is the time outside.
func realTime() time.Duration {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return time.Duration(t.Nano())
}

// worker simulates, in fake time: it passes when nothing else can go on.
func worker() {
	var o options
	o.register()
	flag.Parse()
	runtime.GOMAXPROCS(1)
	// The collector would come between goroutines at times that no seed decides.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(workerMemory)
	end := realTime() + o.limit
	for i := 0; i < o.n && (o.n == 1 || realTime() < end); i++ {
		s, err := o.load(uint64(i))
		if err != nil {
			tell(event{Log: err.Error()})
			os.Exit(2)
		}
		tell(event{Begin: s.Seed})
		problems, figures := simulate(s, o.laws(), o.trace)
		tell(event{Report: &report{s.Seed, problems, figures}})
	}
}

// workerMemory is how many bytes of memory a worker takes before it collects garbage.
const workerMemory = 700 << 20
