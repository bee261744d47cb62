package netloop

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/netloop/ports"
	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// This file opens the ports, and accepts or refuses connections.

// protocols are those that the server speaks, by name.
var protocols = map[string]protocol{
	ProtocolMemcache: memcacheProtocol{},
	ProtocolText:     textProtocol{},
	ProtocolThrift:   thriftProtocol{},
	ProtocolBurrow:   burrowProtocol{},
}

// listener is a port that a protocol is spoken on.
type listener struct {
	*ports.Port
	proto     protocol
	auth      Auth
	tls       *tls.Config // nil: plain
	account   string      // of Listener
	origins   []string    // likewise
	withKey   bool        // replies to GETs repeat the whole key
	refusedAt time.Time   // when a peer that the port does not admit was logged last; of the accepting goroutine
	unlogged  int64       // refused since then
}

// open opens the port of l.
func (o *Options) open(l *Listener) (*listener, error) {
	spec := l.Port
	if spec.Backlog == 0 {
		spec.Backlog = o.Backlog
	}
	port, err := ports.Open(spec, o.Listen)
	if err != nil {
		return nil, err
	}
	return &listener{
		Port: port, proto: protocols[l.Protocol], auth: l.Auth, tls: l.TLS, account: l.Account, origins: l.Origins,
		withKey: l.ReplyKey.orDefault(o.ReplyWithKey),
	}, nil
}

// logRefused logs that a peer is not in allow_from, once a second at most.
func (s *Server) logRefused(ln *listener, peer net.Addr) {
	ln.unlogged++
	if now := time.Now(); now.Sub(ln.refusedAt) >= logInterval {
		s.log.Warn("connection refused: its address is not in allow_from", "listener", ln.Name(),
			"peer", peer.String(), "count", ln.unlogged)
		ln.refusedAt, ln.unlogged = now, 0
	}
}

// accept takes in connections until the listener is closed.
func (s *Server) accept(ln *listener) {
	pause := time.Duration(0)
	for {
		nc, err := ln.AcceptFrom(func(peer net.Addr) { s.logRefused(ln, peer) })
		switch {
		case err == nil:
			pause = 0
			s.admit(ln, nc)
		case errors.Is(err, net.ErrClosed):
			return
		default: // out of descriptors, or of memory: it may pass
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("accept connection: trying again after a pause", "addr", ln.Name(), "err", err, "pause", pause)
			select {
			case <-time.After(pause):
			case <-s.stopping:
			}
		}
	}
}

// admit gives a connection to an event loop, unless there are too many.
func (s *Server) admit(ln *listener, nc net.Conn) {
	if !ln.Enter() {
		s.refused.Add(1)
		refuse(nc, ln.tooMany())
		return
	}
	count, ok := s.enter()
	if !ok {
		ln.Leave()
		refuse(nc, ln.tooMany())
		return
	}
	if ln.tls != nil {
		s.shake(ln, nc, count)
		return
	}
	id, _ := s.identityOf(ln, nc, nil, s.clock.now())
	s.assign(ln, nc, count, id, nil)
}

// enter counts a connection as open, unless there are too many, and returns how many there are then.
func (s *Server) enter() (count int64, ok bool) {
	count = s.connections.Add(1)
	if count > int64(s.opts.MaxConnections) {
		s.connections.Add(-1)
		s.refused.Add(1)
		return count, false
	}
	return count, true
}

// tooMany is what a connection over the limit gets. Over TLS it gets nothing: a handshake would cost too much.
func (ln *listener) tooMany() []byte {
	if ln.tls != nil {
		return nil
	}
	return ln.proto.tooMany()
}

// identityOf is who the peer of a connection is, which began at began and showed a certificate with these names. It
// is false if the peer may not connect.
func (s *Server) identityOf(ln *listener, nc net.Conn, names []string, began moment) (id identity, ok bool) {
	id = identity{
		unknown: ln.auth.Asks(), until: began.after(identifyTime), from: ports.OriginOf(nc.RemoteAddr()), port: ln,
	}
	if ln.auth != AuthCertificate && ln.auth != AuthAny {
		return id, true
	}
	if u := s.opts.Access.Users().WithCertificate(names); u != nil {
		id.become(u)
		id.names = names
	}
	return id, ln.auth == AuthAny || !id.unknown
}

