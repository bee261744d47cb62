package journalcmd

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/kestrelmq/kestrel/codec/oldjournal"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/segment"
)

// A supplement stands beside the file of a queue that was exported. It has what the original's format cannot
// hold of the items, and says whether that file is whole. docs/FORMAT.md, "Exports", has its format.

const supplementPrefix = "supplement~~"

// supplementName is the name of the supplement of a queue. The original reads no file with ~~ in its name.
func supplementName(queue string) string {
	sum := sha256.Sum256([]byte(queue))
	return fmt.Sprintf("%s%x", supplementPrefix, sum[:16])
}

const (
	supplementMagic   = "kestrels"
	supplementVersion = 1
	supplementHead    = 16
	supplementTail    = 32
)

// What an item has in a supplement, in the order of the fields that follow.
const (
	hasFlags = 1 << iota
	hasKey
	hasDue
	hasToken
	hasCount
	hasOrigin
	hasFields = 1<<iota - 1
)

// supplementWriter writes a supplement while the file of its queue is written.
type supplementWriter struct {
	w       io.Writer
	buf     []byte
	sum     hasher // of the supplement
	journal hasher // of the queue's file
	plain   uint64 // items since the last that is not
	rich    uint64
}

// hasher counts and sums bytes.
type hasher struct {
	sum  hash.Hash64
	size uint64
}

func newHasher() hasher { return hasher{sum: segment.NewSum()} }

func (h *hasher) add(b []byte) {
	h.sum.Write(b) // never fails
	h.size += uint64(len(b))
}

// newSupplement begins a supplement.
func newSupplement(w io.Writer) *supplementWriter {
	s := &supplementWriter{w: w, sum: newHasher(), journal: newHasher()}
	s.buf = append(s.buf, supplementMagic...)
	s.buf = binary.LittleEndian.AppendUint64(s.buf, supplementVersion)
	return s
}

// add takes in the next item, and its record in the queue's file.
func (s *supplementWriter) add(it *engine.Item, stands engine.Standing, record []byte) error {
	s.journal.add(record)
	var fields byte
	for i, has := range [...]bool{
		it.Flags != 0, it.HasKey(), stands.Due != 0, stands.Token != 0, stands.Count != 0, len(it.Origin()) > 0,
	} {
		if has {
			fields |= 1 << i
		}
	}
	if fields == 0 {
		s.plain++
		return nil
	}
	s.buf = append(binary.AppendUvarint(s.buf, s.plain), fields)
	if fields&hasFlags != 0 {
		s.buf = binary.AppendUvarint(s.buf, uint64(it.Flags))
	}
	if fields&hasKey != 0 {
		s.buf = append(append(s.buf, byte(len(it.Key()))), it.Key()...)
	}
	if fields&hasDue != 0 {
		s.buf = binary.AppendUvarint(s.buf, uint64(max(stands.Due, 1)))
	}
	if fields&hasToken != 0 {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, stands.Token)
	}
	if fields&hasCount != 0 {
		s.buf = binary.AppendUvarint(s.buf, uint64(stands.Count))
	}
	if fields&hasOrigin != 0 {
		s.buf = append(s.buf, byte(it.Why()), byte(len(it.Origin())))
		s.buf = append(s.buf, it.Origin()...)
	}
	s.plain = 0
	s.rich++
	if len(s.buf) < 1<<16 {
		return nil
	}
	return s.write()
}

