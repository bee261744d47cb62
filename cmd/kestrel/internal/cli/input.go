package cli

import (
	"context"
	"errors"
	"io"
)

// MaxItem is how many bytes an item has at most: no server takes a larger one.
const MaxItem = 32 << 20

// ErrItemTooLarge refuses an item before more of it is kept.
var ErrItemTooLarge = errors.New("it is larger than 32 MiB, which no server takes")

// ReadItem reads all of r as one item. It returns [ErrItemTooLarge] of what never ends, such as /dev/zero.
func ReadItem(r io.Reader) ([]byte, error) {
	item, err := io.ReadAll(io.LimitReader(r, MaxItem+1))
	if err == nil && len(item) > MaxItem {
		return nil, ErrItemTooLarge
	}
	return item, err
}

// Heed returns a reader that reads from in until ctx ends. Then a Read that waits returns why: a signal ends a command
// also while nothing comes. It is for one goroutine, and what it reads is lost if ctx ends meanwhile.
func Heed(ctx context.Context, in io.Reader) io.Reader { return &heedingReader{ctx: ctx, in: in} }

type heedingReader struct {
	ctx context.Context
	in  io.Reader
	buf []byte
}

// Read implements io.Reader.
func (r *heedingReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	if len(r.buf) < len(p) {
		r.buf = make([]byte, len(p))
	}
	type outcome struct {
		n   int
		err error
	}
	read := make(chan outcome, 1)
	buf := r.buf[:len(p)] // a Read that is left behind may still write to it
	go func() {
		n, err := r.in.Read(buf)
		read <- outcome{n, err}
	}()
	select {
	case o := <-read:
		return copy(p, buf[:o.n]), o.err
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	}
}
