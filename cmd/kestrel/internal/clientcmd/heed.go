package clientcmd

import (
	"context"
	"io"
)

// heedingReader reads from in until ctx ends. Then a Read that waits returns why: a signal ends a command also while
// nothing comes. It is for one goroutine, and what it reads is lost if ctx ends meanwhile.
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
