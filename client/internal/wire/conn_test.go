package wire

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
)

const patience = 20 * time.Second

// pair returns a connection, and the server's end of it.
func pair(t *testing.T) (*Conn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dialer{Timeout: patience}.Dial(context.Background(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	c.ReadUntil(time.Now().Add(patience))
	return c, server.(*net.TCPConn)
}

// TestRead reads replies that come in pieces of every size, among them one that is larger than the
// buffer and one behind it.
func TestRead(t *testing.T) {
	large := strings.Repeat("0123456789", 10_000)
	stream := "STORED\r\n" + fmt.Sprintf("VALUE q 7 %d\r\n%s\r\nEND\r\n", len(large), large) + "END\r\nSTAT a b\r\n"
	for _, piece := range []int{1, 7, 1000, 1 << 20} {
		if piece == 1 && testing.Short() {
			continue
		}
		c, server := pair(t)
		go func() {
			for rest := stream; rest != ""; {
				n := min(piece, len(rest))
				server.Write([]byte(rest[:n]))
				rest = rest[n:]
			}
			server.Close()
		}()
		var r memcache.Reply
		var got []string
		for {
			err := c.Read(&r)
			if err != nil {
				if err != io.EOF {
					t.Errorf("pieces of %d: the end is %v, want EOF", piece, err)
				}
				break
			}
			got = append(got, fmt.Sprint(r.Kind, len(r.Data), string(r.Text)))
		}
		if want := "[STORED 0 VALUE 100000 END 0 STAT 0a b]"; fmt.Sprint(got) != want {
			t.Errorf("pieces of %d: %v, want %v", piece, got, want)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, tt := range []struct {
		sent string
		want error
	}{
		{"STOR", io.ErrUnexpectedEOF},
		{"", io.EOF},
		{"VALUE q 0 5\r\nhel", io.ErrUnexpectedEOF},
		{"VALUE q 0 5\r\nhello, world", memcache.ErrBadReply},
		{"VALUE q 0 2147483647\r\n", ErrReplyTooLarge},
		{strings.Repeat("x", memcache.MaxReplyLine), memcache.ErrBadReply},
	} {
		c, server := pair(t)
		go func() {
			io.WriteString(server, tt.sent)
			server.CloseWrite()
		}()
		var r memcache.Reply
		if err := c.Read(&r); !errors.Is(err, tt.want) {
			t.Errorf("%.40q: Read = %v, want %v", tt.sent, err, tt.want)
		}
		if max := 4 * (len(tt.sent) + readSize); len(c.in) > max {
			t.Errorf("%.40q: a buffer of %d bytes for %d that came", tt.sent, len(c.in), len(tt.sent))
		}
	}
}

func TestQuiet(t *testing.T) {
	c, server := pair(t)
	if !c.Quiet() {
		t.Error("a new connection is not quiet")
	}
	io.WriteString(server, "END\r\nEND\r\n")
	var r memcache.Reply
	if err := c.Read(&r); err != nil {
		t.Fatal(err)
	}
	if c.Quiet() {
		t.Error("a connection with a reply to read is quiet")
	}
	if err := c.Read(&r); err != nil {
		t.Fatal(err)
	}
	if !c.Quiet() {
		t.Error("a connection whose replies are read is not quiet")
	}
	server.Close()
	for end := time.Now().Add(patience); c.Quiet(); {
		if time.Now().After(end) {
			t.Fatal("a connection that the server has closed is quiet")
		}
	}
}

func TestGuard(t *testing.T) {
	c, _ := pair(t)
	ctx, cancel := context.WithCancel(context.Background())
	if release := c.Guard(ctx); !release() {
		t.Error("a guard that is released says that the connection is closed")
	}
	release := c.Guard(ctx)
	cancel()
	var r memcache.Reply
	if err := c.Read(&r); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read = %v, want ErrClosed", err)
	}
	if release() {
		t.Error("the connection is said to be open")
	}
}

func TestName(t *testing.T) {
	name, err := Name("café+ü")
	if err != nil || !bytes.Equal(name, []byte("caf\xe9+\xfc")) || Text(name) != "café+ü" {
		t.Errorf("Name = %q, %v; back as %q", name, err, Text(name))
	}
}

// selfSigned returns a certificate of 127.0.0.1, and a pool of authorities that vouches for it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}

// TestTLS dials a server with a certificate that the client trusts, and one that it does not.
func TestTLS(t *testing.T) {
	certificate, roots := selfSigned(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{certificate},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				io.WriteString(conn, "END\r\n")
				io.Copy(io.Discard, conn)
			}()
		}
	}()
	c, err := Dialer{Timeout: patience, TLS: &tls.Config{RootCAs: roots}}.Dial(context.Background(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var r memcache.Reply
	if err := c.Read(&r); err != nil || r.Kind != memcache.KindEnd {
		t.Errorf("Read = %v, %v", r.Kind, err)
	}
	if _, err := (Dialer{TLS: new(tls.Config)}).Dial(context.Background(), l.Addr().String()); err == nil {
		t.Error("a certificate that nobody has signed is trusted")
	}
}

// TestStored tests that replies which say STORED are taken as far as they have come, and that all others, and parts, are
// left for Read.
func TestStored(t *testing.T) {
	for _, tt := range []struct {
		come string
		most int
		want int
		next memcache.Kind // what Read finds then
	}{
		{"STORED\r\nSTORED\r\nEND\r\n", 5, 2, memcache.KindEnd},
		{"STORED\r\nSTORED\r\nSTORED\r\n", 2, 2, memcache.KindStored},
		{"STORED\r\nSTOR", 5, 1, 0},
		{"STORED\nSTORED\r\n", 5, 0, memcache.KindStored}, // a server may end lines so
		{"NOT_STORED\r\nSTORED\r\n", 5, 0, memcache.KindNotStored},
		{"STORED x\r\n", 5, 0, memcache.KindText},
		{"", 5, 0, 0},
	} {
		c := &Conn{in: []byte("END\r\n" + tt.come), begin: len("END\r\n"), end: len("END\r\n") + len(tt.come)}
		if got := c.Stored(tt.most); got != tt.want {
			t.Errorf("%q: Stored(%d) = %d, want %d", tt.come, tt.most, got, tt.want)
		}
		var r memcache.Reply
		if tt.next != 0 {
			if err := c.Read(&r); err != nil || r.Kind != tt.next {
				t.Errorf("%q: then Read finds %v, %v, want %v", tt.come, r.Kind, err, tt.next)
			}
		} else if left := string(c.in[c.begin:c.end]); left != tt.come[tt.want*len(memcache.ReplyStored):] {
			t.Errorf("%q: then %q is left", tt.come, left)
		}
	}
}

// TestAuthenticateErrors tests what a login fails with: only a server that does not take the user says so.
func TestAuthenticateErrors(t *testing.T) {
	for _, tt := range []struct {
		answer string
		want   error // nil: none of those that have names
	}{
		{"CLIENT_ERROR authentication failure\r\n", ErrAuthentication},
		{"SERVER_ERROR out of memory\r\n", nil},
		{"SERVER_ERROR\r\n", nil},
		{"HTTP/1.1 400 Bad Request\r\n", memcache.ErrBadReply},
		{"", io.EOF},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan struct{})
		go func() {
			defer close(served)
			if conn, err := l.Accept(); err == nil {
				conn.Read(make([]byte, 1<<10)) // asks whether to say who it is
				io.WriteString(conn, "CLIENT_ERROR unauthenticated\r\n")
				conn.Read(make([]byte, 1<<10))
				io.WriteString(conn, tt.answer)
				conn.Close()
			}
		}()
		_, err = Dialer{Timeout: patience, User: "alice", Password: "s3cret"}.Dial(context.Background(), l.Addr().String())
		l.Close()
		<-served
		for _, named := range []error{ErrAuthentication, memcache.ErrBadReply, io.EOF} {
			if err == nil || errors.Is(err, named) != (named == tt.want) {
				t.Errorf("%q: Dial = %v, want %v", tt.answer, err, tt.want)
			}
		}
	}
}

// TestCloseStalledTLS closes a connection whose other end has stopped reading, so that a write has timed out. Close
// must not also wait for a farewell.
func TestCloseStalledTLS(t *testing.T) {
	certificate, roots := selfSigned(t)
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		server := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{certificate}})
		shaken := make(chan error)
		go func() { shaken <- server.Handshake() }()
		stream := tls.Client(ours, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MaxVersion: tls.VersionTLS12})
		if err := errors.Join(stream.Handshake(), <-shaken); err != nil {
			t.Fatal(err)
		}
		c := &Conn{tcp: ours, stream: stream}
		if err := c.Write([]byte("get work\r\n"), time.Now().Add(time.Second)); !TimedOut(err) {
			t.Errorf("Write = %v, want a timeout", err)
		}
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > 0 {
			t.Errorf("Close took %v", took)
		}
		theirs.Close()
	})
}
