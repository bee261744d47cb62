// Package record is the bytes of the journal's records, both ways: appenders write one, [Parse] reads
// one. It knows queues by number only. docs/FORMAT.md specifies the same for readers elsewhere.
package record
