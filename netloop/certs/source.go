package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Files name what a server shows and trusts.
type Files struct {
	Certificate string // PEM, with intermediate certificates behind it
	Key         string // PEM
	ClientCA    string // PEM, of those who sign certificates of clients; "" for none
}

// maxFile bounds a file, in bytes.
const maxFile = 1 << 20

// Source is a certificate with its key, and those of the clients' authorities. Its methods may be called from any
// goroutine.
type Source struct {
	files Files // "" is made here

	mu      sync.Mutex
	sum     [sha256.Size]byte // of what was read last; guarded by mu
	configs []*config         // guarded by mu
	loaded  atomic.Pointer[material]
}

// material is what the files hold.
type material struct {
	certificate tls.Certificate
	clients     *x509.CertPool // nil for none
}

// config is what connections of one listener get.
type config struct {
	auth tls.ClientAuthType
	now  atomic.Pointer[tls.Config]
}

// Open reads the files.
func Open(files Files) (*Source, error) {
	s := &Source{files: files}
	_, err := s.Reload()
	return s, err
}

// SelfSigned makes a certificate for hosts, for a first try: clients cannot tell it from that of anybody else, unless
// they compare its fingerprint.
func SelfSigned(hosts []string) (*Source, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "kestrel, self-signed"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if host != "" {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	s := &Source{}
	s.loaded.Store(&material{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}})
	return s, nil
}

// Fingerprint is the SHA-256 of the certificate.
func (s *Source) Fingerprint() string {
	return fmt.Sprintf("%x", sha256.Sum256(s.loaded.Load().certificate.Certificate[0]))
}

// HasClientCA reports whether the source can check certificates of clients.
func (s *Source) HasClientCA() bool { return s.loaded.Load().clients != nil }

// Reload reads the files again, and reports whether they have changed. Connections that are open stay as they are;
// further ones get what the files hold now. On an error all stays as it was.
func (s *Source) Reload() (changed bool, err error) {
	take, err := s.Read()
	if take != nil {
		take()
	}
	return take != nil, err
}

// Read is Reload in two steps, for a caller with several sources. Connections get what the files hold now once that
// calls take. It is nil on an error, and if nothing has changed.
func (s *Source) Read() (take func(), err error) {
	if s.files == (Files{}) {
		return nil, nil // self-signed
	}
	parts, sum, err := s.files.read()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded.Load() != nil && sum == s.sum {
		return nil, nil
	}
	m := new(material)
	if m.certificate, err = tls.X509KeyPair(parts[0], parts[1]); err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", s.files.Certificate, s.files.Key, err)
	}
	if s.files.ClientCA != "" {
		m.clients = x509.NewCertPool()
		if !m.clients.AppendCertsFromPEM(parts[2]) {
			return nil, fmt.Errorf("client_ca %s: there is no certificate in it", s.files.ClientCA)
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sum = sum
		s.loaded.Store(m)
		for _, c := range s.configs {
			c.now.Store(m.config(c.auth))
		}
	}, nil
}

// read returns what the files hold, certificate, key and client_ca, and its sum.
func (f *Files) read() (parts [3][]byte, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for i, name := range []string{f.Certificate, f.Key, f.ClientCA} {
		if name == "" {
			continue
		}
		if parts[i], err = read(name); err != nil {
			return parts, sum, err
		}
		fmt.Fprintf(hash, "%d\n%s", len(parts[i]), parts[i])
	}
	return parts, [sha256.Size]byte(hash.Sum(nil)), nil
}

// read returns a file of PEM blocks. A block without its end is an error: somebody is writing the file.
func read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	if err == nil && bytes.Count(b, []byte("-----BEGIN ")) > bytes.Count(b, []byte("-----END ")) {
		err = fmt.Errorf("%s: a block has no end; is the file being written?", name)
	}
	return b, err
}

// steadyTime is how long files must stay as they are before Watch takes what they hold. Somebody may be writing them,
// and half of a chain of certificates looks like a whole one.
const steadyTime = time.Second

// steady waits for the files to stay as they are, if they hold something new. It reports false if they do not.
func (s *Source) steady(ctx context.Context) bool {
	if s.files == (Files{}) {
		return true // self-signed
	}
	_, sum, err := s.files.read()
	s.mu.Lock()
	same := sum == s.sum
	s.mu.Unlock()
	if err != nil || same {
		return true
	}
	select {
	case <-time.After(steadyTime):
	case <-ctx.Done():
		return false
	}
	_, again, err := s.files.read()
	return err == nil && again == sum
}

// config is what a server with m gives a connection.
func (m *material) config(auth tls.ClientAuthType) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{m.certificate}, MinVersion: tls.VersionTLS12,
		ClientAuth: auth, ClientCAs: m.clients,
		DynamicRecordSizingDisabled: true, // a turn of an event loop seals one record, and not a dozen
	}
}

// ErrNoClientCA says that certificates of clients cannot be checked.
var ErrNoClientCA = errors.New("certificates of clients cannot be checked without client_ca")

// Server returns a configuration for a listener, which asks clients for certificates as auth says. Each connection
// gets what the files held at the last Reload.
func (s *Source) Server(auth tls.ClientAuthType) (*tls.Config, error) {
	if auth >= tls.VerifyClientCertIfGiven && !s.HasClientCA() {
		return nil, ErrNoClientCA
	}
	c := &config{auth: auth}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.now.Store(s.loaded.Load().config(auth))
	s.configs = append(s.configs, c)
	first := c.now.Load().Clone()
	first.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil }
	return first, nil
}

// WatchEvery is how often Watch looks.
const WatchEvery = 10 * time.Second

// Watch reloads sources whose files have changed, every so often, until ctx is done. It logs what has come of it.
func Watch(ctx context.Context, every time.Duration, log *slog.Logger, sources map[string]*Source) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	failing := make(map[string]string)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for name, s := range sources {
			if !s.steady(ctx) {
				continue // the next look may find them whole
			}
			changed, err := s.Reload()
			switch {
			case err != nil && failing[name] != err.Error():
				failing[name] = err.Error()
				log.Error("certificate not reloaded: the old one stays in use", "tls", name, "err", err)
			case err == nil:
				delete(failing, name)
			}
			if changed {
				log.Info("certificate reloaded", "tls", name, "fingerprint", s.Fingerprint())
			}
		}
	}
}
