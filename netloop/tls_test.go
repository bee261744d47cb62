package netloop

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop/ports"
	"github.com/kestrelmq/kestrel/netloop/sealed"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

// authority signs certificates.
type authority struct {
	t    testing.TB
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, pool: x509.NewCertPool()}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	a.pool.AddCert(a.cert)
	return a
}

// issue signs a certificate for somebody, which is valid from and to so long after now.
func (a *authority) issue(name string, from, to time.Duration) tls.Certificate {
	a.t.Helper()
	return a.issueAs(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name + ".example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, from, to)
}

// issueAs is issue with the names of the template.
func (a *authority) issueAs(template *x509.Certificate, from, to time.Duration) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(2), time.Now().Add(from), time.Now().Add(to)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// tlsServer is a server that speaks the memcache protocol over TLS.
type tlsServer struct {
	*rightsServer
	authority *authority
}

func startTLS(t *testing.T, loop string, auth Auth, list ...*access.User) *tlsServer {
	t.Helper()
	a := newAuthority(t)
	config := &tls.Config{
		Certificates: []tls.Certificate{a.issue("server", -time.Hour, time.Hour)}, ClientCAs: a.pool, DynamicRecordSizingDisabled: true,
	}
	switch auth {
	case AuthCertificate:
		config.ClientAuth = tls.RequireAndVerifyClientCert
	case AuthAny:
		config.ClientAuth = tls.VerifyClientCertIfGiven
	}
	set := defaults()
	set.Default.MaxItemSize = 32 << 20
	e, err := engine.Open(engine.Options{Dir: "data", FS: segmenttest.New(), Settings: set, SegmentSize: testSegment})
	if err != nil {
		t.Fatal(err)
	}
	checker := access.NewChecker(usersOf(t, list...), access.Options{FreeFailures: 1 << 30})
	s, err := New(Options{
		Engine: e, EventLoop: loop, Loops: 1, Access: checker,
		Listeners: []Listener{{Protocol: ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Auth: auth, TLS: config}},
	})
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown(context.Background())
		e.Close()
	})
	return &tlsServer{&rightsServer{Server: s, t: t, engine: e, checker: checker}, a}
}

// tlsClient is a connection over TLS.
type tlsClient struct {
	rightsClient
	tls *tls.Conn
	tcp *net.TCPConn
}

// connect returns a connection whose handshake has not begun.
func (ts *tlsServer) connect(config *tls.Config) *tlsClient {
	ts.t.Helper()
	tcp, err := net.Dial("tcp", ts.MemcacheAddr().String())
	if err != nil {
		ts.t.Fatal(err)
	}
	ts.t.Cleanup(func() { tcp.Close() })
	tcp.SetDeadline(time.Now().Add(20 * time.Second))
	config = config.Clone()
	config.RootCAs, config.ServerName = ts.authority.pool, "127.0.0.1"
	c := tls.Client(tcp, config)
	return &tlsClient{rightsClient{ts.t, c, bufio.NewReader(c)}, c, tcp.(*net.TCPConn)}
}

func (ts *tlsServer) dialTLS(config *tls.Config) *tlsClient {
	ts.t.Helper()
	c := ts.connect(config)
	if err := c.tls.Handshake(); err != nil {
		ts.t.Fatal(err)
	}
	return c
}

var tlsVersions = []uint16{tls.VersionTLS12, tls.VersionTLS13}

// eachTLS runs a test with every version and event loop.
func eachTLS(t *testing.T, test func(t *testing.T, ts *tlsServer, config *tls.Config)) {
	for _, loop := range EventLoops() {
		ts := startTLS(t, loop, AuthNone)
		for _, version := range tlsVersions {
			t.Run(fmt.Sprintf("%s/%x", loop, version), func(t *testing.T) {
				test(t, ts, &tls.Config{MinVersion: version, MaxVersion: version})
			})
		}
	}
}

// TestTLSItems puts and gets items of every kind of size, one by one and many ahead of their replies.
func TestTLSItems(t *testing.T) {
	eachTLS(t, func(t *testing.T, ts *tlsServer, config *tls.Config) {
		c := ts.dialTLS(config)
		for _, size := range []int{0, 1, 100, 16383, 16384, 16385, 65536, 300_000, 5 << 20} {
			item := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			if got := c.line(fmt.Sprintf("set work 0 0 %d\r\n%s\r\n", size, item)); got != "STORED" {
				t.Fatalf("set of %d bytes: %s", size, got)
			}
			if got, want := c.all("get work\r\n"), fmt.Sprintf("VALUE work 0 %d\r\n%s\r\nEND\r\n", size, item); got != want {
				t.Fatalf("get of %d bytes: %d bytes", size, len(got))
			}
		}
		const ahead = 500
		go io.WriteString(c.Conn, strings.Repeat("set work 0 0 5\r\nhello\r\nget work\r\n", ahead))
		want := strings.Repeat("STORED\r\nVALUE work 0 5\r\nhello\r\nEND\r\n", ahead)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
			t.Errorf("replies to %d requests sent ahead: %v", 2*ahead, err)
		}
	})
}

