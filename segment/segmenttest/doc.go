// Package segmenttest has [FS], a segment.FS in memory for crash tests. It models a disk, the page
// cache above it and the directories' metadata, strictly enough that a missing Datasync or SyncDir
// shows after a crash.
//
// # The two states
//
// Every file and every directory has a current state, which calls see, and a durable one, which a power cut leaves.
// What lies between is kept as a list, in order. Of a file it has each write, Allocate and Truncate since the last
// Datasync that returned nil. Of a directory it has each name made, renamed or removed since the last such SyncDir.
//
//   - Datasync makes the bytes and the length of the file durable through whatever handle they were
//     written, and not its name. A file without a durable name is gone after a power cut.
//   - SyncDir makes the names in one directory durable, neither the bytes behind them nor the names
//     in other directories. A name removed or renamed without SyncDir may come back.
//   - MkdirAll makes the directories it adds durable. It syncs each parent it added a name to,
//     which like SyncDir makes that parent's other names durable too.
//   - Rename within a directory is atomic: one of its two states survives, never neither. A rename
//     between directories is atomic until one of them is synced. From then on each name keeps to
//     its own directory's rule. If only the new name was synced, the file may also be back under the
//     old one. If only the old one's removal was synced, the file may be gone.
//
// # Crashes
//
// [FS.Kill] is the death of the process: everything written is still there, and what was not synced is still not
// synced. [FS.PowerCut] is the death of the machine. The new FS has what was durable and, as [CutOptions] says,
// nothing, all or a random part of the rest. Both make a new FS and leave the old one as it was, so any number of
// images can be made from one state. An image has no open files, no faults, no limit, and counts from zero.
//
// # Failed syncs
//
// When Datasync fails, the kernel may report the error once, drop the dirty flags, and answer the next call with
// success having written nothing. It is the same here. The changes that a failed Datasync covered stay readable, and
// any part of them may survive a power cut. No later Datasync makes them durable. Only bytes written again are
// covered by the next. A failed SyncDir does the same to the names that were not yet durable. They become durable
// only when the program changes one of them again and syncs that, which takes along the operations it builds on.
//
// # Assumed of the disk
//
//   - A sector of 512 bytes is written whole or not at all, and is independent of its neighbours.
//   - Bytes of a sector that were durable survive a torn write to other bytes of that sector.
//   - Unsynced writes survive or not independently, whatever their order and even inside one
//     sector. A real page cache is milder: within a sector a later write carries the earlier
//     ones.
//   - The length of a file may survive without the bytes; these read as zero. Never does a file
//     show another file's bytes or its own from before a Truncate that survived.
//   - Metadata operations survive in order, as on a journaling file system. What survives is a prefix of those in each
//     directory, and of the Allocate and Truncate calls of each file. CutOptions.ReorderMetadata takes that away.
//
// # Not modelled
//
// Bit rot and lost sectors happen only where a test asks for them (FlipBit, TruncateFile). Not modelled are a disk that
// lies about a flush, writes in the wrong place, and garbage in a half-written sector. Nor is a write to one file that
// damages another. Nor are hard links (but for the half-synced rename above), symbolic links, permissions, times,
// memory maps, and rename of a directory to another parent. A call is one step: no crash falls inside MkdirAll or
// Rename. A file takes up its length on the disk; sparse files save nothing and names cost nothing.
package segmenttest
