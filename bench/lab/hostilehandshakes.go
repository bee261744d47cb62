package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// This file opens more TLS handshakes than the server takes at once, and ends none of them.

const (
	// certificatesHere stands in a configuration for the directory with cert.pem and key.pem.
	certificatesHere = "CERTIFICATES"

	securedPort = "[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\ntls = \"own\"\n" +
		"[tls.own]\ncertificate = \"" + certificatesHere + "/cert.pem\"\nkey = \"" + certificatesHere + "/key.pem\"\n"

	openHandshakes = 1024      // that a server has at once
	handshakeKept  = 64 << 10  // bytes, of each
	handshakeSlack = 48 << 20  // bytes, for all: stacks, sockets, the collector's share
	handshakeFlood = 1024 + 76 // handshakes
	handshakeEnds  = 10 * time.Second
)

// halfOpenHandshakes begins handshakes in every way, more than the server keeps. It keeps no more of them than it says,
// nor more of each; the oldest make room; and beside them others are served, in the clear and over TLS.
func halfOpenHandshakes(ctx context.Context, t *trial, s *server) error {
	addr := ""
	for i := 0; addr == ""; i++ {
		line, err := s.next(i)
		if err != nil {
			return err
		}
		if line.message() == "listening" && line["tls"] == true {
			addr, _ = line["address"].(string)
		}
	}
	hello, err := clientHello()
	if err != nil {
		return err
	}
	descriptors, err := descriptorsOf(s.pid)
	if err != nil {
		return err
	}
	for _, begin := range []struct{ what, sent string }{
		{"nothing", ""},
		{"three bytes", string(hello[:3])},
		{"all of a ClientHello but a byte", string(hello[:len(hello)-1])},
		{"a whole ClientHello", string(hello)},
		{"a ClientHello twice", string(hello) + string(hello)},
		{"a ClientHello and garbage", string(hello) + strings.Repeat("\x17\x03\x03\x00\x20garbage", 100)},
		{"a message that never ends", "\x16\x03\x01\x40\x00\x01\x00\xff\xff" + strings.Repeat("x", 16<<10-4)},
		{"empty records", strings.Repeat("\x16\x03\x03\x00\x00", 20)},
		{"no TLS", "get work\r\n"},
	} {
		memory, err := resident(s.pid)
		if err != nil {
			return err
		}
		if err := beginHandshakes(t, s, addr, "handshakes of "+begin.what, []byte(begin.sent), memory); err != nil {
			return fmt.Errorf("%s: %w", begin.what, err)
		}
		if err := settles(t, s, descriptors); err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}

// beginHandshakes opens a flood of connections that begin in one way, and checks what others, and the oldest, get.
func beginHandshakes(t *trial, s *server, addr, what string, sent []byte, memory int64) error {
	conns := make([]*net.TCPConn, 0, handshakeFlood)
	defer func() {
		for _, c := range conns {
			c.SetLinger(0)
			c.Close()
		}
	}()
	first := time.Now()
	for range handshakeFlood {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			return err
		}
		conns = append(conns, c.(*net.TCPConn))
		c.SetDeadline(time.Now().Add(patience))
		c.Write(sent) // fails if the server has refused it by now
	}
	// The oldest would end by themselves when their time is over.
	began := time.Now()
	for _, c := range conns[:handshakeFlood-openHandshakes] {
		c.SetReadDeadline(began.Add(handshakeEnds / 2))
		var late net.Error
		_, err := io.Copy(io.Discard, c)
		if errors.As(err, &late) && late.Timeout() && began.Sub(first) < handshakeEnds/2 {
			t.violate("%s: the oldest have not made room", what)
			return nil
		}
	}
	expectService(t, s, "beside "+what)
	expectSecured(t, addr, what)
	return grows(t, s, memory, openHandshakes*handshakeKept+handshakeSlack, what)
}

// expectSecured checks that a new client over TLS is served.
func expectSecured(t *trial, addr, beside string) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.violate("beside %s a new client over TLS is not served: %v", beside, err)
		return
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	const want = "STORED\r\nVALUE fresh 0 1\r\nx\r\nEND\r\n"
	got := make([]byte, len(want))
	io.WriteString(c, "set fresh 0 0 1\r\nx\r\nget fresh\r\n")
	if n, err := io.ReadFull(bufio.NewReader(c), got); string(got) != want {
		t.violate("beside %s a new client over TLS got %q, %v", beside, got[:n], err)
	}
}

// makeCertificates returns a directory with a certificate and its key, which remove removes.
func makeCertificates() (dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", dirPattern("tls")); err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			remove()
		}
	}()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return dir, remove, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "lab"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return dir, remove, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return dir, remove, err
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
	return dir, remove, err
}
