package sealed

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// certificate returns a self-signed certificate.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"}, NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"kestrel.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pair returns a stream, and the client at its other end. What the client sends, and gets, is in pipes: feed returns
// what it has sent since, and reply hands it ciphertext.
func pair(t testing.TB, version uint16) (s *Stream, client *tls.Conn, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{nc, server} {
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(20 * time.Second))
	}
	client = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	shaken := make(chan error, 1)
	go func() { shaken <- client.Handshake() }()
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, DynamicRecordSizingDisabled: true}
	if s, err = Handshake(t.Context(), server, config, make(chan struct{}, 1)); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return s, client, server
}

var versions = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// TestOpen sends texts of every kind of length, hands their ciphertext to the stream in pieces of every size, and
// reads them back.
func TestOpen(t *testing.T) {
	for _, version := range versions {
		for _, piece := range []int{1, 7, 1000, 16 << 10, 64 << 10} {
			s, client, server := pair(t, version)
			var sent []byte
			for n := range 40 {
				sent = append(sent, bytes.Repeat([]byte{byte('a' + n%26)}, n*n*n%20000+1)...)
			}
			if piece < 1000 {
				sent = sent[:2000]
			}
			go func() {
				for rest := sent; len(rest) > 0; {
					n := min(len(rest), len(rest)%977+1)
					client.Write(rest[:n])
					rest = rest[n:]
				}
				client.CloseWrite()
			}()
			var got []byte
			var err error
			for buf := make([]byte, piece); err == nil; {
				n, fail := server.Read(buf)
				if fail != nil {
					t.Fatal(fail)
				}
				got, err = s.Open(got, buf[:n], never)
			}
			if !IsEnd(err) || !bytes.Equal(got, sent) {
				t.Errorf("version %x, pieces of %d: %d of %d bytes, %v", version, piece, len(got), len(sent), err)
			}
		}
	}
}

// TestOpenStops tests that Open stops behind each record if it has no more time, and goes on where it was, whatever more has
// come.
func TestOpenStops(t *testing.T) {
	always := func() bool { return true }
	for _, version := range versions {
		for _, piece := range []int{100, 5000, 1 << 20} {
			s, client, server := pair(t, version)
			var sent []byte
			go func() {
				for n := range 200 {
					client.Write(bytes.Repeat([]byte{byte('a' + n%26)}, n*n%700+1))
				}
				client.CloseWrite()
			}()
			for n := range 200 {
				sent = append(sent, bytes.Repeat([]byte{byte('a' + n%26)}, n*n%700+1)...)
			}
			in, err := io.ReadAll(io.LimitReader(server, int64(len(sent))))
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			for buf := make([]byte, 1000); err == nil; {
				next := in[:min(piece, len(in))]
				if in = in[len(next):]; len(next) == 0 && !s.HasMore() {
					n, fail := server.Read(buf)
					if fail != nil {
						t.Fatal(fail)
					}
					next = buf[:n]
				}
				before := len(got)
				if got, err = s.Open(got, next, always); len(got)-before > maxPlaintext {
					t.Fatalf("Open went on for %d bytes", len(got)-before)
				}
			}
			if !IsEnd(err) || !bytes.Equal(got, sent) || s.HasMore() {
				t.Errorf("version %x, pieces of %d: %d of %d bytes, more %t, %v", version, piece, len(got), len(sent), s.HasMore(), err)
			}
			if over := s.Memory() - stateSize - int64(s.wire.room); over != 0 {
				t.Errorf("%d bytes stay counted", over)
			}
		}
	}
}

// TestSeal seals texts of every length around the size of a record, and has the client read them; one record for
// each 16 KiB.
func TestSeal(t *testing.T) {
	for _, version := range versions {
		s, client, server := pair(t, version)
		read := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(client)
			read <- all
		}()
		var sent []byte
		for _, n := range []int{1, 2, 100, 16383, 16384, 16385, 32768, 100_000} {
			p := bytes.Repeat([]byte{byte(n)}, n)
			sent = append(sent, p...)
			sealed := s.Seal([]byte("x"), p)
			if sealed[0] != 'x' {
				t.Fatal("Seal does not append")
			}
			if got, want := records(sealed[1:]), (n+maxPlaintext-1)/maxPlaintext; got != want {
				t.Errorf("%d bytes in %d records, want %d", n, got, want)
			}
			server.Write(sealed[1:])
		}
		server.Write(s.Close(nil))
		if got := <-read; !bytes.Equal(got, sent) {
			t.Errorf("version %x: the client read %d bytes, want %d", version, len(got), len(sent))
		}
		if again := s.Close(nil); len(again) > 0 {
			t.Errorf("the end is said twice: %x", again)
		}
	}
}

// never says that Open has time.
func never() bool { return false }

// records counts the records in ciphertext.
func records(p []byte) (n int) {
	for len(p) >= 5 {
		p = p[5+int(p[3])<<8+int(p[4]):]
		n++
	}
	return n
}

