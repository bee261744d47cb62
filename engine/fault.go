package engine

import "fmt"

// A Fault is what the engine panics with when it finds a fault of its own, or runs into one while a
// caller's [Receiver] is being called. Its queues may be half changed then, and its locks held: the
// process must end. The journal makes that safe.
type Fault struct {
	Cause any // what the panic was about
}

func (f *Fault) Error() string { return fmt.Sprint("engine: ", f.Cause) }

// contain, deferred first, turns a panic into a *Fault. Every operation that locks or changes anything
// defers it, so that a caller that recovers can distinguish the engine's faults from its own.
func contain() {
	switch cause := recover().(type) {
	case nil:
	case *Fault:
		panic(cause) // of an operation inside this one
	default:
		panic(&Fault{cause})
	}
}

// invariant words a broken invariant for the panic that ends the process.
func invariant(format string, args ...any) string {
	return "engine: broken invariant: " + fmt.Sprintf(format, args...)
}
