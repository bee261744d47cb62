package burrow

// MaxChunkLine is how long the line before a chunk, or one trailer, may be, its end included.
const MaxChunkLine = 256 // bytes

// maxTrailers is how long all trailers of a body may be together.
const maxTrailers = 4 << 10 // bytes

// bodyState is where a Body is.
//
//	sized    -> over      all announced bytes were read
//	size     -> chunk     the line before a chunk was read
//	size     -> trailers  the line before the last chunk was read
//	chunk    -> chunkEnd  the bytes of a chunk were read
//	chunkEnd -> size      the line end behind a chunk was read
//	trailers -> over      the empty line at the end was read
type bodyState uint8

const (
	sized bodyState = iota
	size
	chunk
	chunkEnd
	trailers
	over
)

// Body reads the body of one request. Make it with [Decoder.Body].
type Body struct {
	state bodyState
	left  int64 // sized: of the body, chunk: of the chunk, trailers: of what they may be
	room  int64 // chunks: what the body may still grow by
}

// Body returns the reader of the body that follows h.
func (d Decoder) Body(h *Head) Body {
	if h.Chunked {
		return Body{state: size, room: d.maxBody(h)}
	}
	return Body{left: h.Length}
}

// Left returns how many bytes of a body are still to come, if its head announced that.
func (b *Body) Left() (n int64, known bool) { return b.left, b.state == sized }

// Decode returns the next piece of the body at the start of src, and the bytes that it and its frame
// occupied. The piece lies inside src. It may be empty: then only a frame was consumed.
//
// Decode returns ErrIncomplete and 0 if it needs more than src, and ErrEndOfBody once the body is
// over, with the bytes of its end. Any other error is a fatal *ProtocolError.
func (b *Body) Decode(src []byte) (piece []byte, n int, err error) {
	switch b.state {
	case sized, chunk:
		if b.left == 0 { // only of a sized body
			b.state = over
			return nil, 0, ErrEndOfBody
		}
		if len(src) == 0 {
			return nil, 0, ErrIncomplete
		}
		n = int(min(b.left, int64(len(src))))
		b.left -= int64(n)
		if b.left == 0 && b.state == chunk {
			b.state = chunkEnd
		}
		return src[:n:n], n, nil
	case chunkEnd:
		return b.decodeChunkEnd(src)
	case size:
		return b.decodeSize(src)
	case trailers:
		return b.decodeTrailer(src)
	}
	return nil, 0, ErrEndOfBody
}

// decodeSize reads the line before a chunk: its size in hexadecimal digits, and perhaps extensions,
// which mean nothing here.
func (b *Body) decodeSize(src []byte) (piece []byte, n int, err error) {
	line, n, err := cutLine(src, MaxChunkLine)
	if err == ErrIncomplete {
		return nil, 0, err
	}
	if err != nil {
		return nil, 0, errChunk
	}
	var length int64
	digits := 0
	for digits < len(line) {
		v, ok := hexDigit(line[digits])
		if !ok {
			break
		}
		length = length<<4 | int64(v)
		if length > b.room {
			return nil, 0, errBodySize
		}
		digits++
	}
	rest := line[digits:]
	if digits == 0 || len(rest) > 0 && rest[0] != ';' {
		return nil, 0, errChunk
	}
	for _, c := range rest {
		if c < ' ' && c != '\t' || c == 0x7f {
			return nil, 0, errChunk
		}
	}
	b.room -= length
	if b.state, b.left = chunk, length; length == 0 {
		b.state, b.left = trailers, maxTrailers
	}
	return nil, n, nil
}

// decodeChunkEnd reads the line end behind a chunk.
func (b *Body) decodeChunkEnd(src []byte) (piece []byte, n int, err error) {
	switch {
	case len(src) > 0 && src[0] != '\r', len(src) > 1 && src[1] != '\n':
		return nil, 0, errChunk
	case len(src) < 2:
		return nil, 0, ErrIncomplete
	}
	b.state = size
	return nil, 2, nil
}

// decodeTrailer reads a header behind the last chunk, and ignores it.
func (b *Body) decodeTrailer(src []byte) (piece []byte, n int, err error) {
	line, n, err := cutLine(src, MaxChunkLine)
	switch {
	case err == ErrIncomplete:
		return nil, 0, err
	case err == errHeadSize:
		return nil, 0, errTrailers
	case err != nil:
		return nil, 0, err
	case len(line) == 0:
		b.state = over
		return nil, n, ErrEndOfBody
	}
	var h Head // a trailer is read as a header, but counts for nothing
	if refused := h.parseHeader(line, new(headers)); refused != nil {
		return nil, 0, refused
	}
	if b.left -= int64(n); b.left < 0 {
		return nil, 0, errTrailers
	}
	return nil, n, nil
}

// hexDigit returns the value of a hexadecimal digit.
func hexDigit(c byte) (value byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
