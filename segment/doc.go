// Package segment stores an ordered log of checksummed frames in numbered files of one directory,
// and finds every frame again after a crash.
//
// # Vocabulary
//
// A frame is one batch of bytes handed to [Log.Append]; it is the unit of writing and of checking. A segment is a file
// of frames. The tail is the segment being written; sealing makes it immutable by a trailer frame; rotating seals it
// and goes on in the next one. A [Position] counts bytes from the start of the log's life over all segments. The
// watermark is the position up to which the log was known to be synced. Every frame records the watermark of the moment
// it was written, and so vouches for all that lies before it.
//
// # Guarantees
//
//   - Open hands the caller every frame whose Append had returned before a later Sync returned nil, in order, with its
//     exact bytes. It does so whatever happened in between: kill, power cut, torn or reordered writes, failed calls.
//   - After a plain kill of the process (the operating system lives) the same is true of every
//     frame whose Append had returned.
//   - What Open hands over is a prefix of what was appended, less what DropBefore took from the
//     front: no hole, no foreign byte, nothing twice. When Open returns, all of it is durable.
//   - Where something stored is missing or wrong and another frame vouches for it, that is damage:
//     Open returns a [*CorruptionError] and changes nothing. Where no frame does, it is a torn
//     tail, which a power cut leaves behind: Open copies it aside, cuts it, and reports it.
//
// A synced batch is vouched for as soon as a frame is written behind it. That is the next batch, a mark, or the
// trailer that Close writes.
//
// # Assumptions about disk and file system
//
// A sector of 512 bytes is written whole or not at all. The sectors of one write, and different writes, may reach the
// disk in any order until Datasync has returned. A Datasync that failed says nothing about any byte since the last one
// that succeeded, and a later one covers only what is written again. Names are durable after SyncDir. If SyncDir fails
// behind a drop, the next DropBefore changes the name once more and syncs that, before it drops another segment. Only a
// process that ends in between leaves the name in doubt. A power cut after its successor may then bring the segment
// back, and the log is refused if later ones are missing in between.
//
// # Invariants
//
//	S1  A segment is given its final name only after its header has been synced.
//	S2  A frame is written directly behind the frame before it, never behind a failed or short write:
//	    the next Append goes to the same offset again.
//	S3  A segment holds frames only if its predecessor is sealed, and its first frame, the link,
//	    names the predecessor's number, id, end and chain checksum.
//	S4  Sync syncs segments in order, so the watermark never covers a byte that is not durable.
//	S5  After a failed Datasync the log is poisoned: that file is neither synced nor written again.
//	    The next Open writes what no frame vouches for once more before it syncs it.
//	S6  Segments leave at the front only, one name and one directory sync at a time, so those that
//	    remain are always consecutive; and only when the link of the one that is then first is
//	    durable, so the first always says where it stands.
//	S7  A log is never continued in a segment that an earlier process wrote: recovery seals it and
//	    starts a new one, so that frames that were written but cut off cannot come back.
//	S8  A file is as long as its header says until a trailer is durable in it; only then is it cut.
//	S9  A mark stands behind a trailer only if the next segment has had its name for good before. So a log that
//	    ends behind such a mark has lost segments. The next process adds the mark if the last one could not.
//
// Lock order: dropMu, syncMu, mu, dirMu.
//
// # Runs
//
// A run ([RunWriter], [RunReader]) is a single file of tagged frames that are read again by their place, compressed
// or not. It is simpler than a log because another log says where it ends. The engine has backlogs in runs, and its
// journal says how far each is synced. What a run's frames hold is served only if their checksums are right; a bad
// one is a [*CorruptionError].
//
// The format is specified in docs/FORMAT.md.
package segment
