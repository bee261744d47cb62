package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

const (
	readSize = 16 << 10 // bytes of input that a connection keeps room for

	// maxReply bounds one reply in bytes. Servers take items of 32 MiB; garbage may announce more.
	maxReply = 64 << 20
)

// ErrReplyTooLarge says that a server sends, or announces, more than any answer has. The connection is of no further
// use.
var ErrReplyTooLarge = errors.New("the reply is larger than any should be")

// A Dialer makes connections. The zero Dialer waits as long as the context of each call allows.
type Dialer struct {
	Timeout time.Duration // for one connection, TLS included; zero means no limit
	TLS     *tls.Config   // nil: plain TCP

	User, Password string // said first on every connection; User "" says nothing
}

// Dial connects to addr, host:port.
func (d Dialer) Dial(ctx context.Context, addr string) (*Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{tcp: nc, stream: nc}
	if d.TLS != nil {
		secured := tls.Client(nc, configFor(d.TLS, addr))
		if err := secured.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		c.stream = secured
	}
	if d.User != "" {
		if err := c.authenticate(ctx, d.User, d.Password); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// ErrAuthentication says that a server does not take the user with this password.
var ErrAuthentication = errors.New("authentication failure")

// authenticate says who the client is, by the ASCII authentication of memcached, if the server asks. A server answers
// version if it does not, or knows the client by its certificate. It would take the password for an item, and hand it to
// whoever reads the queue.
func (c *Conn) authenticate(ctx context.Context, user, password string) error {
	release := c.Guard(ctx)
	data := user + " " + password
	deadline, _ := ctx.Deadline()
	var r memcache.Reply
	err := c.ask("version\r\n", deadline, &r)
	knows := err == nil && r.Kind == memcache.KindVersion
	if err == nil && !knows && r.Kind != memcache.KindServerError { // that ends the connection
		err = c.ask(fmt.Sprintf("set auth 0 0 %d\r\n%s\r\n", len(data), data), deadline, &r)
	}
	if !release() && ctx.Err() != nil {
		return ctx.Err()
	}
	switch {
	case err != nil:
		return err
	case knows:
	case r.Kind == memcache.KindClientError || r.Kind == memcache.KindError:
		err = fmt.Errorf("%w: user %q", ErrAuthentication, user)
		if string(r.Text) != ErrAuthentication.Error() { // such as too many attempts
			err = fmt.Errorf("%w: %s", err, r.Text)
		}
		return err
	case r.Kind == memcache.KindServerError:
		return fmt.Errorf("the server answered the login of user %q with SERVER_ERROR %s", user, r.Text)
	case r.Kind != memcache.KindStored:
		return fmt.Errorf("the login of user %q: %w", user, memcache.ErrBadReply)
	}
	c.ReadUntil(time.Time{})
	return nil
}

// ask sends a request, and reads its reply.
func (c *Conn) ask(request string, deadline time.Time, r *memcache.Reply) error {
	if err := c.Write([]byte(request), deadline); err != nil {
		return err
	}
	c.ReadUntil(deadline)
	return c.Read(r)
}

// configFor is config with the name of the server, which certificates are compared with.
func configFor(config *tls.Config, addr string) *tls.Config {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || config.ServerName != "" {
		return config
	}
	config = config.Clone()
	config.ServerName = host
	return config
}

// Conn is one connection.
type Conn struct {
	tcp    net.Conn    // the socket
	stream net.Conn    // what is said on it: the socket itself, or TLS
	broken atomic.Bool // a write has failed

	// Owned by the caller of ReadUntil, Renew and Write.
	readBy, writeBy time.Time // the deadlines in force; zero: none

	// Owned by the reader.
	in         []byte
	begin, end int // in[begin:end] has come and is not consumed
}

// Write sends p, until deadline at most.
func (c *Conn) Write(p []byte, deadline time.Time) error {
	if err := c.stream.SetWriteDeadline(deadline); err != nil {
		return err
	}
	c.writeBy = deadline
	return c.Send(p)
}

// Send sends p, within the deadline in force.
func (c *Conn) Send(p []byte) error {
	_, err := c.stream.Write(p)
	if err != nil {
		c.broken.Store(true)
	}
	return err
}

// ReadUntil sets the time at which a Read that waits fails; zero means never.
func (c *Conn) ReadUntil(deadline time.Time) {
	c.stream.SetReadDeadline(deadline)
	c.readBy = deadline
}

// Renew gives Read and Send at least so long from now, and at most a quarter more. It sets deadlines only when it must,
// because that costs as much as a small reply does.
func (c *Conn) Renew(now time.Time, atLeast time.Duration) {
	need, by := now.Add(atLeast), now.Add(atLeast+atLeast/4)
	in := func(deadline time.Time) bool { return !deadline.Before(need) && !deadline.After(by) }
	if in(c.readBy) && in(c.writeBy) {
		return
	}
	c.stream.SetDeadline(by)
	c.readBy, c.writeBy = by, by
}

// InTime reports whether the deadline of reads has not passed.
func (c *Conn) InTime(now time.Time) bool { return c.readBy.IsZero() || now.Before(c.readBy) }

// Read waits for the next reply. The slices of r are valid until the next Read. An error means that
// the connection is of no further use; io.EOF, that the server has closed it between two replies.
func (c *Conn) Read(r *memcache.Reply) error { return c.read(r, false) }

// Stored takes replies that say STORED, most at most, as far as they have come, and returns how many. It leaves any other
// for Read, and does not wait. After a batch of puts nearly all replies are these, and cost a comparison here.
func (c *Conn) Stored(most int) (n int) {
	for n < most && c.end-c.begin >= len(memcache.ReplyStored) &&
		string(c.in[c.begin:c.begin+len(memcache.ReplyStored)]) == memcache.ReplyStored {
		c.begin += len(memcache.ReplyStored)
		n++
	}
	return n
}

// ReadListed is Read for the next value of a list, or what ends the list.
func (c *Conn) ReadListed(r *memcache.Reply) error { return c.read(r, true) }

func (c *Conn) read(r *memcache.Reply, listed bool) error {
	for {
		if c.begin < c.end {
			var (
				n   int
				err error
			)
			if listed {
				n, err = memcache.DecodeListed(c.in[c.begin:c.end], r)
			} else {
				n, err = memcache.DecodeReply(c.in[c.begin:c.end], r)
			}
			if err == nil {
				c.begin += n
				return nil
			}
			if err != memcache.ErrIncomplete {
				return err
			}
			if r.Need > maxReply {
				return fmt.Errorf("%w: more than 64 MiB", ErrReplyTooLarge)
			}
		}
		if err := c.fill(); err != nil {
			if err == io.EOF && c.begin < c.end {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
}

// fill receives more. The buffer doubles when it is full, so it grows with what has come and not with what a server
// announces. It shrinks when all of it has been consumed.
func (c *Conn) fill() error {
	switch {
	case c.begin == c.end && (c.in == nil || len(c.in) > readSize):
		c.in, c.begin, c.end = make([]byte, readSize), 0, 0
	case c.begin == c.end:
		c.begin, c.end = 0, 0
	case c.end == len(c.in) && c.begin > len(c.in)/2:
		c.end = copy(c.in, c.in[c.begin:c.end])
		c.begin = 0
	case c.end == len(c.in):
		grown := make([]byte, 2*len(c.in))
		c.end = copy(grown, c.in[c.begin:c.end])
		c.in, c.begin = grown, 0
	}
	n, err := c.stream.Read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	return err
}

// Quiet reports whether the connection is as it should be between two requests: open, with nothing
// to read. It does not wait.
func (c *Conn) Quiet() bool {
	if c.begin < c.end {
		return false
	}
	sc, ok := c.tcp.(*net.TCPConn)
	if !ok {
		return true
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = err == unix.EAGAIN || err == unix.EWOULDBLOCK
	})
	return err == nil && quiet
}

// Close ends the connection, and whatever waits on it.
func (c *Conn) Close() {
	if c.broken.Load() {
		c.tcp.Close() // else TLS waits for seconds to say farewell
	}
	c.stream.Close()
}

// Guard has the end of ctx close the connection. The function that it returns stops that, and
// reports whether the connection is still open.
func (c *Conn) Guard(ctx context.Context) (release func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, c.Close)
}

// TimedOut reports whether err says that a deadline passed.
func TimedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
