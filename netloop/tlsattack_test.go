package netloop

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

// rerecorder sends each record of the client's handshake in many, which have a few bytes of it each.
type rerecorder struct {
	net.Conn
	size   int
	sealed bool // all further records are encrypted
}

func (r *rerecorder) Write(p []byte) (int, error) {
	const header = 5
	var out []byte
	for rest := p; len(rest) >= header; {
		n := header + int(rest[3])<<8 + int(rest[4])
		record, body := rest[:header], rest[header:n]
		rest = rest[n:]
		r.sealed = r.sealed || record[0] == 20
		if r.sealed || record[0] != 22 {
			out = append(append(out, record...), body...)
			continue
		}
		for len(body) > 0 {
			piece := body[:min(r.size, len(body))]
			body = body[len(piece):]
			out = append(append(out, record[0], record[1], record[2], 0, byte(len(piece))), piece...)
		}
	}
	_, err := r.Conn.Write(out)
	return len(p), err
}

// TestTLSOddHandshakes: a handshake in records of a few bytes, with names of servers and protocols that mean nothing, is
// served. What is no handshake any more ends.
func TestTLSOddHandshakes(t *testing.T) {
	eachTLS(t, func(t *testing.T, ts *tlsServer, config *tls.Config) {
		for _, change := range []func(*tls.Config){
			func(c *tls.Config) { c.NextProtos = []string{"h2", "acme-tls/1", strings.Repeat("x", 255)} },
			func(c *tls.Config) { c.ServerName = strings.Repeat("a.", 120) + "example" },
			func(c *tls.Config) { c.ServerName = "x'; DROP TABLE queues" },
		} {
			odd := config.Clone()
			odd.InsecureSkipVerify = true
			change(odd)
			tcp := ts.connect(config).tcp
			c := tls.Client(tcp, odd)
			io.WriteString(c, "version\r\nquit\r\n")
			if got, err := io.ReadAll(c); string(got) != "VERSION "+Version+"\r\n" || c.ConnectionState().NegotiatedProtocol != "" {
				t.Errorf("%+v: %q, %v", odd.NextProtos, got, err)
			}
		}
		for _, size := range []int{3, 100} {
			tcp := ts.connect(config).tcp
			c := tls.Client(&rerecorder{Conn: tcp, size: size}, &tls.Config{
				RootCAs: ts.authority.pool, ServerName: "127.0.0.1", MinVersion: config.MinVersion, MaxVersion: config.MaxVersion,
			})
			io.WriteString(c, "version\r\nquit\r\n")
			if got, err := io.ReadAll(c); string(got) != "VERSION "+Version+"\r\n" {
				t.Errorf("a handshake in records of %d bytes: %q, %v", size, got, err)
			}
		}
		for name, sent := range map[string][]byte{
			"records without a byte":           bytes.Repeat([]byte("\x16\x03\x01\x00\x00"), 10_000),
			"changes of the cipher":            bytes.Repeat([]byte("\x14\x03\x03\x00\x01\x01"), 10_000),
			"warnings":                         bytes.Repeat([]byte("\x15\x03\x01\x00\x02\x01\x5a"), 10_000),
			"a record longer than any":         append([]byte("\x16\x03\x01\xff\xff"), make([]byte, 0xffff)...),
			"a message of 16 MiB":              []byte("\x16\x03\x01\x00\x04\x01\xff\xff\xff"),
			"data before the handshake":        []byte("\x17\x03\x03\x00\x09version\r\n"),
			"a hello of SSL 2":                 []byte("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"),
			"a hello in records of one letter": bytes.Repeat([]byte("\x16\x03\x01\x00\x01\x01"), 20_000),
		} {
			c := ts.connect(config)
			c.tcp.Write(sent)
			if got, err := io.ReadAll(c.tcp); bytes.Contains(got, []byte("VERSION")) || isTimeout(err) {
				t.Errorf("%s: %.100q, %v, want the end", name, got, err)
			}
		}
	})
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// TestTLSNamesOfOthers connects with certificates of the right authority. Each contains the name of another user in a
// place where it means nothing, or names two users.
func TestTLSNamesOfOthers(t *testing.T) {
	alice, bob := grants(t, "alice", "put work"), grants(t, "bob", "get work")
	alice.Certificates, bob.Certificates = []string{"CN=alice"}, []string{"dns:bob.example", "CN=bob,O=Acme", "CN=rob,OU=a+OU=b"}
	ts := startTLS(t, DefaultEventLoop, AuthAny, alice, bob)
	commonName, unit := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 11}
	names := func(pairs ...any) (name pkix.Name) {
		for i := 0; i < len(pairs); i += 2 {
			name.ExtraNames = append(name.ExtraNames, pkix.AttributeTypeAndValue{Type: pairs[i].(asn1.ObjectIdentifier), Value: pairs[i+1]})
		}
		return name
	}
	uri, err := url.Parse("https://x/CN=alice")
	if err != nil {
		t.Fatal(err)
	}
	const unknown = "CLIENT_ERROR authentication failure"
	for name, tt := range map[string]struct {
		template x509.Certificate
		want     string // to a put
	}{
		"alice":                          {x509.Certificate{Subject: pkix.Name{CommonName: "alice"}}, "STORED"},
		"two names":                      {x509.Certificate{Subject: names(commonName, "mallory", commonName, "alice")}, unknown},
		"two names, the other first":     {x509.Certificate{Subject: names(commonName, "alice", commonName, "mallory")}, unknown},
		"the same name twice":            {x509.Certificate{Subject: names(commonName, "alice", commonName, "alice")}, unknown},
		"a comma":                        {x509.Certificate{Subject: pkix.Name{CommonName: "mallory,CN=alice"}}, unknown},
		"a plus":                         {x509.Certificate{Subject: pkix.Name{CommonName: "mallory+CN=alice"}}, unknown},
		"a NUL":                          {x509.Certificate{Subject: pkix.Name{CommonName: "alice\x00.evil"}}, unknown},
		"a space":                        {x509.Certificate{Subject: pkix.Name{CommonName: "alice "}}, unknown},
		"capitals":                       {x509.Certificate{Subject: pkix.Name{CommonName: "ALICE"}}, unknown},
		"more than the name":             {x509.Certificate{Subject: pkix.Name{CommonName: "alice", Organization: []string{"Acme"}}}, unknown},
		"the organization":               {x509.Certificate{Subject: pkix.Name{Organization: []string{"CN=alice"}}}, unknown},
		"a DNS name":                     {x509.Certificate{DNSNames: []string{"alice", "CN=alice"}}, unknown},
		"a URI":                          {x509.Certificate{URIs: []*url.URL{uri}}, unknown},
		"an address of mail":             {x509.Certificate{EmailAddresses: []string{"CN=alice@x"}}, unknown},
		"a subject like a DNS name":      {x509.Certificate{Subject: pkix.Name{CommonName: "dns:bob.example"}}, unknown},
		"a DNS name below":               {x509.Certificate{DNSNames: []string{"x.bob.example", "*.example", "bob.example.evil"}}, unknown},
		"two users":                      {x509.Certificate{Subject: pkix.Name{CommonName: "alice"}, DNSNames: []string{"bob.example"}}, unknown},
		"two users, the other way":       {x509.Certificate{Subject: names(commonName, "bob"), DNSNames: []string{"bob.example", "alice"}}, "CLIENT_ERROR not allowed: put on work"},
		"bob, named twice":               {x509.Certificate{Subject: pkix.Name{CommonName: "bob", Organization: []string{"Acme"}}, DNSNames: []string{"bob.example"}}, "CLIENT_ERROR not allowed: put on work"},
		"an order that is not usual":     {x509.Certificate{Subject: names(commonName, "bob", asn1.ObjectIdentifier{2, 5, 4, 10}, "Acme")}, "CLIENT_ERROR not allowed: put on work"},
		"units that are two":             {x509.Certificate{Subject: names(unit, "a", unit, "b", commonName, "rob")}, "CLIENT_ERROR not allowed: put on work"},
		"units that are one":             {x509.Certificate{Subject: names(unit, "a+OU=b", commonName, "rob")}, unknown},
		"an attribute that is not known": {x509.Certificate{Subject: names(commonName, "alice", asn1.ObjectIdentifier{1, 2, 3}, "x")}, unknown},
	} {
		cert := ts.authority.issueAs(&tt.template, -time.Hour, time.Hour)
		config := &tls.Config{GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }}
		if got := ts.connect(config).line("set work 0 0 1\r\nx\r\n"); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// TestTLSResumed resumes sessions. One that began with a certificate is that of its user, as long as the user has that
// certificate. One of another listener is worth nothing. Early data is never offered.
func TestTLSResumed(t *testing.T) {
	alice := grants(t, "alice", "put work")
	alice.Certificates = []string{"CN=alice"}
	for _, version := range tlsVersions {
		for _, auth := range []Auth{AuthAny, AuthCertificate} {
			t.Run(fmt.Sprintf("%x/%v", version, auth), func(t *testing.T) {
				ts := startTLS(t, DefaultEventLoop, auth, alice)
				sessions := tls.NewLRUClientSessionCache(4)
				with := &tls.Config{MinVersion: version, MaxVersion: version, ClientSessionCache: sessions}
				without := with.Clone()
				with.Certificates = []tls.Certificate{ts.authority.issue("alice", -time.Hour, time.Hour)}
				const put, stored = "set work 0 0 1\r\nx\r\n", "STORED"
				if got := ts.connect(with).line(put); got != stored {
					t.Fatalf("alice: %s", got)
				}
				again := ts.connect(without)
				if got := again.line(put); got != stored || !again.tls.ConnectionState().DidResume {
					t.Errorf("resumed: %s, resumed %t", got, again.tls.ConnectionState().DidResume)
				}
				if s, ok := sessions.Get("127.0.0.1"); ok {
					if _, state, err := s.ResumptionState(); err != nil || state.EarlyData {
						t.Errorf("the session takes early data, %v", err)
					}
				}
				other := grants(t, "alice", "put work")
				other.Certificates = []string{"CN=bob"}
				ts.checker.SetUsers(usersOf(t, other))
				c := ts.connect(without)
				if _, err := io.WriteString(c.tls, put); err == nil {
					if got, _ := c.r.ReadString('\n'); strings.HasPrefix(got, stored) {
						t.Errorf("resumed when the certificate is nobody's: %q", got)
					}
				}
			})
		}
	}
	open, closed := startTLS(t, DefaultEventLoop, AuthNone), startTLS(t, DefaultEventLoop, AuthCertificate, alice)
	config := &tls.Config{ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	if got := open.connect(config).line("version\r\n"); !strings.HasPrefix(got, "VERSION") {
		t.Fatal(got)
	}
	c := closed.connect(config)
	io.WriteString(c.tls, "version\r\n")
	if got, err := io.ReadAll(c.tls); err == nil && len(got) > 0 || c.tls.ConnectionState().DidResume {
		t.Errorf("a session of another listener: %q, %v", got, err)
	}
}