// TestDamage tests that ciphertext which was changed ends the stream with an error, and with an alert for the peer.
func TestDamage(t *testing.T) {
	for _, version := range versions {
		for _, damage := range []func([]byte) []byte{
			func(p []byte) []byte { p[len(p)-1] ^= 1; return p },
			func(p []byte) []byte { p[0] = 99; return p },
			func(p []byte) []byte { p[3], p[4] = 0xff, 0xff; return p },
			func([]byte) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n") },
		} {
			s, client, server := pair(t, version)
			client.Write([]byte("hello"))
			buf := make([]byte, 1000)
			n, err := server.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Open(nil, damage(buf[:n]), never)
			if err == nil || IsEnd(err) || len(got) > 0 {
				t.Errorf("version %x: %q, %v; want an error", version, got, err)
			}
			if len(s.Take()) == 0 {
				t.Errorf("version %x: no alert", version)
			}
			if again, err := s.Open(nil, buf[:n], never); err == nil || len(again) > 0 {
				t.Errorf("behind damage: %q, %v", again, err)
			}
		}
	}
}

// TestHandshakeFails tests handshakes that are no TLS, that end early, and that take too long: the slot is free
// afterwards.
func TestHandshakeFails(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	slots := make(chan struct{}, 1)
	for _, sent := range []string{"", "get work\r\n", "\x16\x03\x01\x00\x05hello", strings.Repeat("\x16", 100_000), "\x16\x03\x01"} {
		client, server := net.Pipe()
		go func() {
			io.WriteString(client, sent)
			client.Close()
		}()
		go io.Copy(io.Discard, client)
		server.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := Handshake(t.Context(), server, config, slots); err == nil {
			t.Errorf("%.20q is a handshake", sent)
		}
	}
	client, server := net.Pipe()
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := Handshake(ctx, server, config, slots)
		done <- err
	}()
	slots <- struct{}{} // a handshake that waits for its peer holds none
	cancel()
	<-slots
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a handshake that is given up: %v", err)
	}
	if len(slots) != 0 {
		t.Error("a slot is lost")
	}
}

// TestHandshakeIsBounded tests that a client cannot make the server keep a long chain of certificates: the handshake
// takes 64 KiB, and fails then. One below that is read and compared, as ever.
func TestHandshakeIsBounded(t *testing.T) {
	own := certificate(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, ClientAuth: tls.RequireAnyClientCert}
	for _, version := range versions {
		for _, size := range []int{1 << 10, 32 << 10, 70 << 10, 200 << 10} {
			chain := own
			for n := 0; n < size; n += len(own.Certificate[0]) {
				chain.Certificate = append(chain.Certificate, own.Certificate[0])
			}
			client, server := net.Pipe()
			for _, c := range []net.Conn{client, server} {
				c.SetDeadline(time.Now().Add(20 * time.Second))
			}
			go func() {
				c := tls.Client(client, &tls.Config{
					InsecureSkipVerify: true, MinVersion: version, MaxVersion: version, Certificates: []tls.Certificate{chain},
				})
				c.Handshake()
				io.Copy(io.Discard, client)
			}()
			counted := &countingConn{Conn: server}
			_, err := Handshake(t.Context(), counted, config, make(chan struct{}, 1))
			if tooLong := errors.Is(err, errTooLong); tooLong != (size > maxHandshake) || !tooLong && err != nil {
				t.Errorf("version %x, a chain of %d bytes: %v", version, size, err)
			}
			if counted.read > maxHandshake {
				t.Errorf("version %x, a chain of %d bytes: %d bytes are read", version, size, counted.read)
			}
			server.Close()
			client.Close()
		}
	}
}

// countingConn counts the bytes that are read.
type countingConn struct {
	net.Conn
	read int
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read += n
	return n, err
}

// TestRecords opens and seals records of every length.
func TestRecords(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 61 // and every length at both ends
	}
	var lengths []int
	total := 0
	for n := 1; n <= maxPlaintext; n++ {
		if n%step == 0 || n < 40 || n > maxPlaintext-40 {
			lengths = append(lengths, n)
			total += n
		}
	}
	text := make([]byte, maxPlaintext)
	rand.Read(text)
	for _, version := range versions {
		s, client, server := pair(t, version)
		go func() {
			for _, n := range lengths {
				client.Write(text[:n])
			}
		}()
		got := make([]byte, 0, 4*maxPlaintext)
		buf, opened := make([]byte, 64<<10), 0
		for at := 0; at < len(lengths); {
			n, err := server.Read(buf)
			if err == nil {
				got, err = s.Open(got, buf[:n], never)
			}
			if err != nil {
				t.Fatalf("version %x, behind %d bytes: %v", version, opened, err)
			}
			for at < len(lengths) && len(got) >= lengths[at] {
				if n := lengths[at]; !bytes.Equal(got[:n], text[:n]) {
					t.Fatalf("version %x: a record of %d bytes is opened wrong", version, n)
				}
				opened += lengths[at]
				got = got[:copy(got, got[lengths[at]:])]
				at++
			}
		}
		if opened != total || len(got) > 0 {
			t.Errorf("version %x: %d bytes are opened and %d more, want %d", version, opened, len(got), total)
		}
		go func() {
			var out []byte
			for _, n := range lengths {
				out = s.Seal(out[:0], text[:n])
				server.Write(out)
			}
		}()
		for _, n := range lengths {
			if _, err := io.ReadFull(client, buf[:n]); err != nil || !bytes.Equal(buf[:n], text[:n]) {
				t.Fatalf("version %x: a record of %d bytes is sealed wrong, %v", version, n, err)
			}
		}
	}
}