// TestTLSEnds tests every way in which a connection ends: QUIT, a reset, the end of the socket alone, and close_notify
// with and without that. Due replies come first, and close_notify behind them.
func TestTLSEnds(t *testing.T) {
	eachTLS(t, func(t *testing.T, ts *tlsServer, config *tls.Config) {
		item := strings.Repeat("x", 3<<20)
		large := fmt.Sprintf("set large 0 0 %d\r\n%s\r\n", len(item), item)
		for _, end := range []struct {
			name, request, want string
			end                 func(*tlsClient)
		}{
			{"quit", "version\r\nquit\r\n", "VERSION " + Version + "\r\n", func(*tlsClient) {}},
			{"close_notify", "version\r\n", "VERSION " + Version + "\r\n", func(c *tlsClient) { c.tls.CloseWrite() }},
			{"the socket's end", "version\r\n", "VERSION " + Version + "\r\n", func(c *tlsClient) { c.tcp.CloseWrite() }},
			{"both", "version\r\n", "VERSION " + Version + "\r\n", func(c *tlsClient) { c.tls.CloseWrite(); c.tcp.CloseWrite() }},
			{"a large reply", large + "get large\r\nquit\r\n", "STORED\r\nVALUE large 0 3145728\r\n" + item + "\r\nEND\r\n",
				func(*tlsClient) {}},
			{"a large reply and the end", large + "get large\r\n", "STORED\r\nVALUE large 0 3145728\r\n" + item + "\r\nEND\r\n",
				func(c *tlsClient) { c.tls.CloseWrite() }},
		} {
			c := ts.dialTLS(config)
			go func() {
				io.WriteString(c.Conn, end.request)
				end.end(c)
			}()
			got, err := io.ReadAll(c.r)
			if string(got) != end.want || err != nil {
				t.Errorf("%s: %d bytes, want %d; %v, want the alert close_notify", end.name, len(got), len(end.want), err)
			}
		}
		c := ts.dialTLS(config)
		c.tcp.SetLinger(0)
		c.tcp.Close()
	})
	// What ended is not counted any more.
}

