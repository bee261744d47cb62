package main

import (
	"strings"
)

// deadLetters is the name of the queue that takes what a queue gives up.
func (l *ledger) deadLetters(queue string) string {
	if name := l.set.For(queue).DeadLetterQueue; name != "" {
		return name
	}
	parent, child, isChild := strings.Cut(queue, "+")
	switch {
	case strings.HasSuffix(parent, "_dead"):
		return ""
	case isChild:
		return parent + "_dead+" + child
	}
	return parent + "_dead"
}

// mayBeDead reports whether an item may have gone to the dead-letter queue, if at most so many deliveries of its queue
// wait for their reply. The caller holds mu.
func (l *ledger) mayBeDead(e *entry, waiting int) bool {
	most := l.set.For(e.queue).MaxDeliveries
	return e.rejected || e.buried || most > 0 && l.mostDeliveries(e, waiting) >= most
}

// mostDeliveries is how often an item has been delivered at most.
func (l *ledger) mostDeliveries(e *entry, waiting int) int64 {
	return e.high + int64(waiting+1) + l.unheard[e.queue]
}

// judgeDead notes that an item of another queue was found in its dead-letter queue. The caller holds mu.
func (l *ledger) judgeDead(e *entry, queue string) {
	if l.set.For(e.queue).ExpireTo == queue || l.deadLetters(e.queue) != queue {
		return
	}
	waiting := l.leasing[e.queue] // the lease may be over before the reply, which waits for the disk
	if !l.mayBeDead(e, waiting) {
		l.violate("dead letter", "%v is in %s after %d deliveries at most", e, queue, l.mostDeliveries(e, waiting))
	}
	e.buried = true
}

// deadLetterQueue is the one dead-letter queue that clients know.
const deadLetterQueue = "work_dead"
