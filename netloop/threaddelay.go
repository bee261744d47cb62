package netloop

import "time"

// This file says how long a thread waited for a processor: a turn that takes long may only have waited.

// delayInterval is how old the figure may become that a long turn is compared with.
const delayInterval = 50 * time.Millisecond

// ownThread stands for the thread that asks.
const ownThread = 0

// threadDelay is how long a thread has been ready to run without a processor. The zero threadDelay is
// no thread's.
type threadDelay struct {
	thread int
	waited time.Duration
	known  bool // the kernel has reported waited
}

// since is how long the thread has waited since an earlier figure; zero if that is another thread's,
// for then nobody knows.
func (d threadDelay) since(earlier threadDelay) time.Duration {
	if !d.known || !earlier.known || d.thread != earlier.thread {
		return 0
	}
	return d.waited - earlier.waited
}
