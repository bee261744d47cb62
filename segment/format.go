package segment

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// This file has the bytes of segments, both ways.

// Position is a place in the log: bytes from the start of its life, over all segments. Positions
// never repeat, also when old segments are dropped and their files used again.
type Position uint64

// Segment header layout. Integers are little-endian.
//
//	offset  size  field
//	0       8     magic "KESTRLOG"
//	8       4     format version: 1, or 2 if a frame may need it
//	12      4     zero
//	16      8     segment number, from 1
//	24      8     segment id: random, not zero; new each time a file is used
//	32      8     size in bytes of the file when it was made; it is cut only behind a trailer
//	40      16    zero
//	56      8     xxhash64 of bytes 0-55
const (
	segmentMagic      = "KESTRLOG"
	segmentHeaderSize = 64 // bytes
	segmentIDOffset   = 24
)

// Version is the version of the format that a reader of a frame must know. Segments of different versions differ in
// nothing but the payloads that they may have. So a release that knows version 1 alone opens a log without others, and
// refuses one with others by its headers.
type Version uint32

const (
	// Version1 is that of the first release.
	Version1 Version = iota + 1
	// Version2 is that of what an earlier release cannot read.
	Version2
)

// Frame layout. Frames start on 8-byte boundaries, the first at offset 64 of the segment.
//
//	offset  size  field
//	0       4     payload length in bytes, without header or padding
//	4       1     kind: 1 batch, 2 link, 3 trailer, 4 mark
//	5       3     zero
//	8       8     watermark: position up to which the log was synced when this frame was written
//	16      8     position of this frame
//	24      8     payload checksum: xxhash64 of the payload
//	32      8     header checksum: xxhash64 of the segment's id, 8 bytes, then bytes 0-31
//	40      n     payload, then 0-7 zero bytes
//
// The header has a checksum of its own. So its length can be trusted before the payload is read,
// and its watermark even if the payload is torn. The id in it keeps frames of a file's earlier use,
// and payloads that look like frames, from passing.
//
// Behind the last frame stand 8 zero bytes, the end mark, written together with it. A kind of zero
// is never valid, so a reader can distinguish the clean end of a log from a torn frame. That holds
// in a file that was used before and still has old bytes, too.
const (
	// FrameHeaderSize is the room, in bytes, that a caller of Append leaves at the start of its
	// buffer.
	FrameHeaderSize = 40
	// MaxPayloadSize is the largest payload of a frame, in bytes.
	MaxPayloadSize = 1 << 30

	frameAlign  = 8  // bytes
	endMarkSize = 8  // bytes
	linkSize    = 32 // bytes of a link's payload
	trailerSize = 16 // bytes of a trailer's payload
)

// Kind says what a frame is for.
type Kind uint8

const (
	// KindBatch carries the caller's bytes.
	KindBatch Kind = 1
	// KindLink is the first frame of every segment and names its predecessor: number, id, end position and chain
	// checksum, 8 bytes each. They are all zero in the first segment of a log.
	KindLink Kind = 2
	// KindTrailer is the last frame of a sealed segment: the number of frames before it in the
	// segment and the chain checksum, 8 bytes each. The chain checksum runs over the header
	// checksums of those frames: c = fold(c, checksum), from 0, where fold is xxhash64 of both,
	// 8 bytes each.
	KindTrailer Kind = 3
	// KindMark has no payload; it exists for its watermark, see [Log.Mark].
	KindMark Kind = 4
)

// frameHeader is a decoded frame header that passed its checksum.
type frameHeader struct {
	length     uint32 // bytes of payload
	kind       Kind
	watermark  Position
	position   Position
	payloadSum uint64
	sum        uint64
}

// size is what the frame occupies in the file.
func (h frameHeader) size() int64 { return frameSize(int64(h.length)) }

// frameSize is what a frame with n bytes of payload occupies in the file.
func frameSize(n int64) int64 {
	return (FrameHeaderSize + n + frameAlign - 1) &^ (frameAlign - 1)
}

