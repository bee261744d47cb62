package item

import (
	"encoding/binary"
	"math"
)

// Item image: an item as it lies in memory, in the journal and in a backlog, without its id, which
// its place shows. Integers are little-endian; times are milliseconds since the Unix epoch.
//
//	size     field
//	1        format: bits 0-1 how large the size field is: 0 1 byte, 1 2 bytes, 2 4 bytes;
//	         bit 2 flags follow; bit 3 an expiry follows; bit 4 there is a key; bit 5 there is an
//	         origin; bits 6-7 zero
//	1, 2, 4  size of the body in bytes; the smallest field that holds it
//	6        time added
//	4        client flags, unless they are zero
//	6        expiry, unless the item never expires
//	1        size of the key, from 1 to MaxKeySize, if there is one
//	2        size of the origin's name, from 1 on, and why it gave the item up: 1 too many deliveries,
//	         2 rejected; if there is one
//	n        body
//	k        key
//	o        origin
//
// There is one image of an item only: another one that would say the same is not valid.
const (
	imageWidthMask = 0x03
	imageHasFlags  = 0x04
	imageHasExpiry = 0x08
	imageHasKey    = 0x10
	imageHasOrigin = 0x20
	imageFormats   = 0x3f // bits that a format may have

	PlainImageSize = 8 // bytes of an image without a body that has neither flags nor expiry
	PlainLongSize  = 9 // … with a size field of 2 bytes
	FlagsSize      = 4
	TimeSize       = 6
	maxImageTime   = 1<<(8*TimeSize) - 1 // in the year 10889
)

// ImageSize is the number of bytes that the image of it takes.
func ImageSize(it *Item) int { return sizeOfImage(len(it.Data), it.Flags, it.Expiry, it.behind) }

// Behind is the key and the origin of an item, either of which may be empty. MaxKeySize and 255 bytes are the most that
// they may have.
type Behind struct {
	Key    []byte
	Origin string
	Why    Why
}

func (b *Behind) sizes() behind { return behindOf(len(b.Key), len(b.Origin), b.Why) }

// ImageSizeWith is ImageSize of it with b in place of what it has, unless b is empty.
func ImageSizeWith(it *Item, b *Behind) int {
	if sizes := b.sizes(); sizes != 0 {
		return sizeOfImage(len(it.Data), it.Flags, it.Expiry, sizes)
	}
	return ImageSize(it)
}

// copyPiece is how many bytes of a large item are copied at a time, which takes about a tenth of a millisecond.
const copyPiece = 256 << 10

// AppendImageWith is AppendImage of it, which is large, with b in place of what it has, unless b is empty. It copies the
// body once, in pieces, and calls between behind each but the last. Go stops no goroutine within a copy: while it waited
// for one of 32 MiB, nothing else ran.
func AppendImageWith(dst []byte, it *Item, b *Behind, between func()) []byte {
	with, stored := *it, it.Stored()
	if sizes := b.sizes(); sizes != 0 {
		with.behind, stored = sizes, it.Data
	}
	dst = appendRichHead(dst, &with)
	for ; len(stored) > copyPiece; stored = stored[copyPiece:] {
		dst = append(dst, stored[:copyPiece]...)
		between()
	}
	return append(append(append(dst, stored...), b.Key...), b.Origin...)
}

// imageSize is how many bytes more an image has for the key and the origin.
func (b behind) imageSize() (n int) {
	if b.keySize() != 0 {
		n += 1 + b.keySize()
	}
	if b.originSize() != 0 {
		n += 2 + b.originSize()
	}
	return n
}

// sizeOfImage is ImageSize of an item with a body of n bytes.
func sizeOfImage(n int, flags uint32, expiry Time, b behind) int {
	size := PlainImageSize + n
	if n > math.MaxUint8 {
		size += sizeWidth(n) - 1
	}
	if flags != 0 {
		size += FlagsSize
	}
	if expiry != 0 {
		size += TimeSize
	}
	if b != 0 {
		size += b.imageSize()
	}
	return size
}

// sizeWidth is how many bytes the size of a body of n bytes takes.
func sizeWidth(n int) int {
	switch {
	case n <= math.MaxUint8:
		return 1
	case n <= math.MaxUint16:
		return 2
	}
	return 4
}

// AppendImage appends the image of it, whose body is not larger than MaxItemSize. Times that an
// image cannot hold become the nearest that it can.
func AppendImage(dst []byte, it *Item) []byte {
	if !it.IsPlain() {
		return appendRich(dst, it)
	}
	return appendFields(dst, it.Data, it.Flags, it.Added, it.Expiry)
}

// appendRich is AppendImage of an item with a key or an origin.
func appendRich(dst []byte, it *Item) []byte {
	return append(appendRichHead(dst, it), it.Stored()...)
}

