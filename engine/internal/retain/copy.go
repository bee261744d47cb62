package retain

import (
	"fmt"
	"io"

	"github.com/kestrelmq/kestrel/engine/internal/processor"
	"github.com/kestrelmq/kestrel/segment"
)

// copyPiece is how many bytes of a file are read at a time. They are read past the page cache. The kernel would
// fill that in bursts, and the syncs of clients would wait behind these. It would also drop what others have read.
const copyPiece = 64 << 10

// Copier copies files. It is not safe for concurrent use.
type Copier struct {
	FS  segment.FS
	buf []byte
}

// Copy writes the first size bytes of a file to w. The slices that w gets are good during the call. Before each piece it
// asks stop, and returns its error.
func (c *Copier) Copy(w io.Writer, name string, size int64, stop func() error) error {
	file, err := segment.Uncached(c.FS).OpenReadOnly(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if c.buf == nil {
		c.buf = segment.BlockBuffer(copyPiece)[:copyPiece]
	}
	for off := int64(0); off < size; {
		if err := stop(); err != nil {
			return err
		}
		p := c.buf[:min(int64(len(c.buf)), size-off)]
		if n, err := file.ReadAt(c.buf[:segment.WholeBlocks(len(p))], off); n < len(p) {
			return fmt.Errorf("read %d bytes at offset %d: %w", len(p), off, segment.Cause(err))
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		off += int64(len(p))
		processor.Yield()
	}
	return nil
}

// Head returns the first bytes of a file.
func (c *Copier) Head(name string) (head [segment.HeadSize]byte, err error) {
	file, err := c.FS.OpenReadOnly(name)
	if err != nil {
		return head, err
	}
	defer file.Close()
	if n, err := file.ReadAt(head[:], 0); n < len(head) {
		return head, fmt.Errorf("read the header of %s: %w", name, segment.Cause(err))
	}
	return head, nil
}
