package segment

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// Codec says how the body of a run's frame is compressed. The numbers are those on disk.
type Codec uint32

// The codecs.
const (
	CodecNone Codec = 0
	CodecS2   Codec = 1 // as the S2 block format, which Snappy's is a part of
	CodecZstd Codec = 2 // as one Zstandard frame, at its fastest level

	codecs Codec = 3
)

var codecNames = [codecs]string{"none", "s2", "zstd"}

// String returns the name that ParseCodec takes.
func (c Codec) String() string {
	if c < codecs {
		return codecNames[c]
	}
	return fmt.Sprintf("Codec(%d)", uint32(c))
}

// ParseCodec returns the codec of a name: none, s2 or zstd.
func ParseCodec(name string) (Codec, error) {
	for c, n := range codecNames {
		if n == name {
			return Codec(c), nil
		}
	}
	return 0, fmt.Errorf("unknown compression %q: want none, s2 or zstd", name)
}

// minSaving is the part of a body, one in so many bytes, that compression must save. A smaller saving is not worth
// the work of decompressing it.
const minSaving = 16

// zstdWindow bounds, in bytes, how far back zstd looks, and so what its encoder and decoder take.
const zstdWindow = 256 << 10

// Coder compresses and decompresses bodies of frames. It keeps memory between calls, and is for one
// goroutine. The zero value compresses nothing and reads everything.
type Coder struct {
	codec   Codec
	scratch []byte
	enc     *zstd.Encoder
	dec     *zstd.Decoder
}

// NewCoder returns a Coder that compresses by codec.
func NewCoder(codec Codec) *Coder { return &Coder{codec: codec} }

// encode appends body to dst, compressed if that is worth it, and says how.
func (c *Coder) encode(dst, body []byte) ([]byte, Codec) {
	if c == nil || c.codec == CodecNone || len(body) == 0 {
		return append(dst, body...), CodecNone
	}
	if c.codec == CodecS2 {
		if need := s2.MaxEncodedLen(len(body)); cap(c.scratch) < need {
			c.scratch = make([]byte, need)
		}
		c.scratch = s2.Encode(c.scratch[:cap(c.scratch)], body)
	} else {
		c.scratch = c.encoder().EncodeAll(body, c.scratch[:0])
	}
	if len(c.scratch) > len(body)-len(body)/minSaving {
		return append(dst, body...), CodecNone
	}
	return append(dst, c.scratch...), c.codec
}

var errRawLength = errors.New("body decompresses to another length than its header says")

// decode appends to dst what stored decompresses to, which must be raw bytes. dst has room for
// them.
func (c *Coder) decode(dst, stored []byte, codec Codec, raw int) ([]byte, error) {
	start := len(dst)
	switch codec {
	case CodecS2:
		if n, err := s2.DecodedLen(stored); err != nil || n != raw {
			return dst, errRawLength
		}
		if _, err := s2.Decode(dst[start:start+raw], stored); err != nil {
			return dst, fmt.Errorf("body does not decompress: %w", err)
		}
		return dst[:start+raw], nil
	default:
		out, err := c.decoder().DecodeAll(stored, dst[:start:start+raw])
		if err != nil {
			return dst, fmt.Errorf("body does not decompress: %w", err)
		}
		if len(out) != start+raw {
			return dst, errRawLength
		}
		return out, nil
	}
}

func (c *Coder) encoder() *zstd.Encoder {
	if c.enc == nil {
		enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(zstdWindow))
		if err != nil {
			panic(fmt.Sprintf("segment: zstd refuses constant options: %v", err))
		}
		c.enc = enc
	}
	return c.enc
}

func (c *Coder) decoder() *zstd.Decoder {
	if c.dec == nil {
		// What a body says of its own length is not believed: there is room for what its frame says.
		dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxMemory(MaxPayloadSize), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(fmt.Sprintf("segment: zstd refuses constant options: %v", err))
		}
		c.dec = dec
	}
	return c.dec
}

// Close gives back what the Coder keeps.
func (c *Coder) Close() {
	if c.enc != nil {
		c.enc.Close()
	}
	if c.dec != nil {
		c.dec.Close()
	}
	c.enc, c.dec, c.scratch = nil, nil, nil
}
