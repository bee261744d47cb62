package sealed

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"net"
	"time"
)

// stateSize is about how many bytes a connection takes beside its buffers: keys, and what crypto/tls keeps of the
// handshake.
const stateSize = 16 << 10

// errMore is what crypto/tls gets if no ciphertext is left. It keeps its state over an error that calls itself
// temporary, and goes on where it was.
type errMore struct{}

func (errMore) Error() string   { return "no more ciphertext has come" }
func (errMore) Timeout() bool   { return false }
func (errMore) Temporary() bool { return true }

var _ net.Error = errMore{}

// maxHandshake is how many bytes of a peer a handshake takes. crypto/tls itself would keep 256 KiB of certificates.
const maxHandshake = 64 << 10

// errTooLong ends a handshake of a peer that sends more.
var errTooLong = fmt.Errorf("the handshake is longer than %d bytes", maxHandshake)

// Stream is one side of a TLS connection. It belongs to one goroutine at a time.
type Stream struct {
	conn    *tls.Conn
	wire    wire
	drained bool // every record that has come is read
	// more says that Open had no time for all that has come, and left is what crypto/tls has not taken of it.
	more bool
	left []byte
}

// wire is what crypto/tls takes for its connection: the socket during the handshake, and then buffers.
type wire struct {
	net.Conn               // nil after the handshake
	slots    chan struct{} // of the handshake: held except while it waits for the peer
	came     int           // bytes of the handshake

	in   []byte // ciphertext that came and is not read yet; the caller's
	out  []byte // ciphertext that is to be sent
	room int    // the most that crypto/tls has asked for at once: the buffer that it keeps

	// Where what came ends: so many bytes behind the beginning of a record, 0 for the end of one. Header is its
	// header, as far as it has come.
	place  int
	header [headerSize]byte
}

// headerSize is how many bytes a record begins with; the last two are the length of what follows.
const headerSize = 5

func lengthOf(header []byte) int { return int(header[3])<<8 + int(header[4]) }

// isRecord reports whether p is one record, and whole.
func isRecord(p []byte) bool { return len(p) >= headerSize && len(p) == headerSize+lengthOf(p) }

// follow keeps place and header, behind more bytes that came.
func (w *wire) follow(p []byte) {
	for len(p) > 0 {
		n := 0
		if w.place < headerSize {
			n = copy(w.header[w.place:], p)
		} else {
			n = min(headerSize+lengthOf(w.header[:])-w.place, len(p))
		}
		p = p[n:]
		if w.place += n; w.place >= headerSize && w.place == headerSize+lengthOf(w.header[:]) {
			w.place = 0
		}
	}
}

// Handshake runs the handshake of a server on nc, until ctx is done. It computes only while it holds one of slots.
// Afterwards nc is the caller's again: the stream does not use it.
func Handshake(ctx context.Context, nc net.Conn, config *tls.Config, slots chan struct{}) (*Stream, error) {
	s := &Stream{wire: wire{Conn: nc, slots: slots}}
	s.conn = tls.Server(&s.wire, config)
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	err := s.conn.HandshakeContext(ctx)
	<-slots
	if err != nil {
		return nil, err
	}
	s.wire.Conn, s.wire.slots = nil, nil
	return s, nil
}

// Read implements net.Conn.
func (w *wire) Read(p []byte) (int, error) {
	w.room = max(w.room, len(p))
	if w.Conn != nil {
		if w.came == maxHandshake {
			return 0, errTooLong
		}
		<-w.slots
		n, err := w.Conn.Read(p[:min(len(p), maxHandshake-w.came)])
		w.slots <- struct{}{}
		w.came += n
		w.follow(p[:n])
		return n, err
	}
	if len(w.in) == 0 {
		return 0, errMore{}
	}
	n := copy(p, w.in)
	w.follow(w.in[:n])
	w.in = w.in[n:]
	return n, nil
}

// Write implements net.Conn.
func (w *wire) Write(p []byte) (int, error) {
	if w.Conn != nil {
		<-w.slots
		defer func() { w.slots <- struct{}{} }()
		return w.Conn.Write(p)
	}
	w.out = append(w.out, p...)
	return len(p), nil
}

// SetWriteDeadline implements net.Conn. Buffers have none.
func (w *wire) SetWriteDeadline(t time.Time) error {
	if w.Conn != nil {
		return w.Conn.SetWriteDeadline(t)
	}
	return nil
}

