package netloop

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// listener is one port that a protocol is spoken on.
type listener struct {
	net.Listener
	proto protocol
}

// openPort opens addr for a protocol.
func (o *Options) openPort(addr string, proto protocol) (*listener, error) {
	ln, err := o.Listen(addr)
	if err != nil {
		return nil, err
	}
	if o.Backlog > 0 {
		if err := setBacklog(ln.(*net.TCPListener), o.Backlog); err != nil {
			ln.Close()
			return nil, err
		}
	}
	return &listener{ln, proto}, nil
}

// setBacklog changes the length of the queue of connections that are not accepted yet.
func setBacklog(ln *net.TCPListener, backlog int) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), backlog) })
	return errors.Join(err, failed)
}

// accept takes in connections until the listener is closed.
func (s *Server) accept(ln *listener) {
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.admit(ln, nc.(*net.TCPConn))
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, or of memory: it may pass
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accept connection", "addr", ln.Addr().String(), "err", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-s.stopping:
			}
		}
	}
}

// admit gives a connection to an event loop, unless there are too many.
func (s *Server) admit(ln *listener, nc *net.TCPConn) {
	count := s.connections.Add(1)
	if count > int64(s.opts.MaxConnections) {
		s.connections.Add(-1)
		s.refused.Add(1)
		refuse(nc, ln.proto.tooMany())
		return
	}
	fd, err := takeDescriptor(nc)
	if err != nil {
		s.connections.Add(-1)
		s.log.Warn("connection lost before it was open", "err", err)
		return
	}
	c := &conn{fd: fd, addr: nc.RemoteAddr()}
	c.session.proto = ln.proto
	c.session.local = isLocal(nc.RemoteAddr())
	s.limit(&c.session, count)
	d := s.loops[s.admitted.Add(1)%int64(len(s.loops))]
	d.do(func() { d.take(c) })
}

// takeDescriptor closes nc and returns a descriptor of its socket.
func takeDescriptor(nc *net.TCPConn) (fd int, err error) {
	defer nc.Close()
	raw, err := nc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(own uintptr) {
		fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0)
	})
	return fd, errors.Join(err, failed)
}

// limit decides, once for all of its life, what a session that is the count-th may do.
func (s *Server) limit(c *session, count int64) {
	over := func(limit int) bool { return limit > 0 && count > int64(limit) }
	c.refuseReads = over(s.opts.RefuseReadsOver)
	c.refuseWrites = over(s.opts.RefuseWritesOver)
}

// refuse sends a connection the reason why it is refused, without ever waiting for it, and closes it.
func refuse(nc *net.TCPConn, why []byte) {
	if len(why) > 0 {
		nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
		nc.Write(why)
	}
	nc.CloseWrite()
	nc.Close()
}

// isLocal reports whether an address is one of this machine's own, for itself.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
