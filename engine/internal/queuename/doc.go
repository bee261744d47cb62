// Package queuename knows which names queues may have, and what a name says: its parent, its dead-letter queue.
package queuename
