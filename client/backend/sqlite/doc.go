// Package sqlite keeps messages in one file, in a database that SQLite reads. It suits programs that look into their
// queues with SQL, or that have a few messages and no server.
//
// The table is messages, one row for each:
//
//	place    the order in a queue; it never changes and is never used twice
//	account, queue, id, body
//	expires  milliseconds since 1970; 0 is never
//	shows    the same: until then the message is hidden
//
// Other programs may read the table, and write to it: a message that they add is seen within a second. A
// row that has expired counts for nothing, and leaves half a minute later at the latest.
//
// Every change is one transaction, synced before the method returns. A store makes them one after the other, so it is
// far slower than an engine. It makes some hundreds a second on a disk, where an engine makes one sync for all that
// wait.
package sqlite
