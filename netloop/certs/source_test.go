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
