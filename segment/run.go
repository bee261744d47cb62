package segment

import (
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/zeebo/xxh3"
)

// A run is one file of frames, which a reader finds by their offsets. Unlike a log it does not say
// where it ends, or how much of it is durable. Its writer records that elsewhere once Sync has
// returned. Bytes behind that end mean nothing.
//
// Run header layout. Integers are little-endian.
//
//	offset  size  field
//	0       8     magic "KESTRRUN"
//	8       4     format version, 3, plus flags: 1 frames may have wide padding, 2 the run is extended,
//	              4 so it is, and frames have keys
//	12      4     zero
//	16      8     run number, from 1
//	24      8     run id: random, not zero
//	32      24    zero
//	56      8     xxhash64 of bytes 0-55
//
// Run frame layout. Frames follow the header and each other without gaps, on 8-byte boundaries. The last frame of a
// write past the page cache reaches to the end of a block, so that no block is ever written twice. Its wide padding is
// what lies behind the padding that every frame has.
//
//	offset  size  field
//	0       4     length of the body as it is stored, in bytes, without padding
//	4       4     its length once decompressed
//	8       4     codec of the body: 0 none, 1 s2, 2 zstd
//	12      4     bytes of wide padding: a multiple of 8 below 4096
//	16      8     offset of this frame in the file
//	24      24    tag: the caller's
//	48      8     XXH3-64 of the body as it is stored
//	56      8     xxhash64 of the run id, 8 bytes, then bytes 0-55
//	64      n     body, then 0-7 zero bytes, then as many as the wide padding
const (
	runMagic      = "KESTRRUN"
	runHeaderSize = 64 // bytes
	// runVersion is the format version of runs. A header adds flags to it, so a build that does not know a flag
	// refuses the run as one of an unknown version.
	runVersion = 3
	// wideFlag says that the writer bypassed the page cache, so that frames may have wide padding.
	wideFlag = 1
	// extendedFlag says that builds which do not know it could not use the frames; see [RunWriter.Extend].
	extendedFlag = 2
	// keyedFlag goes with it, and says that the keys of items are in frames of their own.
	keyedFlag = 4

	// RunStart is the offset of the first frame of a run.
	RunStart = runHeaderSize
	// RunFrameOverhead is what a frame takes beside its body, in bytes, padding not counted.
	RunFrameOverhead = 64
	// TagSize is the size of a Tag in bytes.
	TagSize = 24
)

// runBodySum is the sum of a stored body.
func runBodySum(stored []byte) uint64 { return xxh3.Hash(stored) }

// Tag is what a caller keeps beside a frame's body, to be read without it.
type Tag [TagSize]byte

// RunID names one run: the number is its file's, the id keeps apart files of the same number.
type RunID struct{ Number, ID uint64 }

// RunWriter appends frames to a run. One goroutine may add and write while another syncs.
type RunWriter struct {
	// Immutable.
	fs   FS
	file File
	path string
	id   RunID
	mode IO

	// Owned by the writer.
	extended bool
	keyed    bool
	buf      []byte   // frames added and not written, the header before the first of them; see Lend
	last     runFrame // the newest of them

	mu sync.Mutex // held for memory only
	// Guarded by mu.
	end    int64 // bytes of the file that are written
	synced int64 // … and known to be durable
	named  bool  // the name is durable
	poison error
}

// CreateRun makes the file of a run. Its name is durable once Sync has returned, and it has a
// header once something has been written.
func CreateRun(fsys FS, name string, number uint64, mode IO) (*RunWriter, error) {
	return createRun(fsys, name, RunID{number, randomID()}, mode)
}

func createRun(fsys FS, name string, id RunID, mode IO) (*RunWriter, error) {
	disk := fsys
	if mode == Direct {
		disk = Uncached(fsys)
	}
	f, err := disk.Create(name)
	if err != nil {
		return nil, fmt.Errorf("make backlog file: %w", err)
	}
	return &RunWriter{fs: fsys, file: f, path: name, id: id, mode: mode}, nil
}

// Extend marks the run as extended: a build that does not know such frames must refuse it. keyed says that the keys of
// items are in frames of their own too. Call Extend before the first Add.
func (w *RunWriter) Extend(keyed bool) { w.extended, w.keyed = true, keyed }

// ID returns what OpenRun asks for.
func (w *RunWriter) ID() RunID { return w.id }

// Path returns the file's path.
func (w *RunWriter) Path() string { return w.path }

// End returns the offset behind the last frame written.
func (w *RunWriter) End() int64 {
	return max(w.written(), RunStart)
}

// written returns how many bytes of the file are written.
func (w *RunWriter) written() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end
}

