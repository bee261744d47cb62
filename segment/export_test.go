package segment

// What the tests in package segment_test see of the inside. They are in another package because
// segmenttest, which they need, imports this one.

// WithIDs returns o with a source of segment ids in place of the random one.
func (o Options) WithIDs(next func() uint64) Options {
	o.newID = next
	return o
}

// MkdirAll is OS.MkdirAll with another way to sync a directory.
func MkdirAll(dir string, syncDir func(string) error) error { return mkdirAll(dir, syncDir) }

// ParseFileName is parseFileName.
func ParseFileName(name string) (number uint64, ext string, ok bool) { return parseFileName(name) }

// FileName is fileName.
func FileName(number uint64, ext string) string { return fileName(number, ext) }

// CheckPayloadSize is what Append says to a payload of n bytes.
func CheckPayloadSize(n int) error { return checkPayloadSize(n) }

// ScanAhead is scanSize.
const ScanAhead = scanSize

// SetWatermark has l believe that everything up to p is durable.
func (l *Log) SetWatermark(p Position) { l.watermark.Store(uint64(p)) }

// ParseFrameHeader is parseFrameHeader.
func ParseFrameHeader(b []byte, id uint64) (kind Kind, length uint32, ok bool) {
	h, ok := parseFrameHeader(b, id)
	return h.kind, h.length, ok
}

// CreateRunAs is CreateRun with an id that is given.
func CreateRunAs(fsys FS, name string, id RunID, mode IO) (*RunWriter, error) {
	return createRun(fsys, name, id, mode)
}

// ParsedFrame is what ParseRunFrame returns.
type ParsedFrame struct {
	Stored, Raw, Wide int
	Codec             Codec
	Next              int64
}

// ParseRunFrame is parseRunFrame.
func ParseRunFrame(b []byte, offset int64, id uint64, wide bool) (ParsedFrame, bool) {
	f, ok := parseRunFrame(b, offset, id, wide)
	return ParsedFrame{f.stored, f.raw, f.wide, f.codec, f.next()}, ok
}

// AppendRunFrame appends the first frame of a run with a body as it is stored, without padding.
func AppendRunFrame(dst, stored []byte, raw int, codec Codec, wide int, id RunID) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, RunFrameOverhead)...)
	putRunFrameHeader(dst[start:], runFrame{
		stored: len(stored), raw: raw, codec: codec, wide: wide, offset: RunStart,
		sum: runBodySum(stored),
	}, id.ID)
	return append(dst, stored...)
}

// AppendRunHeader is appendRunHeader.
func AppendRunHeader(dst []byte, id RunID, mode IO) []byte {
	return appendRunHeader(dst, id, mode, false, false)
}

// AppendExtendedRunHeader is appendRunHeader of an extended run, which may have frames with keys.
func AppendExtendedRunHeader(dst []byte, id RunID, mode IO, keyed bool) []byte {
	return appendRunHeader(dst, id, mode, true, keyed)
}

// MinReadAhead is minReadAhead.
const MinReadAhead = minReadAhead

// WriteOutPiece is writeOutPiece.
const WriteOutPiece = writeOutPiece

// BlockSize is blockSize.
const BlockSize = blockSize

// NewSmallReadAhead is NewReadAhead with mapped pieces of that many bytes.
func NewSmallReadAhead(size int64) *ReadAhead { return &ReadAhead{maps: &pieces{size: size}} }

// Pieces is how many pieces are mapped.
func (a *ReadAhead) Pieces() int { return len(a.maps.list) }

// MaxPieces is maxPieces.
const MaxPieces = maxPieces
