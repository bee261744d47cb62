package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// request is one that clients send again and again, and how many lines its reply has.
type request struct {
	bytes  string
	lines  int
	begins string
}

// server is one that takes part.
type server struct {
	program  string
	tls      bool
	faces    []face
	put, get request
	args     func(dir string, ports []int) ([]string, error) // a port for each face
}

// face is a port of a server, and what its clients send first; "" if nobody asks them. Faces of one server are compared
// within its process.
type face struct{ name, login string }

// String returns the names of its faces.
func (s *server) String() string {
	var names []string
	for _, f := range s.faces {
		names = append(names, f.name)
	}
	return strings.Join(names, ",")
}

// userHash is the hash of the password "right".
const userHash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$P3OLBQw3O3GiY9hpX8wpK8qO6gQccIdDXnlkdzKceqU"

// servers returns all that take part, with the certificate in own.
func servers(kestrel, own string) []server {
	item := strings.Repeat("x", itemSize)
	cert, key := filepath.Join(own, "cert.pem"), filepath.Join(own, "key.pem")
	put := request{fmt.Sprintf("set bench 0 0 %d\r\n%s\r\n", itemSize, item), 1, "STORED"}
	get := request{"get bench\r\n", 3, "VALUE"}
	with := func(listeners []string, faces ...face) server {
		return server{kestrel, strings.Contains(listeners[0], "tls"), faces, put, get, func(dir string, ports []int) ([]string, error) {
			config := "memcache_port = \"none\"\ntext_port = \"none\"\nthrift_port = \"none\"\n"
			for i, listener := range listeners {
				config += fmt.Sprintf("[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:%d\"\n%s\n", ports[i], listener)
			}
			config += fmt.Sprintf("[tls.own]\ncertificate = %q\nkey = %q\n[default]\nsync_journal = \"never\"\n"+
				"[users.alice]\npassword = %q\nallow = [\"put bench\", \"get bench\"]\n", cert, key, userHash)
			file := filepath.Join(dir, "kestrel.toml")
			return []string{"serve", "--config", file, "--data-dir", filepath.Join(dir, "data")}, os.WriteFile(file, []byte(config), 0o600)
		}}
	}
	memcachedArgs := func(_ string, ports []int) ([]string, error) {
		args := []string{"-Z", "-o", "ssl_chain_cert=" + cert + ",ssl_key=" + key, "-m", "1024", "-t", "1", "-c", "1024", "-U", "0",
			"-l", "127.0.0.1", "-p", strconv.Itoa(ports[0]), "-R", "1000", "-C"}
		if os.Geteuid() == 0 {
			args = append(args, "-u", "root") // it refuses to run as root unasked
		}
		return args, nil
	}
	redisArgs := func(dir string, ports []int) ([]string, error) {
		return []string{"--port", "0", "--tls-port", strconv.Itoa(ports[0]), "--tls-cert-file", cert, "--tls-key-file", key,
			"--tls-ca-cert-file", cert, "--tls-auth-clients", "no", "--tls-ciphersuites", "TLS_AES_128_GCM_SHA256",
			"--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "everysec",
			"--auto-aof-rewrite-percentage", "0", "--daemonize", "no", "--loglevel", "warning"}, nil
	}
	return []server{
		with([]string{"tls = \"own\"\nauth = \"none\""}, face{"kestrel-tls", ""}),
		{"redis-server", true, []face{{"redis-tls", ""}}, request{fmt.Sprintf("*3\r\n$5\r\nLPUSH\r\n$5\r\nbench\r\n$%d\r\n%s\r\n", itemSize, item), 1, ":"},
			request{"*2\r\n$4\r\nRPOP\r\n$5\r\nbench\r\n", 2, "$64"}, redisArgs},
		{"memcached", true, []face{{"memcached-tls", ""}}, put, get, memcachedArgs},
		with([]string{"auth = \"none\"", "auth = \"password\""}, face{"kestrel-plain", ""},
			face{"kestrel-user", "set x 0 0 11\r\nalice right\r\n"}),
	}
}

// writeCertificate writes a certificate that signs itself, and its key, to a directory.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	return nil
}
