package cli

import "fmt"

// Exit codes. A process that a second signal ends has 128 plus the number of the signal.
const (
	ExitOK     = 0
	ExitFailed = 1 // the server could not start, or not stop cleanly
	ExitUsage  = 2 // the command line or the configuration is wrong; nothing was started
	ExitTorn   = 3 // of `journal verify` and `repair`: the journal is torn at its end
	ExitDamage = 4 // of `journal verify`, `repair` and `inspect`: the journal is damaged

	// Of the commands that are clients.
	ExitEmpty   = 5 // there was no item
	ExitRefused = 6 // a queue refused an item
	ExitUnknown = 7 // it is not known whether something was done
	ExitItems   = 8 // commands of `get --exec` failed
)

// Failure is why a command could not do what it was asked for, and what to do, in one line.
type Failure struct {
	Code int // to exit with
	Text string
}

func (f *Failure) Error() string { return f.Text }

// Failed returns a failure with [ExitFailed]. The text is formatted as by fmt.Sprintf.
func Failed(format string, args ...any) *Failure {
	return &Failure{ExitFailed, fmt.Sprintf(format, args...)}
}
