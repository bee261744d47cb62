package segment_test

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// A second reader of segments, written from docs/FORMAT.md and not from the code it tests.

// refFrame is a frame, payload checked.
type refFrame struct {
	offset    int64
	end       int64 // of the payload, where padding may follow
	kind      byte
	watermark uint64
	position  uint64
	payload   []byte
}

// next is where the next frame starts.
func (f refFrame) next() int64 { return (f.end + 7) / 8 * 8 }

// refSegment is what a file holds.
type refSegment struct {
	number, id, size uint64
	frames           []refFrame
	sealed           bool
}

// end is the offset behind the last frame.
func (s refSegment) end() int64 {
	if n := len(s.frames); n > 0 {
		return s.frames[n-1].next()
	}
	return 64
}

// frameAt returns the frame whose header or payload has the byte at off.
func (s refSegment) frameAt(off int64) (refFrame, bool) {
	for _, f := range s.frames {
		if f.offset <= off && off < f.end {
			return f, true
		}
	}
	return refFrame{}, false
}

// refRead reads a segment up to its trailer or to the first thing that is no frame. ok is false if
// there is no valid header.
func refRead(data []byte) (s refSegment, ok bool) {
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	if len(data) < 64 || string(data[:8]) != "KESTRLOG" || u32(data[8:])-1 > 1 {
		return s, false
	}
	s.number, s.id, s.size = u64(data[16:]), u64(data[24:]), u64(data[32:])
	if u64(data[56:]) != xxhash.Sum64(data[:56]) || s.number == 0 || s.id == 0 || s.size < 64 {
		return s, false
	}
	for off := 64; off+40 <= len(data); {
		h := data[off : off+40]
		keyed := append(binary.LittleEndian.AppendUint64(nil, s.id), h[:32]...)
		length := int64(u32(h))
		kind := h[4]
		right := map[byte]int64{1: length, 2: 32, 3: 16, 4: 0}
		if want, known := right[kind]; !known || length != want || length > 1<<30 ||
			h[5]|h[6]|h[7] != 0 || u64(h[8:]) > u64(h[16:]) || u64(h[32:]) != xxhash.Sum64(keyed) {
			break
		}
		f := refFrame{
			offset: int64(off), end: int64(off) + 40 + length,
			kind: kind, watermark: u64(h[8:]), position: u64(h[16:]),
		}
		if f.next() > int64(len(data)) {
			break
		}
		f.payload = data[off+40 : f.end]
		if u64(h[24:]) != xxhash.Sum64(f.payload) {
			break
		}
		s.frames = append(s.frames, f)
		off = int(f.next())
		if kind == 3 {
			s.sealed = true
			break
		}
	}
	return s, true
}

// refixHeader gives a segment's header the checksum it should have.
func refixHeader(data []byte) []byte {
	binary.LittleEndian.PutUint64(data[56:], xxhash.Sum64(data[:56]))
	return data
}

// refFrameBytes returns a frame as the format has it, whatever its fields say.
func refFrameBytes(
	id uint64, kind byte, watermark, position uint64, length uint32, payload []byte,
) []byte {
	b := binary.LittleEndian.AppendUint32(nil, length)
	b = append(b, kind, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, watermark)
	b = binary.LittleEndian.AppendUint64(b, position)
	b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(payload))
	keyed := append(binary.LittleEndian.AppendUint64(nil, id), b...)
	b = binary.LittleEndian.AppendUint64(b, xxhash.Sum64(keyed))
	b = append(b, payload...)
	return append(b, make([]byte, -len(b)&7)...)
}