func (s *supplementWriter) write() error {
	s.sum.add(s.buf)
	_, err := s.w.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// end writes what is left of the supplement.
func (s *supplementWriter) end() error {
	for _, n := range []uint64{s.rich, s.journal.size, s.journal.sum.Sum64()} {
		s.buf = binary.LittleEndian.AppendUint64(s.buf, n)
	}
	if err := s.write(); err != nil {
		return err
	}
	_, err := s.w.Write(binary.LittleEndian.AppendUint64(nil, s.sum.sum.Sum64()))
	return err
}

// supplement is one that has been checked. It stays on disk: it is as long as its queue has items.
type supplement struct {
	name string // of the file; "" for that of a queue without one
	size int64  // bytes
	rich uint64 // entries

	// Of the queue's file, as it was exported.
	journalSize, journalSum uint64
}

// errSupplement says that a file is not what its supplement says of it.
var errSupplement = errors.New("is not as it was exported")

// loadSupplement returns the supplement of q, whose files are in dir. It checks all of it, and the file of the queue.
func loadSupplement(dir string, q *oldjournal.Queue) (none supplement, err error) {
	name := filepath.Join(dir, supplementName(q.Queue))
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	defer f.Close()
	broken := func(err error) error { return fmt.Errorf("%s, of the queue %q: %w", name, q.Queue, err) }
	info, err := f.Stat()
	if err != nil {
		return none, err
	}
	s, err := parseSupplement(f, info.Size())
	if err != nil {
		return none, broken(err)
	}
	for _, file := range q.Names {
		if file != q.Queue {
			return none, fmt.Errorf("%s %w: the original has changed the queue %q since", filepath.Join(dir, file),
				errSupplement, q.Queue)
		}
	}
	now, err := sumOf(filepath.Join(dir, q.Queue))
	if err != nil {
		return none, err
	}
	if now.size != s.journalSize || now.sum.Sum64() != s.journalSum {
		return none, fmt.Errorf("%s %w: it has %d bytes, and had %d or other contents", filepath.Join(dir, q.Queue),
			errSupplement, now.size, s.journalSize)
	}
	if err := s.check(f, len(q.Items)); err != nil {
		return none, broken(err)
	}
	s.name = name
	return s, nil
}

func sumOf(name string) (h hasher, err error) {
	f, err := os.Open(name)
	if err != nil {
		return h, err
	}
	defer f.Close()
	h = newHasher()
	n, err := io.Copy(h.sum, f)
	h.size = uint64(n)
	return h, err
}

var errSupplementDamaged = errors.New("the supplement is damaged")

// parseSupplement checks the sum of a supplement of size bytes.
func parseSupplement(r io.ReaderAt, size int64) (s supplement, err error) {
	var head [supplementHead]byte
	var tail [supplementTail]byte
	if size < supplementHead+supplementTail {
		return s, errSupplementDamaged
	}
	whole := newHasher()
	if _, err := io.Copy(whole.sum, io.NewSectionReader(r, 0, size-8)); err != nil {
		return s, err
	}
	for at, part := range map[int64][]byte{0: head[:], size - supplementTail: tail[:]} {
		if _, err := io.ReadFull(io.NewSectionReader(r, at, int64(len(part))), part); err != nil {
			return s, cut(err)
		}
	}
	if string(head[:8]) != supplementMagic {
		return s, errSupplementDamaged
	}
	if v := binary.LittleEndian.Uint64(head[8:]); v != supplementVersion {
		return s, fmt.Errorf("a newer release wrote the supplement, in version %d: use that release", v)
	}
	if binary.LittleEndian.Uint64(tail[24:]) != whole.sum.Sum64() {
		return s, errSupplementDamaged
	}
	return supplement{
		size: size, rich: binary.LittleEndian.Uint64(tail[:]),
		journalSize: binary.LittleEndian.Uint64(tail[8:]), journalSum: binary.LittleEndian.Uint64(tail[16:]),
	}, nil
}

// cut returns the error for a supplement that ended before its time, if err says so.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errSupplementDamaged
	}
	return err
}

// check looks at the entries of a supplement of a queue with so many items.
func (s *supplement) check(r io.ReaderAt, items int) error {
	all, err := s.entries(r)
	if err != nil {
		return err
	}
	for range items {
		if _, _, err := all.item(engine.Item{}); err != nil {
			return err
		}
	}
	if all.rich != 0 {
		return errSupplementDamaged
	}
	return nil
}