// TestHandshakeGarbage cuts a ClientHello at every byte, and changes every byte of it. Each handshake ends, with an error
// if it is cut, and leaves its slot.
func TestHandshakeGarbage(t *testing.T) {
	client, server := net.Pipe()
	go tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake()
	hello := make([]byte, 16<<10)
	n, err := server.Read(hello)
	if err != nil {
		t.Fatal(err)
	}
	hello = hello[:n]
	client.Close()
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
	slots := make(chan struct{}, 1)
	try := func(sent []byte) error {
		client, server := net.Pipe()
		defer server.Close()
		go func() {
			defer client.Close()
			if client.Write(sent); len(sent) == len(hello) {
				client.Write([]byte("\x15\x03\x03\x00\x02\x01\x00")) // close_notify, in the clear
			}
		}()
		go io.Copy(io.Discard, client)
		_, err := Handshake(t.Context(), server, config, slots)
		if len(slots) > 0 {
			t.Fatal("a slot is lost")
		}
		return err
	}
	step := 1
	if testing.Short() {
		step = 11
	}
	for at := 0; at < len(hello); at += step {
		if err := try(hello[:at]); err == nil {
			t.Errorf("%d bytes of a ClientHello are a handshake", at)
		}
		changed := bytes.Clone(hello)
		changed[at] ^= byte(1 + at%255)
		if err := try(changed); err == nil {
			t.Errorf("a ClientHello with byte %d changed, and close_notify, are a handshake", at)
		}
	}
}

func TestNames(t *testing.T) {
	c, err := x509.ParseCertificate(certificate(t).Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(NamesOf(c), " "); got != "CN=server dns:kestrel.example ip:127.0.0.1" {
		t.Errorf("names %q", got)
	}
}

// FuzzOpen feeds a stream what an attacker might: it never panics, and gives away nothing that no peer has sealed.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("\x17\x03\x03\x00\x05hello"))
	f.Add([]byte("\x15\x03\x03\x00\x02\x01\x00"))
	f.Add([]byte("\x14\x03\x03\x00\x01\x01"))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, _, _ := pair(t, tls.VersionTLS13)
		if got, _ := s.Open(nil, in, never); len(got) > 0 {
			t.Errorf("%x gives %q", in, got)
		}
	})
}

// BenchmarkTurn measures what TLS costs the server for a request and its reply: one record each way.
func BenchmarkTurn(b *testing.B) {
	for _, version := range versions {
		for _, requests := range []int{1, 32} {
			b.Run(fmt.Sprintf("version=%x/requests=%d", version, requests), func(b *testing.B) {
				s, client, server := pair(b, version)
				request, reply := bytes.Repeat([]byte("x"), requests*90), bytes.Repeat([]byte("y"), requests*8)
				const batch = 1000 // requests that are sealed ahead, while the clock stands still
				var plain, out []byte
				in := make([]byte, len(request)+100)
				var sent [batch][]byte
				b.ReportAllocs()
				b.ResetTimer()
				for i := range b.N {
					if i%batch == 0 {
						b.StopTimer()
						for k := range sent {
							client.Write(request)
							n, err := server.Read(in)
							if err != nil {
								b.Fatal(err)
							}
							sent[k] = append(sent[k][:0], in[:n]...)
						}
						b.StartTimer()
					}
					var err error
					if plain, err = s.Open(plain[:0], sent[i%batch], never); len(plain) != len(request) || err != nil {
						b.Fatal(len(plain), err)
					}
					out = s.Seal(out[:0], reply)
				}
			})
		}
	}
}

// TestHandshakeUnread has a peer begin a handshake and read nothing of the answer. Meanwhile another handshake ends.
func TestHandshakeUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}}
		slots := make(chan struct{}, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		shake := func(server net.Conn) <-chan error {
			done := make(chan error, 1)
			go func() {
				_, err := Handshake(ctx, server, config, slots)
				done <- err
			}()
			return done
		}
		idle, server := net.Pipe()
		unread := shake(server)
		go tls.Client(writeOnly{idle, ctx.Done()}, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
		synctest.Wait()
		peer, server := net.Pipe()
		done := shake(server)
		go tls.Client(peer, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("a handshake waits for a peer that does not read in another one")
		}
		cancel()
		idle.Close()
		peer.Close()
		<-unread
	})
}

// writeOnly is a connection that reads nothing.
type writeOnly struct {
	net.Conn
	over <-chan struct{}
}

func (w writeOnly) Read([]byte) (int, error) {
	<-w.over
	return 0, io.EOF
}
