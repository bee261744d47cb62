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

// ReadAhead is readAhead.
const ReadAhead = readAhead

// SyncsWorthZeros is syncsWorthZeros.
const SyncsWorthZeros = syncsWorthZeros

// SetWatermark has l believe that everything up to p is durable.
func (l *Log) SetWatermark(p Position) { l.watermark.Store(uint64(p)) }

// ParseFrameHeader is parseFrameHeader.
func ParseFrameHeader(b []byte, id uint64) (kind Kind, length uint32, ok bool) {
	h, ok := parseFrameHeader(b, id)
	return h.kind, h.length, ok
}
