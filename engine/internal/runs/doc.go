// Package runs writes chunks of a queue to runs, files with a part of its backlog, and reads them back by the ids
// of items.
//
// A [Batcher] writes: a frame for each chunk, with a [Tag] that says what is in it. A [Reader] finds frames,
// checks them, and counts what of a run lives. A [State] is how much of a queue is in a run. The runs of a queue, in the
// order of their ids, are a chain, and a [Cursor] is a place in one. A walk through a chain in pieces keeps the frame
// that it read last in a [Page]. A [Dir] has all runs of an engine, numbers new ones, and knows which names a power cut
// may lose. Package segment has the bytes of the files; which runs a queue has is the engine's.
package runs