// TestTLSCloseNotify sends close_notify in every state of a connection. The replies are those that a plain client gets
// which shuts down its sending side there, and the server ends the connection.
func TestTLSCloseNotify(t *testing.T) {
	plain := startServer(t, DefaultEventLoop, Options{Memcache: "127.0.0.1:0", Loops: 1}, unsynced())
	ts := startTLS(t, DefaultEventLoop, AuthNone)
	for _, version := range tlsVersions {
		for _, sent := range []string{
			"", "g", "set wo", "set work 0 0 5\r\n", "set work 0 0 5\r\nhel", "set work 0 0 5\r\nhello", "set work 0 0 5\r\nhello\r\n",
			"get work/open\r\n", "get work/open\r\nget work/close", "get work\r\n", "get none/t=600000\r\n", "version\r\nget none/t=600000\r\nversion\r\n",
			"monitor none 600\r\n", "nonsense\r\n", "set big 0 0 1000000\r\n" + strings.Repeat("x", 70_000), "quit\r\n",
			"set toolarge 0 0 99999999\r\nxxx",
		} {
			tcp, err := net.Dial("tcp", plain.MemcacheAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			tcp.SetDeadline(time.Now().Add(20 * time.Second))
			io.WriteString(tcp, sent)
			tcp.(*net.TCPConn).CloseWrite()
			want, _ := io.ReadAll(tcp)
			tcp.Close()
			c := ts.dialTLS(&tls.Config{MinVersion: version, MaxVersion: version})
			io.WriteString(c.Conn, sent)
			c.tls.CloseWrite()
			if got, err := io.ReadAll(c.r); string(got) != string(want) || err != nil {
				t.Errorf("version %x: %.40q and close_notify: %.80q, %v; over TCP %.80q", version, sent, got, err, want)
			}
		}
	}
}

// TestSlowHandshake tests, on a clock of its own, that a handshake of which a byte a second comes ends after 10 s.
func TestSlowHandshake(t *testing.T) {
	config := &tls.Config{Certificates: []tls.Certificate{newAuthority(t).issue("server", -time.Hour, time.Hour)}}
	synctest.Test(t, func(t *testing.T) {
		h := handshakes{slots: make(chan struct{}, 1)}
		client, server := net.Pipe()
		go func() {
			for _, b := range []byte("\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03and so on, for ever") {
				time.Sleep(time.Second)
				if _, err := client.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		begun := time.Now()
		ctx, leave := h.enter(t.Context())
		_, err := sealed.Handshake(ctx, server, config, h.slots)
		leave()
		if took := time.Since(begun); err == nil || took != handshakeTime || h.count() != 0 {
			t.Errorf("a slow handshake took %v: %v; %d are under way", took, err, h.count())
		}
		server.Close()
		client.Close()
		time.Sleep(time.Second) // the client sees that
	})
}

// TestTLSPieces sends ciphertext in pieces of a few bytes.
func TestTLSPieces(t *testing.T) {
	eachTLS(t, func(t *testing.T, ts *tlsServer, config *tls.Config) {
		c := ts.connect(config)
		slow := tls.Client(&dribble{Conn: c.tcp}, &tls.Config{
			RootCAs: ts.authority.pool, ServerName: "127.0.0.1", MinVersion: config.MinVersion, MaxVersion: config.MaxVersion,
		})
		if _, err := io.WriteString(slow, "set work 0 0 5\r\nhello\r\nget work\r\nquit\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(slow)
		if string(got) != "STORED\r\nVALUE work 0 5\r\nhello\r\nEND\r\n" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// TestTLSRecords tests that the replies of a turn leave in one record, however many there are. The requests come in one
// record, too, and are too few for the session to look at the clock.
func TestTLSRecords(t *testing.T) {
	eachTLS(t, func(t *testing.T, ts *tlsServer, config *tls.Config) {
		c := ts.connect(config)
		tap := &recordTap{Conn: c.tcp}
		client := tls.Client(tap, &tls.Config{
			RootCAs: ts.authority.pool, ServerName: "127.0.0.1", MinVersion: config.MinVersion, MaxVersion: config.MaxVersion,
		})
		ask := func(requests, want string) (records int) {
			t.Helper()
			before := tap.count()
			if _, err := io.WriteString(client, requests); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(want))
			if _, err := io.ReadFull(client, got); string(got) != want || err != nil {
				t.Fatalf("%.80q, %v", got, err)
			}
			return tap.count() - before
		}
		ask("get nothing\r\n", "END\r\n") // behind the tickets of the handshake
		for _, n := range []int{1, 2, lookWork - 4} {
			puts, stored := strings.Repeat("set work 0 0 5\r\nhello\r\n", n/2), strings.Repeat("STORED\r\n", n/2)
			gets, items := strings.Repeat("get work\r\n", n-n/2), strings.Repeat("VALUE work 0 5\r\nhello\r\nEND\r\n", n/2)
			if n%2 == 1 {
				items += "END\r\n"
			}
			if got := ask(puts+gets, stored+items); got != 1 {
				t.Errorf("%d replies came in %d records", n, got)
			}
		}
	})
}

// recordTap counts the records that come from the server.
type recordTap struct {
	net.Conn
	came []byte
}

func (r *recordTap) Read(p []byte) (n int, err error) {
	n, err = r.Conn.Read(p)
	r.came = append(r.came, p[:n]...)
	return n, err
}

func (r *recordTap) count() (n int) {
	for p := r.came; len(p) >= 5; n++ {
		p = p[min(5+int(p[3])<<8+int(p[4]), len(p)):]
	}
	return n
}

// dribble writes a few bytes at a time.
type dribble struct{ net.Conn }

func (d *dribble) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = d.Conn.Write(p[n:min(n+13, len(p))])
		n += m
	}
	return n, err
}

// TestTLSHostile sends what is no TLS, damage, and half of handshakes: the server ends them, counts them, and serves
// others.
func TestTLSHostile(t *testing.T) {
	ts := startTLS(t, DefaultEventLoop, AuthNone)
	for _, sent := range []string{"get work\r\n", "\x16\x03\x01\x00\x01\x00", strings.Repeat("\x16", 1<<20), "GET / HTTP/1.1\r\n\r\n"} {
		c := ts.connect(new(tls.Config))
		io.WriteString(c.tcp, sent)
		c.tcp.CloseWrite()
		out, _ := io.ReadAll(c.tcp)
		if strings.Contains(string(out), "END") || strings.Contains(string(out), "ERROR") {
			t.Errorf("%.20q: the server answers %q without TLS", sent, out)
		}
	}
	c := ts.dialTLS(new(tls.Config))
	if got := c.line("version\r\n"); got != "VERSION "+Version {
		t.Fatal(got)
	}
	c.tcp.Write([]byte("\x17\x03\x03\x00\x20this is no record of this stream"))
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("a damaged record did not end the stream")
	}
	// Half of a handshake each. The oldest give way, so that an honest client always gets through.
	var half []net.Conn
	for range maxHandshakes + 100 {
		nc, err := net.Dial("tcp", ts.MemcacheAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		half = append(half, nc)
		nc.Write([]byte("\x16\x03\x01"))
	}
	for _, config := range []*tls.Config{{MaxVersion: tls.VersionTLS12}, {}} {
		if got := ts.dialTLS(config).line("version\r\n"); got != "VERSION "+Version {
			t.Error(got)
		}
	}
	if got := ts.handshakes.count(); got > maxHandshakes {
		t.Errorf("%d handshakes are under way, want %d at most", got, maxHandshakes)
	}
	for _, nc := range half {
		nc.Close()
	}
	if ts.handshakes.failed.refused.Load() < 4+100 {
		t.Errorf("%d failures are counted", ts.handshakes.failed.refused.Load())
	}
}

// TestTLSCertificates connects with every kind of certificate to a listener that asks for one, and to one that takes
// a password as well.
func TestTLSCertificates(t *testing.T) {
	alice := grants(t, "alice", "put work")
	alice.Certificates = []string{"CN=alice"}
	bob := grants(t, "bob", "get *")
	bob.Certificates = []string{"dns:bob.example"}
	for _, auth := range []Auth{AuthCertificate, AuthAny} {
		ts := startTLS(t, DefaultEventLoop, auth, alice, bob)
		other := newAuthority(t)
		hour := time.Hour
		for _, tt := range []struct {
			name string
			cert *tls.Certificate
			want string // to a put; "" is the end of the connection
			any  string // if passwords are taken as well
		}{
			{"alice", new(ts.authority.issue("alice", -hour, hour)), "STORED", "STORED"},
			{"bob", new(ts.authority.issue("bob", -hour, hour)), "CLIENT_ERROR not allowed: put on work", "CLIENT_ERROR not allowed: put on work"},
			{"nobody", new(ts.authority.issue("carol", -hour, hour)), "EOF", "CLIENT_ERROR authentication failure"},
			{"Alice", new(ts.authority.issue("Alice", -hour, hour)), "EOF", "CLIENT_ERROR authentication failure"},
			{"none", nil, "EOF", "CLIENT_ERROR authentication failure"},
			{"expired", new(ts.authority.issue("alice", -2*hour, -hour)), "EOF", "EOF"},
			{"not yet valid", new(ts.authority.issue("alice", hour, 2*hour)), "EOF", "EOF"},
			{"of another authority", new(other.issue("alice", -hour, hour)), "EOF", "EOF"},
		} {
			config := new(tls.Config)
			if tt.cert != nil {
				config.Certificates = []tls.Certificate{*tt.cert}
				config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return tt.cert, nil }
			}
			want := tt.want
			if auth == AuthAny {
				want = tt.any
			}
			if got := ts.connect(config).line("set work 0 0 1\r\nx\r\n"); got != want {
				t.Errorf("%s, certificate %s: %s, want %s", auth, tt.name, got, want)
			}
		}
		if auth == AuthAny {
			c := ts.dialTLS(new(tls.Config))
			if got := c.line("set x 0 0 11\r\nalice right\r\n"); got != "STORED" {
				t.Errorf("a password over TLS: %s", got)
			}
			if got := c.line("get work\r\n"); got != "CLIENT_ERROR not allowed: get on work" {
				t.Error(got)
			}
		}
		// Revoked by removal: the user loses the certificate.
		config := &tls.Config{Certificates: []tls.Certificate{ts.authority.issue("alice", -hour, hour)}}
		c := ts.dialTLS(config)
		if got := c.line("set work 0 0 1\r\nx\r\n"); got != "STORED" {
			t.Error(got)
		}
		ts.checker.SetUsers(usersOf(t, grants(t, "alice", "put work")))
		ts.Reidentify()
		done := make(chan struct{})
		ts.loops[0].do(func() { close(done) })
		<-done
		if got := c.line("version\r\n"); got != "EOF" {
			t.Errorf("a certificate that is nobody's any more: %s", got)
		}
	}
}

// TestTLSMemory tests that streams are in the ledger, and out of it when they have ended.
func TestTLSMemory(t *testing.T) {
	ts := startTLS(t, DefaultEventLoop, AuthNone)
	held := func() (n int64) {
		done := make(chan struct{})
		ts.loops[0].do(func() { n = ts.loops[0].ledger.bytes; close(done) })
		<-done
		return n
	}
	before := held()
	var all []*tlsClient
	for range 10 {
		c := ts.dialTLS(new(tls.Config))
		c.line("set work 0 0 20000\r\n" + strings.Repeat("x", 20000) + "\r\n")
		all = append(all, c)
	}
	if got := held() - before; got < 10*(16<<10) {
		t.Errorf("ten streams count %d bytes", got)
	}
	for _, c := range all {
		c.line("quit\r\n")
	}
	if got := held(); got != before {
		t.Errorf("%d bytes are held when all have ended, %d before", got, before)
	}
}
