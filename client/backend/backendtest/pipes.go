package backendtest

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Pipes is a listener whose connections are in memory, so that servers and clients live in fake time.
type Pipes struct {
	conns chan net.Conn
	ended chan struct{}
	once  sync.Once
}

// NewPipes returns a listener.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), ended: make(chan struct{})} }

// ErrNobody is the error of a Dial once the listener is closed.
var ErrNobody = errors.New("nobody listens")

// Dial connects to the listener.
func (l *Pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.ended:
		return nil, ErrNobody
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (l *Pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Pipes) Close() error {
	l.once.Do(func() { close(l.ended) })
	return nil
}

// Addr implements net.Listener.
func (l *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
