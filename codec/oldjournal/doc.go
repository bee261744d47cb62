// Package oldjournal reads and writes the journal files of the original Kestrel, in all their
// versions. It reports what is in the queue that the files belong to.
//
// [Decode] and [Append] turn bytes into records and back. [Plan] finds, among the names in a
// directory, the queues and the order of their files. [Load] replays the files of one queue and
// says where in them its items lie. [Bodies] reads their data afterwards, so that a queue of any
// size is loaded. Nothing in this package writes a file or changes one.
//
// # Files of a queue
//
//	work               the file that records are appended to
//	work.1700000000000 an archived one; the number says in which order, and is a time in ms
//	work.170….pack     replaces all archived files of that number and lower ones
//	work~~170…         in the making; means nothing
//
// Archived files in ascending order and then the current one are one stream of records. The files
// of Starling hold OpAdd and OpRemove only.
//
// # Damage
//
// The files have no checksums. [Load] can only check whether a file consists of records up to its end. If it does not,
// there are two cases. The end of the last file may be torn, as after a crash of the machine or of the process: Load
// accepts and reports that. Otherwise something is missing in front of data that is still there, and Load returns a
// [*DamageError]. Its caller may ask it to salvage what it can, as the original did.
//
// All functions may be called from any goroutine; a value from one at a time.
package oldjournal
