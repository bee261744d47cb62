package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// issue writes a certificate called name, and its key, to files in dir.
func issue(t *testing.T, dir, name string) Files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	f := Files{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, f.Certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, f.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	return f
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// shown returns the name in the certificate that a server with config shows.
func shown(t *testing.T, config *tls.Config) string {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go tls.Server(a, config).Handshake()
	client := tls.Client(b, &tls.Config{InsecureSkipVerify: true})
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	files := issue(t, dir, "first")
	s, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Server(tls.NoClientCert)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Fingerprint()
	if changed, err := s.Reload(); changed || err != nil || shown(t, config) != "first" {
		t.Errorf("files that are as they were: %v, %v", changed, err)
	}
	issue(t, dir, "second")
	if got := shown(t, config); got != "first" {
		t.Errorf("before Reload, %s is shown", got)
	}
	if changed, err := s.Reload(); !changed || err != nil || shown(t, config) != "second" || s.Fingerprint() == before {
		t.Errorf("new files: %v, %v, %s", changed, err, shown(t, config))
	}
	write(t, files.Key, []byte("half of a k"))
	if changed, err := s.Reload(); changed || err == nil || shown(t, config) != "second" {
		t.Errorf("files that are being written: %v, %v, %s", changed, err, shown(t, config))
	}
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reload(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
	if _, err := s.Server(tls.RequireAndVerifyClientCert); err != ErrNoClientCA {
		t.Errorf("certificates of clients without client_ca: %v", err)
	}
}

func TestClientCA(t *testing.T) {
	files := issue(t, t.TempDir(), "server")
	files.ClientCA = files.Certificate
	s, err := Open(files)
	if err != nil || !s.HasClientCA() {
		t.Fatal(err)
	}
	if _, err := s.Server(tls.RequireAndVerifyClientCert); err != nil {
		t.Error(err)
	}
	write(t, files.ClientCA, []byte("no certificate"))
	if _, err := Open(files); err == nil || !strings.Contains(err.Error(), "certificate "+files.Certificate) {
		t.Errorf("files without a certificate: %v", err)
	}
}

func TestSelfSigned(t *testing.T) {
	s, err := SelfSigned([]string{"10.0.0.1", "kestrel.example"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(s.loaded.Load().certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"localhost", "127.0.0.1", "::1", "10.0.0.1", "kestrel.example"} {
		if err := c.VerifyHostname(host); err != nil {
			t.Error(err)
		}
	}
	if changed, err := s.Reload(); changed || err != nil {
		t.Errorf("Reload = %v, %v", changed, err)
	}
}

// TestResumption tests that a session of before does not admit a client whose authority has left client_ca since.
func TestResumption(t *testing.T) {
	own, client, other := issue(t, t.TempDir(), "server"), issue(t, t.TempDir(), "alice"), issue(t, t.TempDir(), "other")
	own.ClientCA = filepath.Join(t.TempDir(), "clients.pem")
	trust := func(f Files) {
		b, err := os.ReadFile(f.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		write(t, own.ClientCA, b)
	}
	trust(client)
	s, err := Open(own)
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Server(tls.RequireAndVerifyClientCert)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(client.Certificate, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		trust(client)
		if _, err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		cache := tls.NewLRUClientSessionCache(1)
		connect := func() (resumed bool, err error) {
			a, b := net.Pipe()
			defer a.Close()
			served := make(chan error, 1)
			go func() {
				defer b.Close()
				c := tls.Server(b, config)
				err := c.Handshake()
				if err == nil {
					_, err = c.Write([]byte("x"))
				}
				served <- err
			}()
			c := tls.Client(a, &tls.Config{InsecureSkipVerify: true, ServerName: "server", ClientSessionCache: cache,
				Certificates: []tls.Certificate{pair}, MinVersion: version, MaxVersion: version})
			c.Read(make([]byte, 1))
			return c.ConnectionState().DidResume, <-served
		}
		if _, err := connect(); err != nil {
			t.Fatal(err)
		}
		if resumed, err := connect(); !resumed || err != nil {
			t.Fatalf("version %x: resumed %v, %v", version, resumed, err)
		}
		trust(other)
		if _, err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		if resumed, err := connect(); err == nil {
			t.Errorf("version %x: a client of an authority that is not trusted any more is in, resumed %v", version, resumed)
		}
	}
}

// TestHalfWritten tests files that are still being written. A block without its end is never taken. Watch does not take
// half of a chain of certificates, or of a list of authorities.
func TestHalfWritten(t *testing.T) {
	dir := t.TempDir()
	files := issue(t, dir, "first")
	first, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile(issue(t, t.TempDir(), "authority").Certificate)
	if err != nil {
		t.Fatal(err)
	}
	chain := append(slices.Clone(first), other...)
	files.ClientCA = filepath.Join(dir, "clients.pem")
	write(t, files.Certificate, chain)
	write(t, files.ClientCA, chain)
	s, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	whole := func() bool { return len(s.loaded.Load().certificate.Certificate) == 2 }
	for _, name := range []string{files.Certificate, files.ClientCA} {
		write(t, name, chain[:len(first)+len(other)/2])
		if changed, err := s.Reload(); changed || err == nil || !strings.Contains(err.Error(), "has no end") {
			t.Errorf("%s with half of its second block: %v, %v", filepath.Base(name), changed, err)
		}
		write(t, name, chain)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, time.Minute, slog.New(slog.DiscardHandler), map[string]*Source{"public": s})
		}()
		clients := s.loaded.Load().clients
		time.Sleep(time.Minute - time.Millisecond)
		write(t, files.Certificate, first)
		write(t, files.ClientCA, first)
		time.Sleep(500 * time.Millisecond) // Watch has looked
		if !whole() || !s.loaded.Load().clients.Equal(clients) {
			t.Error("the first halves of the files are taken")
		}
		write(t, files.Certificate, chain)
		write(t, files.ClientCA, chain)
		time.Sleep(time.Minute)
		if !whole() || !s.loaded.Load().clients.Equal(clients) {
			t.Error("the first halves of the files are taken, behind the second ones")
		}
		write(t, files.ClientCA, first)
		time.Sleep(time.Minute + steadyTime)
		if s.loaded.Load().clients.Equal(clients) {
			t.Error("a list of authorities that stays shorter is not taken")
		}
		cancel()
		<-ended
	})
}

// TestWatch tests, on a clock of its own, that a change is taken in, and that an error is logged once.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	files := issue(t, dir, "first")
	s, err := Open(files)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			Watch(ctx, time.Minute, slog.New(slog.NewTextHandler(&out, nil)), map[string]*Source{"public": s})
		}()
		before := s.Fingerprint()
		issue(t, dir, "second")
		time.Sleep(90 * time.Second)
		if s.Fingerprint() == before {
			t.Error("a new certificate is not taken")
		}
		write(t, files.Key, nil)
		time.Sleep(10 * time.Minute)
		cancel()
		<-ended
		if got := out.String(); strings.Count(got, "certificate reloaded") != 1 || strings.Count(got, "not reloaded") != 1 {
			t.Errorf("log: %s", got)
		}
	})
}