// shake runs the handshake of a connection, on a goroutine of its own, and then assigns it to a loop.
func (s *Server) shake(ln *listener, nc net.Conn, count int64) {
	h, e, began := &s.handshakes, s.opts.Engine, s.clock.now()
	ctx, leave := h.enter(s.ending)
	h.ended.Go(func() {
		defer leave()
		e.Account(handshakeSize)
		defer e.Account(-handshakeSize)
		nc.SetDeadline(time.Now().Add(handshakeTime))
		stream, err := sealed.Handshake(ctx, nc, ln.tls, h.slots)
		if err != nil {
			s.shakeFailed(ln, nc, "err", err.Error())
			return
		}
		id, ok := s.identityOf(ln, nc, stream.Names(), began)
		if !ok {
			s.shakeFailed(ln, nc, "err", "no user has this certificate: add its name to the certificates of a user")
			return
		}
		h.passed.Add(1)
		s.assign(ln, nc, count, id, stream)
	})
}

// shakeFailed ends a connection whose handshake has failed, and logs that once a second at most.
func (s *Server) shakeFailed(ln *listener, nc net.Conn, why ...any) {
	h := &s.handshakes
	if failed, ok := h.failed.due(s.clock.now()); ok {
		s.log.Warn("TLS handshake failed", append([]any{"listener", ln.Name(), "peer", nc.RemoteAddr().String(),
			"failed", failed}, why...)...)
	}
	nc.Close()
	s.discount(ln)
}

// assign hands a connection, the count-th, to an event loop.
func (s *Server) assign(ln *listener, nc net.Conn, count int64, id identity, stream *sealed.Stream) {
	fd, err := takeDescriptor(nc)
	if err != nil {
		s.discount(ln)
		s.log.Warn("connection lost before it was open", "err", err)
		return
	}
	c := &conn{fd: fd, addr: nc.RemoteAddr(), listener: ln, tls: stream}
	c.session.proto = ln.proto
	c.session.local = ports.IsLocal(nc.RemoteAddr())
	c.session.id = id
	s.limit(&c.session, count)
	d := s.loops[s.admitted.Add(1)%int64(len(s.loops))]
	d.do(func() { d.take(c) })
}

// takeDescriptor closes nc and returns a descriptor of its socket.
func takeDescriptor(nc net.Conn) (fd int, err error) {
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
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
func refuse(nc net.Conn, why []byte) {
	if len(why) > 0 {
		nc.SetWriteDeadline(time.Now().Add(time.Millisecond))
		nc.Write(why)
	}
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
	nc.Close()
}

// listen opens all ports.
func (s *Server) listen() error {
	for _, l := range s.opts.all() {
		ln, err := s.opts.open(&l)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", l.Protocol, err)
		}
		s.listeners = append(s.listeners, ln)
	}
	return nil
}

func (s *Server) closeListeners() (err error) {
	for _, ln := range s.listeners {
		err = errors.Join(err, ln.Close())
	}
	return err
}

// MemcacheAddr returns the first TCP address that the memcache protocol is spoken on, or nil.
func (s *Server) MemcacheAddr() net.Addr { return s.addr(memcacheProtocol{}) }

// TextAddr returns the first TCP address that the text protocol is spoken on, or nil.
func (s *Server) TextAddr() net.Addr { return s.addr(textProtocol{}) }

// BurrowAddr returns the first TCP address that Burrow's protocol is spoken on, or nil.
func (s *Server) BurrowAddr() net.Addr { return s.addr(burrowProtocol{}) }

// ThriftAddr returns the first TCP address that the Thrift protocol is spoken on, or nil.
func (s *Server) ThriftAddr() net.Addr { return s.addr(thriftProtocol{}) }

func (s *Server) addr(p protocol) net.Addr {
	for _, ln := range s.listeners {
		if ln.proto == p && ln.Addr().Network() == "tcp" {
			return ln.Addr()
		}
	}
	return nil
}

// OpenPort is a port that the server listens on.
type OpenPort struct {
	Protocol string
	Name     string // host:port, or unix:/path
	Others   bool   // other machines can reach it
	Auth     Auth
	TLS      bool
	Counts   ports.Counts
}

// Ports returns the ports that the server listens on, in the order of its options.
func (s *Server) Ports() []OpenPort {
	var list []OpenPort
	for _, ln := range s.listeners {
		list = append(list, OpenPort{ln.proto.name(), ln.Name(), ln.IsOpenToOthers(), ln.auth, ln.tls != nil, ln.Counts()})
	}
	return list
}

// Readmit changes which peers the listeners admit, and how many connections each takes, for new connections. It
// matches listeners by protocol and address, and takes no other change in.
func (s *Server) Readmit(listeners []Listener) {
	for _, ln := range s.listeners {
		for _, l := range listeners {
			if l.Protocol == ln.proto.name() && l.Port.Address == ln.Spec().Address {
				ln.Admit(l.Port.AllowFrom, l.Port.MaxConnections)
			}
		}
	}
}