// putFrameHeader fills buf[:FrameHeaderSize] for the payload in the rest of buf, and returns the
// header checksum.
func putFrameHeader(buf []byte, kind Kind, id uint64, watermark, position Position) uint64 {
	payload := buf[FrameHeaderSize:]
	binary.LittleEndian.PutUint32(buf[0:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[4:], uint32(kind))
	binary.LittleEndian.PutUint64(buf[8:], uint64(watermark))
	binary.LittleEndian.PutUint64(buf[16:], uint64(position))
	binary.LittleEndian.PutUint64(buf[24:], payloadChecksum(payload))
	sum := headerChecksum(buf, id)
	binary.LittleEndian.PutUint64(buf[32:], sum)
	return sum
}

// sumPiece is how many bytes of a payload are summed at a time, which takes some ten microseconds.
const sumPiece = 256 << 10

// payloadChecksum is the sum of a payload. It takes a large one in pieces: Go stops no goroutine within a sum, and
// everything would wait for that of 32 MiB.
func payloadChecksum(payload []byte) uint64 {
	if len(payload) <= sumPiece {
		return xxhash.Sum64(payload)
	}
	var sum xxhash.Digest
	sum.Reset()
	for ; len(payload) > sumPiece; payload = payload[sumPiece:] {
		sum.Write(payload[:sumPiece])
	}
	sum.Write(payload)
	return sum.Sum64()
}

func headerChecksum(header []byte, id uint64) uint64 {
	var b [FrameHeaderSize]byte
	binary.LittleEndian.PutUint64(b[:], id)
	copy(b[8:], header[:32])
	return xxhash.Sum64(b[:])
}

// foldChecksum combines two checksums into one that depends on their order.
func foldChecksum(c, sum uint64) uint64 {
	var b [16]byte
	binary.LittleEndian.PutUint64(b[0:], c)
	binary.LittleEndian.PutUint64(b[8:], sum)
	return xxhash.Sum64(b[:])
}

// parseFrameHeader decodes the frame header at the start of b, which is at least as long. It
// reports false unless it is one of the segment with that id.
func parseFrameHeader(b []byte, id uint64) (h frameHeader, ok bool) {
	_ = b[FrameHeaderSize-1]
	kind := binary.LittleEndian.Uint32(b[4:])
	if kind-uint32(KindBatch) > uint32(KindMark-KindBatch) { // nearly all of what is no header
		return h, false
	}
	h = frameHeader{
		length:     binary.LittleEndian.Uint32(b[0:]),
		kind:       Kind(kind),
		watermark:  Position(binary.LittleEndian.Uint64(b[8:])),
		position:   Position(binary.LittleEndian.Uint64(b[16:])),
		payloadSum: binary.LittleEndian.Uint64(b[24:]),
		sum:        binary.LittleEndian.Uint64(b[32:]),
	}
	ok = h.watermark <= h.position && validLength(h.kind, h.length) && h.sum == headerChecksum(b, id)
	return h, ok
}

func validLength(kind Kind, length uint32) bool {
	switch kind {
	case KindLink:
		return length == linkSize
	case KindTrailer:
		return length == trailerSize
	case KindMark:
		return length == 0
	}
	return length <= MaxPayloadSize
}

// segmentHeader is the decoded header of a segment.
type segmentHeader struct {
	version    Version
	number, id uint64
	size       int64 // of the file when it was made
}

// appendSegmentHeader appends the header of a segment and an end mark behind it.
func appendSegmentHeader(dst []byte, h segmentHeader) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.version))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, h.number)
	dst = binary.LittleEndian.AppendUint64(dst, h.id)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(h.size))
	dst = append(dst, make([]byte, 16)...)
	dst = binary.LittleEndian.AppendUint64(dst, xxhash.Sum64(dst[start:]))
	return append(dst, make([]byte, endMarkSize)...)
}

// unknownVersion is why a header that is whole is none of this version.
const unknownVersion = "unknown format version"

// parseSegmentHeader decodes the header of a segment. reason says why b does not start with one.
func parseSegmentHeader(b []byte) (h segmentHeader, reason string) {
	switch {
	case len(b) < segmentHeaderSize:
		return h, "file is shorter than a segment header"
	case string(b[:8]) != segmentMagic:
		return h, "not a segment: wrong magic"
	case xxhash.Sum64(b[:56]) != binary.LittleEndian.Uint64(b[56:]):
		return h, "segment header fails its checksum"
	}
	h.version = Version(binary.LittleEndian.Uint32(b[8:]))
	if h.version < Version1 || h.version > Version2 {
		return h, unknownVersion
	}
	h.number = binary.LittleEndian.Uint64(b[16:])
	h.id = binary.LittleEndian.Uint64(b[24:])
	h.size = int64(binary.LittleEndian.Uint64(b[32:]))
	if h.number == 0 || h.id == 0 || h.size < segmentHeaderSize {
		return h, "segment header has an impossible number, id or size"
	}
	return h, ""
}

// link is the payload of a link frame.
type link struct {
	number, id uint64   // of the predecessor; zero in the first segment of a log
	end        Position // behind the predecessor's trailer
	chain      uint64   // the predecessor's chain checksum
}

func appendLink(dst []byte, l link) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, l.number)
	dst = binary.LittleEndian.AppendUint64(dst, l.id)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(l.end))
	return binary.LittleEndian.AppendUint64(dst, l.chain)
}

func parseLink(b []byte) link {
	return link{
		number: binary.LittleEndian.Uint64(b[0:]),
		id:     binary.LittleEndian.Uint64(b[8:]),
		end:    Position(binary.LittleEndian.Uint64(b[16:])),
		chain:  binary.LittleEndian.Uint64(b[24:]),
	}
}

// trailer is the payload of a trailer frame.
type trailer struct {
	frames uint64 // before the trailer, in its segment
	chain  uint64
}

func appendTrailer(dst []byte, t trailer) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, t.frames)
	return binary.LittleEndian.AppendUint64(dst, t.chain)
}

func parseTrailer(b []byte) trailer {
	return trailer{
		frames: binary.LittleEndian.Uint64(b[0:]),
		chain:  binary.LittleEndian.Uint64(b[8:]),
	}
}
