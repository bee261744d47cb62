package oldjournal

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Entry is a record of a file, and where its data is.
type Entry struct {
	Record       // without Data
	Data   int64 // offset of the item's data
	Size   int64 // of the data, in bytes
}

// Scanner reads the records of one file front to back, and skips the data of items. Its memory is
// bounded, whatever the file says.
type Scanner struct {
	src    io.ReaderAt
	path   string
	size   int64 // of the file
	in     *bufio.Reader
	offset int64 // of the next record
}

// scanBuffer is how many bytes of a file are read at once.
const scanBuffer = 64 << 10

// NewScanner returns a Scanner of a file of size bytes, which path names in errors.
func NewScanner(src io.ReaderAt, path string, size int64) *Scanner {
	in := bufio.NewReaderSize(io.NewSectionReader(src, 0, size), scanBuffer)
	return &Scanner{src: src, path: path, size: size, in: in}
}

// Next reads the next record into e. It returns io.EOF behind the last one, a *BreakError where no
// record is, and an error of the file as it is. After an error it is not called again.
func (s *Scanner) Next(e *Entry) error {
	head, err := s.in.Peek(maxHeader)
	if err != nil && err != io.EOF {
		return unreadable(s.path, err)
	}
	if len(head) == 0 {
		return io.EOF
	}
	size, err := decodeHeader(head, &e.Record)
	header, _ := e.Op.header()
	left := s.size - s.offset - int64(header)
	if err == nil && size > left {
		err = ErrIncomplete
	}
	if err != nil {
		return s.broken(Op(head[0]), err)
	}
	e.Data, e.Size = s.offset+int64(header), size
	return s.skip(int64(header) + size)
}

// skip goes n bytes on, which are in the file.
func (s *Scanner) skip(n int64) error {
	s.offset += n
	if n > 1<<20 { // not worth reading
		s.in.Reset(io.NewSectionReader(s.src, s.offset, s.size-s.offset))
		return nil
	}
	if _, err := s.in.Discard(int(n)); err != nil {
		return unreadable(s.path, err)
	}
	return nil
}

// A BreakError is how a Scanner says that what follows is not a record.
type BreakError struct {
	Break
	// Torn says that the break looks like the end of a file that was being written. The last record is cut short, or
	// there are zeros to the end, and no whole item is behind it.
	Torn bool
}

func (e *BreakError) Error() string { return e.String() }

// broken distinguishes a torn end from damage.
func (s *Scanner) broken(op Op, why error) error {
	b := Break{Path: s.path, Offset: s.offset, Size: s.size - s.offset, Op: op}
	var bad *RecordError
	if errors.As(why, &bad) {
		b.Reason = bad.Reason
	} else {
		b.Reason = "the file ends inside the record"
	}
	found, err := s.look()
	if err != nil {
		return unreadable(s.path, err)
	}
	switch {
	case found.zeros:
		b.Reason = "only zeros up to the end of the file"
	case found.item >= 0:
		b.Reason += fmt.Sprintf(", though an item seems to follow at offset %d", found.item)
	}
	return &BreakError{b, found.zeros || bad == nil && found.item < 0}
}

// behind is what there is behind a break.
type behind struct {
	zeros bool  // nothing but zeros
	item  int64 // offset of what looks like a whole record with an item, or -1
}

// look searches the file from the break on.
func (s *Scanner) look() (behind, error) {
	found := behind{zeros: true, item: -1}
	buf := make([]byte, scanBuffer)
	for at := s.offset; at < s.size; {
		n, err := s.src.ReadAt(buf[:min(scanBuffer, s.size-at)], at)
		if err != nil && err != io.EOF {
			return found, err
		}
		if n == 0 {
			return found, io.ErrUnexpectedEOF
		}
		block := buf[:n]
		found.zeros = found.zeros && len(bytes.Trim(block, "\x00")) == 0
		last := at+int64(n) == s.size
		end := n - maxHeader + 1 // a record that starts before it has its header in the block
		if last {
			end = n
		}
		for i := range end {
			if start := at + int64(i); start > s.offset && s.looksLikeItem(block[i:], start) {
				found.item = start
				return found, nil
			}
		}
		if last {
			break
		}
		at += int64(end)
	}
	return found, nil
}

// When items can have been added, in ms since the Unix epoch: the original is from 2008.
const (
	earliest = 1199145600000 // 2008
	latest   = 4102444800000 // 2100
)

// looksLikeItem reports whether a whole record that adds an item, at a time that is no nonsense,
// starts with b at offset at.
func (s *Scanner) looksLikeItem(b []byte, at int64) bool {
	switch Op(b[0]) {
	case OpAddX, OpAddXID, OpContinue:
	default:
		return false
	}
	var rec Record
	size, err := decodeHeader(b[:min(len(b), maxHeader)], &rec)
	header, _ := rec.Op.header()
	return err == nil && rec.Added >= earliest && rec.Added < latest &&
		size <= s.size-at-int64(header)
}