// Close implements net.Conn. After the handshake the socket is not its own.
func (w *wire) Close() error {
	if w.Conn != nil {
		return w.Conn.Close()
	}
	return nil
}

// Open appends to dst the plaintext of the ciphertext that has come before and of in, as far as its records are
// whole. It returns io.EOF behind the peer's last bytes, and another error if what came is not TLS, or was changed
// on its way. What the stream has to say to that is in Take.
//
// A peer may ask for new keys with every few bytes, and each takes longer than a large record. So Open stops when spent
// says that it has taken long enough. HasMore is true then.
func (s *Stream) Open(dst, in []byte, spent func() bool) ([]byte, error) {
	if len(s.left) > 0 {
		in = append(s.left, in...)
	}
	single := s.drained && s.wire.place == 0 && isRecord(in)
	s.wire.in, s.left, s.more, s.drained = in, nil, false, false
	for {
		if cap(dst)-len(dst) < maxPlaintext {
			dst = append(make([]byte, 0, 2*cap(dst)+2*maxPlaintext), dst...)
		}
		n, err := s.conn.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if single && n > 0 && err == nil {
			s.drained = true
			return dst, nil // that was all: one more Read would find nothing
		}
		if err != nil {
			s.wire.in = nil
			if _, more := err.(errMore); more {
				s.drained, err = true, nil
			}
			return dst, err
		}
		if spent() {
			s.more, s.left, s.wire.in = true, bytes.Clone(s.wire.in), nil
			return dst, nil
		}
	}
}

// HasMore reports whether Open has left something: it is to be called again, perhaps with nothing new.
func (s *Stream) HasMore() bool { return s.more }

// maxPlaintext is how many bytes of plaintext a record has at most.
const maxPlaintext = 16 << 10

// Seal appends to dst the ciphertext of p: one record for each 16 KiB.
func (s *Stream) Seal(dst, p []byte) []byte {
	s.wire.out, dst = append(dst, s.wire.out...), nil
	s.conn.Write(p) // fails only behind a failure of Open, or Close: the peer knows
	return s.take()
}

// Close appends to dst the alert close_notify: nothing more comes.
func (s *Stream) Close(dst []byte) []byte {
	s.wire.out, dst = append(dst, s.wire.out...), nil
	s.conn.CloseWrite() // fails only if that has been said
	return s.take()
}

// Take returns ciphertext that the stream has to send of its own accord: alerts, and answers to updates of keys.
func (s *Stream) Take() []byte { return s.take() }

func (s *Stream) take() []byte {
	out := s.wire.out
	s.wire.out = nil
	return out
}

// Memory is about how many bytes the stream holds.
func (s *Stream) Memory() int64 { return stateSize + int64(s.wire.room+cap(s.left)) }

// Names returns what the peer's certificate calls it, as access.User.Certificates has it: its subject, and its
// alternative names with their kinds. It returns nil if there is none.
func (s *Stream) Names() []string {
	certificates := s.conn.ConnectionState().PeerCertificates
	if len(certificates) == 0 {
		return nil
	}
	return NamesOf(certificates[0])
}

// NamesOf returns the names of a certificate. A subject with two common names, or two serial numbers, is none: its text
// would have the last alone, and another user may have that.
func NamesOf(c *x509.Certificate) []string {
	var names []string
	if subject := c.Subject.String(); subject != "" && !isAmbiguous(c.Subject.Names) {
		names = append(names, subject)
	}
	for _, name := range c.DNSNames {
		names = append(names, "dns:"+name)
	}
	for _, name := range c.EmailAddresses {
		names = append(names, "email:"+name)
	}
	for _, name := range c.URIs {
		names = append(names, "uri:"+name.String())
	}
	for _, name := range c.IPAddresses {
		names = append(names, "ip:"+name.String())
	}
	return names
}

// isAmbiguous reports whether a subject has an attribute twice of which pkix.Name keeps the last.
func isAmbiguous(subject []pkix.AttributeTypeAndValue) bool {
	for _, once := range []asn1.ObjectIdentifier{{2, 5, 4, 3}, {2, 5, 4, 5}} { // common name, serial number
		seen := 0
		for i := range subject {
			if subject[i].Type.Equal(once) {
				seen++
			}
		}
		if seen > 1 {
			return true
		}
	}
	return false
}

// IsEnd reports whether err of Open says that the peer has ended the stream as it should.
func IsEnd(err error) bool { return err == io.EOF }