// appendRichHead appends what stands before the body in such an image.
func appendRichHead(dst []byte, it *Item) []byte {
	bits := byte(0)
	keySize, originSize := it.behind.keySize(), it.behind.originSize()
	if keySize != 0 {
		bits |= imageHasKey
	}
	if originSize != 0 {
		bits |= imageHasOrigin
	}
	dst = appendHead(dst, bits, len(it.Data), it.Flags, it.Added, it.Expiry)
	if keySize != 0 {
		dst = append(dst, byte(keySize))
	}
	if originSize != 0 {
		dst = append(dst, byte(originSize), byte(it.Why()))
	}
	return dst
}

// appendFields is appendImage of an item that is still in registers.
func appendFields(dst, data []byte, flags uint32, added, expiry Time) []byte {
	since := uint64(min(max(added, 0), maxImageTime))
	if len(data) <= math.MaxUint8 && flags == 0 && expiry == 0 { // most items: one word
		dst = binary.LittleEndian.AppendUint64(dst, uint64(len(data))<<8|since<<16)
		return append(dst, data...)
	}
	return append(appendHead(dst, 0, len(data), flags, added, expiry), data...)
}

// appendHead appends what stands before the body, or the size of the key, of an image in a format with those
// bits.
func appendHead(dst []byte, bits byte, n int, flags uint32, added, expiry Time) []byte {
	since := uint64(min(max(added, 0), maxImageTime))
	width := sizeWidth(n)
	format := bits | byte(width>>1)
	if flags != 0 {
		format |= imageHasFlags
	}
	if expiry != 0 {
		format |= imageHasExpiry
	}
	dst = append(dst, format)
	dst = appendUint(dst, uint64(n), width)
	dst = appendUint(dst, since, TimeSize)
	if flags != 0 {
		dst = binary.LittleEndian.AppendUint32(dst, flags)
	}
	if expiry != 0 {
		dst = appendUint(dst, uint64(min(max(expiry, 1), maxImageTime)), TimeSize)
	}
	return dst
}

// appendUint appends the lowest n bytes of v.
func appendUint(dst []byte, v uint64, n int) []byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	return append(dst, b[:n]...)
}

// ParseImage decodes the image at the start of b and returns how many bytes it occupies. It returns zero if b does
// not begin with a whole and valid image. Data aliases b.
func ParseImage(b []byte) (it Item, n int) {
	n = it.parse(b)
	return it, n
}

// parse is ParseImage in place: an Item that is returned is written to memory twice, and the second time waits for the
// first.
func (it *Item) parse(b []byte) (n int) {
	*it = Item{}
	if len(b) < PlainImageSize {
		return 0
	}
	var h uint64
	var head, size int
	switch { // most images have neither flags nor expiry: size and time are one word
	case b[0] == 0:
		h = binary.LittleEndian.Uint64(b)
		head, size = PlainImageSize, int(byte(h>>8))
	case b[0] == 1 && len(b) >= PlainLongSize && binary.LittleEndian.Uint16(b[1:]) > math.MaxUint8:
		h = binary.LittleEndian.Uint64(b[1:])
		head, size = PlainLongSize, int(uint16(h))
	default:
		return it.parseLong(b)
	}
	if n = head + size; n > len(b) {
		return 0
	}
	it.Added = Time(h >> 16)
	it.Data = b[head:n:n]
	return n
}

// parseLong is parse for all formats but the most frequent.
func (it *Item) parseLong(b []byte) (n int) {
	format := b[0]
	width := 1 << (format & imageWidthMask)
	n = 1 + width + TimeSize
	if format&imageHasFlags != 0 {
		n += FlagsSize
	}
	if format&imageHasExpiry != 0 {
		n += TimeSize
	}
	if format&imageHasKey != 0 {
		n++
	}
	if format&imageHasOrigin != 0 {
		n += 2
	}
	if format > imageFormats || width > 4 || len(b) < n {
		return 0
	}
	size := int(loadUint(b[1:], width))
	if sizeWidth(size) != width || size > len(b)-n {
		return 0
	}
	field := b[1+width:]
	it.Added = Time(loadUint(field, TimeSize))
	field = field[TimeSize:]
	if format&imageHasFlags != 0 {
		it.Flags = binary.LittleEndian.Uint32(field)
		field = field[FlagsSize:]
	}
	if format&imageHasExpiry != 0 {
		it.Expiry = Time(loadUint(field, TimeSize))
		field = field[TimeSize:]
	}
	ok := true
	var key, origin int // their sizes
	var why Why
	if format&imageHasKey != 0 {
		key = int(field[0])
		field = field[1:]
		ok = key > 0 && key <= MaxKeySize
	}
	if format&imageHasOrigin != 0 {
		origin, why = int(field[0]), Why(field[1])
		ok = ok && origin > 0 && why > 0 && why <= whys
	}
	it.behind = behindOf(key, origin, why)
	end := n + size + it.behind.size()
	if !ok || end > len(b) {
		return 0
	}
	if (format&imageHasFlags != 0) != (it.Flags != 0) ||
		(format&imageHasExpiry != 0) != (it.Expiry != 0) {
		return 0
	}
	it.Data = b[n : n+size : end]
	return end
}

// loadUint returns the integer in the first n bytes of b.
func loadUint(b []byte, n int) (v uint64) {
	for i := range n {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}