// Synced returns the offset up to which the run is durable.
func (w *RunWriter) Synced() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.synced
}

// poisoned returns why the run takes no more, or nil.
func (w *RunWriter) poisoned() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.poison
}

// Add puts a frame behind the last one, to be written by Write. It copies body, compressed by c if
// that makes it smaller, and returns the frame's offset.
func (w *RunWriter) Add(c *Coder, tag Tag, body []byte) int64 {
	w.reserve(runHeaderSize + RunFrameOverhead + len(body) + frameAlign)
	end := w.written()
	if end == 0 && len(w.buf) == 0 {
		w.buf = appendRunHeader(w.buf, w.id, w.mode, w.extended, w.keyed)
	}
	start := len(w.buf)
	var head [RunFrameOverhead]byte
	w.buf = append(w.buf, head[:]...)
	var codec Codec
	w.buf, codec = c.encode(w.buf, body)
	stored := w.buf[start+RunFrameOverhead:]
	w.last = runFrame{
		stored: len(stored), raw: len(body), codec: codec, offset: end + int64(start), tag: tag,
		sum: runBodySum(stored),
	}
	putRunFrameHeader(w.buf[start:], w.last, w.id.ID)
	w.pad(frameAlign)
	return w.last.offset
}

// reserve makes room for n bytes in buf, and for what widen adds. So appending leaves buf where it is: at a multiple
// of blockSize.
func (w *RunWriter) reserve(n int) {
	if need := WholeBlocks(len(w.buf) + n); cap(w.buf) < need {
		w.buf = append(BlockBuffer(max(need, 2*cap(w.buf))), w.buf...)
	}
}

// pad appends zeros up to a multiple of align.
func (w *RunWriter) pad(align int) {
	for len(w.buf)%align != 0 {
		w.buf = append(w.buf, 0)
	}
}

// widen has the last frame reach to the end of its block.
func (w *RunWriter) widen() {
	w.last.wide = WholeBlocks(len(w.buf)) - len(w.buf)
	if w.last.wide > 0 {
		putRunFrameHeader(w.buf[w.last.offset-w.written():], w.last, w.id.ID)
		w.pad(blockSize)
	}
}

// Buffered returns how many bytes were added and not written.
func (w *RunWriter) Buffered() int { return len(w.buf) }

// Write writes what was added, in one call of WriteAt. After an error nothing of it counts as
// written, and Write may be called again.
func (w *RunWriter) Write() error {
	if err := w.poisoned(); err != nil {
		return err
	}
	if w.mode == Direct {
		w.widen()
	}
	end := w.written()
	n, err := w.file.WriteAt(w.buf, end)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write %d bytes at offset %d of %s: %w", len(w.buf), end, w.path, Cause(err))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

// Lend has frames be added in the memory of buf, which is w's until Reclaim. Without, w has memory
// of its own, for as long as it lives.
func (w *RunWriter) Lend(buf []byte) { w.buf = alignedTail(buf, blockSize) }

// Reclaim forgets what was added and not written. It returns the memory that frames were added in,
// which may have been taken since Lend, or be a part of what was lent.
func (w *RunWriter) Reclaim() []byte {
	buf := w.buf[:0]
	w.buf = nil
	return buf
}

// Sync makes what was written before it was called durable, and the name. If it fails the run is poisoned: the error,
// and that of every later call that writes, wraps ErrPoisoned. What was written since the last Sync that returned nil
// can be read for now and must be written elsewhere. An error that is OutOfFiles poisons nothing: the caller syncs
// again later. One that wraps ErrNames is about the other runs of the directory too.
func (w *RunWriter) Sync() error {
	w.mu.Lock()
	end, done, named, poison := w.end, w.synced == w.end, w.named, w.poison
	w.mu.Unlock()
	if poison != nil || done {
		return poison
	}
	err := Cause(w.file.Datasync())
	if err == nil && !named {
		if err = w.fs.SyncDir(path.Dir(w.path)); err != nil {
			err = fmt.Errorf("%w: %w", ErrNames, err)
		}
	}
	if OutOfFiles(err) {
		return fmt.Errorf("sync %s: %w", w.path, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.poison = fmt.Errorf("sync %s: %w: %w", w.path, ErrPoisoned, err)
		return w.poison
	}
	w.named, w.synced = true, end
	return nil
}

// Close closes the file, syncing nothing.
func (w *RunWriter) Close() error { return w.file.Close() }

func appendRunHeader(dst []byte, id RunID, mode IO, extended, keyed bool) []byte {
	version := uint32(runVersion)
	if mode == Direct {
		version += wideFlag
	}
	if extended {
		version += extendedFlag
	}
	if keyed {
		version += keyedFlag
	}
	start := len(dst)
	dst = append(dst, runMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, version)
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, id.Number)
	dst = binary.LittleEndian.AppendUint64(dst, id.ID)
	dst = append(dst, make([]byte, 24)...)
	return binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
}

// parseRunHeader decodes the header of a run, which says how the run was written. reason says why b does
// not start with one; mode is Direct then, because frames of such a run may have wide padding.
func parseRunHeader(b []byte) (id RunID, mode IO, reason string) {
	switch {
	case len(b) < runHeaderSize:
		return id, Direct, "file is shorter than a run header"
	case string(b[:8]) != runMagic:
		return id, Direct, "not a run: wrong magic"
	case xxhash.Sum64(b[:56]) != binary.LittleEndian.Uint64(b[56:]):
		return id, Direct, "run header fails its checksum"
	}
	flags := runFlags(b)
	if flags > wideFlag|extendedFlag|keyedFlag || flags&(extendedFlag|keyedFlag) == keyedFlag {
		return id, Direct, unknownVersion
	}
	if mode = Cached; flags&wideFlag != 0 {
		mode = Direct
	}
	id = RunID{binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:])}
	if id.Number == 0 || id.ID == 0 {
		return id, Direct, "run header has an impossible number or id"
	}
	return id, mode, ""
}