// open opens the entries of a supplement that has been loaded, from the first one on. Close them.
func (s *supplement) open() (*entries, error) {
	if s.name == "" {
		return &entries{}, nil
	}
	f, err := os.Open(s.name)
	if err != nil {
		return nil, err
	}
	all, err := s.entries(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	all.file = f
	return all, nil
}

// entries returns the entries of the supplement that r reads.
func (s *supplement) entries(r io.ReaderAt) (*entries, error) {
	section := io.NewSectionReader(r, supplementHead, s.size-supplementHead-supplementTail)
	all := &entries{in: bufio.NewReader(section), rich: s.rich}
	return all, all.begin()
}

// entries read what a supplement says of the items of its queue, one after the other. The zero value says nothing.
type entries struct {
	file *os.File // that Close closes; nil: none
	in   *bufio.Reader
	next uint64 // items before the next entry
	rich uint64 // entries that are left

	key, origin [256]byte // of the item at hand
}

// Close closes the file.
func (s *entries) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}

// begin reads how many plain items come before the next entry.
func (s *entries) begin() (err error) {
	if s.rich > 0 {
		s.next, err = s.uvarint()
	} else if _, err = s.in.Peek(1); err == io.EOF {
		err = nil
	} else if err == nil {
		err = errSupplementDamaged
	}
	return err
}

func (s *entries) uvarint() (uint64, error) {
	b, err := s.in.Peek(binary.MaxVarintLen64)
	if err != nil && err != io.EOF {
		return 0, err
	}
	v, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, errSupplementDamaged
	}
	_, err = s.in.Discard(n)
	return v, err
}

// take reads the next bytes.
func (s *entries) take(into []byte) error {
	_, err := io.ReadFull(s.in, into)
	return cut(err)
}

// sized reads bytes behind a byte that counts them.
func (s *entries) sized(into *[256]byte) ([]byte, error) {
	n, err := s.in.ReadByte()
	if err != nil {
		return nil, cut(err)
	}
	return into[:n], s.take(into[:n])
}

// item adds to it, the next item of the queue's file, what the supplement says of it.
func (s *entries) item(it engine.Item) (_ engine.Item, stands engine.Standing, err error) {
	if s.rich == 0 {
		return it, stands, nil
	}
	if s.next > 0 {
		s.next--
		return it, stands, nil
	}
	fields, err := s.in.ReadByte()
	if err == nil && (fields == 0 || fields&^hasFields != 0) {
		err = errSupplementDamaged
	}
	if err != nil {
		return it, stands, cut(err)
	}
	var key, origin []byte
	var why engine.Why
	number := func(field byte, most uint64) (n uint64) {
		if err == nil && fields&field != 0 {
			if n, err = s.uvarint(); err == nil && n > most {
				err = errSupplementDamaged
			}
		}
		return n
	}
	it.Flags = uint32(number(hasFlags, math.MaxUint32))
	if err == nil && fields&hasKey != 0 {
		if key, err = s.sized(&s.key); err == nil && engine.ValidateKey(key) != nil {
			err = errSupplementDamaged
		}
	}
	stands.Due = engine.Time(number(hasDue, math.MaxInt64))
	if err == nil && fields&hasToken != 0 {
		var token [8]byte
		err = s.take(token[:])
		stands.Token = binary.LittleEndian.Uint64(token[:])
	}
	stands.Count = uint16(number(hasCount, math.MaxUint16))
	if err == nil && fields&hasOrigin != 0 {
		var b [1]byte
		if err = s.take(b[:]); err == nil {
			why = engine.Why(b[0])
			origin, err = s.sized(&s.origin)
		}
		if err == nil && (why != engine.TooOften && why != engine.Rejected || len(origin) == 0) {
			err = errSupplementDamaged
		}
	}
	if err != nil {
		return it, stands, err
	}
	if len(key)+len(origin) > 0 {
		it = it.With(nil, key, string(origin), why)
	}
	s.rich--
	return it, stands, s.begin()
}
