package netloop

import (
	"sync/atomic"
	"time"
)

// logInterval is how long refusals of one kind are not logged again.
const logInterval = time.Second

// logPace counts refusals of a kind, and lets one line about them into the log a second, whichever loop has it. Any
// goroutine may use it.
type logPace struct {
	refused atomic.Int64
	last    atomic.Int64 // moment of the last line; zero: there was none
}

// due counts a refusal, and returns how many there were. It reports whether a line may be logged now; if so, it is taken
// to be logged.
func (p *logPace) due(now moment) (refused int64, ok bool) {
	refused = p.refused.Add(1)
	last := moment(p.last.Load())
	if last != 0 && now-last < moment(logInterval.Milliseconds()) {
		return refused, false
	}
	return refused, p.last.CompareAndSwap(int64(last), int64(now))
}

// refusalPaces bound the log lines of a server about what it refuses, by kind. Nobody may fill the log with them.
type refusalPaces struct {
	denied  logPace // a right
	failed  logPace // an attempt to authenticate
	account logPace // the quota of an account
	quota   logPace // the quota of a user
	ahead   logPace // what is sent too far ahead
	gaveWay logPace // requests that gave way to others
	foreign logPace // what is no Thrift call
	other   [refusalReasons]logPace
}
