package ports

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// DefaultMode is the mode of a Unix socket: programs of the same user may connect.
const DefaultMode fs.FileMode = 0o600

// Spec describes a port.
type Spec struct {
	Address string // host:port, [::]:port or unix:/path
	// Mode and Group are those of a Unix socket's file. Mode zero is DefaultMode; Group "" leaves it.
	Mode  fs.FileMode
	Group string
	// Backlog is the length of the queue of connections not yet accepted; zero leaves it to the system.
	Backlog int
	// AllowFrom are the networks that peers may come from; none admits all. A Unix socket has no such networks.
	AllowFrom []netip.Prefix
	// MaxConnections bounds the connections of this port; zero does not.
	MaxConnections int
}

// Port is an open port. Its methods may be called from any goroutine.
type Port struct {
	net.Listener
	spec    Spec
	path    string // of the Unix socket; "" for TCP
	allowed atomic.Pointer[[]netip.Prefix]
	limit   atomic.Int64
	open    atomic.Int64 // connections; see Enter
	refused atomic.Int64 // peers that are not in AllowFrom
	over    atomic.Int64 // connections over the limit
}

// Open opens a port. ListenTCP opens an address for TCP.
func Open(spec Spec, listenTCP func(addr string) (net.Listener, error)) (*Port, error) {
	var ln net.Listener
	var err error
	if IsUnix(spec.Address) {
		ln, err = listenUnix(UnixPath(spec.Address), spec)
	} else {
		ln, err = listenTCP(spec.Address)
	}
	if err != nil {
		return nil, err
	}
	p := Wrap(ln, spec)
	if spec.Backlog > 0 {
		if err := p.setBacklog(spec.Backlog); err != nil {
			return nil, errors.Join(err, p.Close())
		}
	}
	return p, nil
}

// Wrap makes a port of a listener that is open.
func Wrap(ln net.Listener, spec Spec) *Port {
	p := &Port{Listener: ln, spec: spec}
	if IsUnix(spec.Address) {
		p.path = UnixPath(spec.Address)
	}
	p.Admit(spec.AllowFrom, spec.MaxConnections)
	return p
}

// setBacklog changes the length of the queue of connections that are not accepted yet.
func (p *Port) setBacklog(backlog int) error {
	raw, err := rawOf(p.Listener)
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.Listen(int(fd), backlog) })
	return errors.Join(err, failed)
}

// Spec returns what the port was opened with.
func (p *Port) Spec() Spec { return p.spec }

// Admit changes which peers the port admits, and how many connections it takes; see Spec. It concerns new
// connections only.
func (p *Port) Admit(from []netip.Prefix, most int) {
	from = slices.Clone(from)
	p.allowed.Store(&from)
	p.limit.Store(int64(most))
}

// AcceptFrom waits for a connection of a peer that the port admits. It closes others before a byte of them is read,
// and calls refused with each.
func (p *Port) AcceptFrom(refused func(peer net.Addr)) (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if p.admits(c.RemoteAddr()) {
			return c, nil
		}
		p.refused.Add(1)
		c.Close()
		refused(c.RemoteAddr())
	}
}

func (p *Port) admits(peer net.Addr) bool {
	from := *p.allowed.Load()
	if len(from) == 0 || p.path != "" {
		return true
	}
	addr, ok := AddrOf(peer)
	return ok && slices.ContainsFunc(from, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// Enter counts a connection. If the port has as many as it takes, it counts a refusal and reports false.
func (p *Port) Enter() bool {
	if p.TryEnter() {
		return true
	}
	p.over.Add(1)
	return false
}

// TryEnter is Enter that counts no refusal: the caller may make room.
func (p *Port) TryEnter() bool {
	n, limit := p.open.Add(1), p.limit.Load()
	if limit == 0 || n <= limit {
		return true
	}
	p.open.Add(-1)
	return false
}

// IsFull reports whether the port has as many connections as it takes.
func (p *Port) IsFull() bool {
	limit := p.limit.Load()
	return limit > 0 && p.open.Load() >= limit
}

// Leave ends what Enter has begun.
func (p *Port) Leave() { p.open.Add(-1) }

// Counts are what a port has done.
type Counts struct {
	Open    int64 // connections of now
	Refused int64 // peers from elsewhere than AllowFrom, ever
	Over    int64 // connections over MaxConnections, ever
}

// Counts returns what the port has done.
func (p *Port) Counts() Counts {
	return Counts{Open: p.open.Load(), Refused: p.refused.Load(), Over: p.over.Load()}
}

// IsOpenToOthers reports whether other machines can reach the port.
func (p *Port) IsOpenToOthers() bool { return !IsLocal(p.Listener.Addr()) }

// Name is the address as logs and lists show it: host:port, or unix:/path.
func (p *Port) Name() string {
	if p.path != "" {
		return unixPrefix + p.path
	}
	return p.Listener.Addr().String()
}

// String describes the port for messages.
func (p *Port) String() string { return fmt.Sprintf("port %s", p.Name()) }