// runFlags returns the flags of the run header b. They exceed the known ones if its version is unknown.
func runFlags(b []byte) uint32 { return binary.LittleEndian.Uint32(b[8:]) - runVersion }

// isExtended reports whether b, a valid header, is that of an extended run.
func isExtended(b []byte) bool { return runFlags(b)&extendedFlag != 0 }

// isKeyed likewise reports whether it has frames with keys.
func isKeyed(b []byte) bool { return runFlags(b)&keyedFlag != 0 }

// runFrame is a decoded frame header.
type runFrame struct {
	stored, raw int // bytes of body
	codec       Codec
	wide        int // bytes of wide padding
	offset      int64
	tag         Tag
	sum         uint64 // of the stored body
}

// next is the offset behind the frame.
func (f runFrame) next() int64 {
	size := (int64(RunFrameOverhead+f.stored) + frameAlign - 1) &^ (frameAlign - 1)
	return f.offset + size + int64(f.wide)
}

func putRunFrameHeader(b []byte, f runFrame, id uint64) {
	_ = b[RunFrameOverhead-1]
	binary.LittleEndian.PutUint32(b[0:], uint32(f.stored))
	binary.LittleEndian.PutUint32(b[4:], uint32(f.raw))
	binary.LittleEndian.PutUint32(b[8:], uint32(f.codec))
	binary.LittleEndian.PutUint32(b[12:], uint32(f.wide))
	binary.LittleEndian.PutUint64(b[16:], uint64(f.offset))
	copy(b[24:48], f.tag[:])
	binary.LittleEndian.PutUint64(b[48:], f.sum)
	binary.LittleEndian.PutUint64(b[56:], runFrameSum(b, id))
}

func runFrameSum(header []byte, id uint64) uint64 {
	var b [RunFrameOverhead]byte
	binary.LittleEndian.PutUint64(b[:], id)
	copy(b[8:], header[:56])
	return xxhash.Sum64(b[:])
}

// parseRunFrame decodes the frame header at the start of b, which is at least as long and was read
// at that offset. It reports false unless it is one of the run with that id, which may have wide
// padding or not.
func parseRunFrame(b []byte, offset int64, id uint64, wide bool) (f runFrame, ok bool) {
	_ = b[RunFrameOverhead-1]
	f = runFrame{
		stored: int(binary.LittleEndian.Uint32(b[0:])),
		raw:    int(binary.LittleEndian.Uint32(b[4:])),
		codec:  Codec(binary.LittleEndian.Uint32(b[8:])),
		wide:   int(binary.LittleEndian.Uint32(b[12:])),
		offset: int64(binary.LittleEndian.Uint64(b[16:])),
		tag:    Tag(b[24:48]),
		sum:    binary.LittleEndian.Uint64(b[48:]),
	}
	ok = binary.LittleEndian.Uint64(b[56:]) == runFrameSum(b, id) && f.offset == offset &&
		f.codec < codecs && f.stored <= MaxPayloadSize && f.raw <= MaxPayloadSize &&
		(f.codec != CodecNone || f.stored == f.raw) &&
		(f.wide == 0 || wide && f.wide < blockSize && f.wide%frameAlign == 0)
	return f, ok
}
