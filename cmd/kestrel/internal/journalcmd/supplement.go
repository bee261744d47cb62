package journalcmd

import (
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
	return s.flush()
}

func (s *supplementWriter) flush() error {
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
	if err := s.flush(); err != nil {
		return err
	}
	_, err := s.w.Write(binary.LittleEndian.AppendUint64(nil, s.sum.sum.Sum64()))
	return err
}

// supplement is what one says of the items of its queue.
type supplement struct {
	left []byte // of its entries
	next uint64 // items before the next entry
	rich uint64 // entries that are left
}

// errSupplement says that a file is not what its supplement says of it.
var errSupplement = errors.New("is not as it was exported")

// loadSupplement returns the supplement of q, whose files are in dir; nil if it has none. It checks all of it, and
// the file of the queue.
func loadSupplement(dir string, q *oldjournal.Queue) (*supplement, error) {
	name := filepath.Join(dir, supplementName(q.Queue))
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	broken := func(err error) error { return fmt.Errorf("%s, of the queue %q: %w", name, q.Queue, err) }
	all, size, sum, err := parseSupplement(b)
	if err != nil {
		return nil, broken(err)
	}
	for _, file := range q.Names {
		if file != q.Queue {
			return nil, fmt.Errorf("%s %w: the original has changed the queue %q since", filepath.Join(dir, file),
				errSupplement, q.Queue)
		}
	}
	now, err := sumOf(filepath.Join(dir, q.Queue))
	if err != nil {
		return nil, err
	}
	if now.size != size || now.sum.Sum64() != sum {
		return nil, fmt.Errorf("%s %w: it has %d bytes, and had %d or other contents", filepath.Join(dir, q.Queue),
			errSupplement, now.size, size)
	}
	if err := all.check(len(q.Items)); err != nil {
		return nil, broken(err)
	}
	return all, nil
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

// parseSupplement checks the sum of a supplement. It returns the size and the sum of the queue's file too.
func parseSupplement(b []byte) (s *supplement, size, sum uint64, err error) {
	if len(b) < supplementHead+supplementTail || string(b[:8]) != supplementMagic {
		return nil, 0, 0, errSupplementDamaged
	}
	if v := binary.LittleEndian.Uint64(b[8:]); v != supplementVersion {
		return nil, 0, 0, fmt.Errorf("a newer release wrote the supplement, in version %d: use that release", v)
	}
	whole := newHasher()
	whole.add(b[:len(b)-8])
	tail := b[len(b)-supplementTail:]
	if binary.LittleEndian.Uint64(tail[24:]) != whole.sum.Sum64() {
		return nil, 0, 0, errSupplementDamaged
	}
	s = &supplement{left: b[supplementHead : len(b)-supplementTail], rich: binary.LittleEndian.Uint64(tail)}
	if err := s.begin(); err != nil {
		return nil, 0, 0, err
	}
	return s, binary.LittleEndian.Uint64(tail[8:]), binary.LittleEndian.Uint64(tail[16:]), nil
}

// check looks at the entries of a supplement of a queue with so many items.
func (s *supplement) check(items int) error {
	all := *s
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

// begin reads how many plain items come before the next entry.
func (s *supplement) begin() (err error) {
	if s.rich > 0 {
		s.next, err = s.uvarint()
	} else if len(s.left) > 0 {
		err = errSupplementDamaged
	}
	return err
}

func (s *supplement) uvarint() (uint64, error) {
	v, n := binary.Uvarint(s.left)
	if n <= 0 {
		return 0, errSupplementDamaged
	}
	s.left = s.left[n:]
	return v, nil
}

// take returns the next n bytes.
func (s *supplement) take(n int) ([]byte, error) {
	if n > len(s.left) {
		return nil, errSupplementDamaged
	}
	b := s.left[:n]
	s.left = s.left[n:]
	return b, nil
}

// sized returns bytes behind a byte that counts them.
func (s *supplement) sized() ([]byte, error) {
	n, err := s.take(1)
	if err != nil {
		return nil, err
	}
	return s.take(int(n[0]))
}

// item adds to it, the next item of the queue's file, what the supplement says of it.
func (s *supplement) item(it engine.Item) (_ engine.Item, stands engine.Standing, err error) {
	if s == nil || s.rich == 0 {
		return it, stands, nil
	}
	if s.next > 0 {
		s.next--
		return it, stands, nil
	}
	fields, err := s.take(1)
	if err != nil || fields[0] == 0 || fields[0]&^hasFields != 0 {
		return it, stands, errSupplementDamaged
	}
	var key, origin []byte
	var why engine.Why
	number := func(field byte, most uint64) (n uint64) {
		if err == nil && fields[0]&field != 0 {
			if n, err = s.uvarint(); err == nil && n > most {
				err = errSupplementDamaged
			}
		}
		return n
	}
	it.Flags = uint32(number(hasFlags, math.MaxUint32))
	if err == nil && fields[0]&hasKey != 0 {
		if key, err = s.sized(); err == nil && engine.ValidateKey(key) != nil {
			err = errSupplementDamaged
		}
	}
	stands.Due = engine.Time(number(hasDue, math.MaxInt64))
	if err == nil && fields[0]&hasToken != 0 {
		var token []byte
		if token, err = s.take(8); err == nil {
			stands.Token = binary.LittleEndian.Uint64(token)
		}
	}
	stands.Count = uint16(number(hasCount, math.MaxUint16))
	if err == nil && fields[0]&hasOrigin != 0 {
		var b []byte
		if b, err = s.take(1); err == nil {
			why = engine.Why(b[0])
			origin, err = s.sized()
		}
		if why != engine.TooOften && why != engine.Rejected || len(origin) == 0 {
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
