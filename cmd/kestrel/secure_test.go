package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/netloop/certs"
)

// writeCertificate writes a self-signed certificate called name, and its key, to dir.
func writeCertificate(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// secureConfig is a configuration with TLS and a user, and a further port in the clear for clitest.
func secureConfig(t *testing.T, dir, allow string) string {
	t.Helper()
	h, err := access.HashPassword([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`
[[listener]]
protocol = "memcache"
address = "127.0.0.1:0"
tls = "public"
auth = "password"
[tls.public]
certificate = "%[1]s/cert.pem"
key = "%[1]s/key.pem"
[users.alice]
password = "%[2]s"
allow = ["%[3]s"]
`, dir, h, allow)
}

// say sends a request over TLS as alice and returns the first line of the reply, and the name in the certificate.
func say(t *testing.T, c *tls.Conn, r *bufio.Reader, request string) string {
	t.Helper()
	io.WriteString(c, request)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	return strings.TrimSpace(line)
}

func dialSecure(t *testing.T, addr string) (*tls.Conn, *bufio.Reader, string) {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	r := bufio.NewReader(c)
	if got := say(t, c, r, "set x 0 0 12\r\nalice s3cret\r\n"); got != "STORED" {
		t.Fatalf("authentication: %s", got)
	}
	return c, r, c.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// TestEndToEndRotation changes certificate and rights of a running server: connections stay, and new ones get what is
// new.
func TestEndToEndRotation(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "first")
	file := clitest.WriteConfig(t, secureConfig(t, dir, "put work"))
	p := clitest.Serve(t, "--config", file)
	var addr string
	for addr == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			addr = got["address"].(string)
		}
	}
	old, oldReplies, name := dialSecure(t, addr)
	if name != "first" {
		t.Errorf("the certificate is that of %s", name)
	}
	if got := say(t, old, oldReplies, "set work 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Error(got)
	}
	if got := say(t, old, oldReplies, "get work\r\n"); got != "CLIENT_ERROR not allowed: get on work" {
		t.Error(got)
	}
	writeCertificate(t, dir, "second")
	if err := os.WriteFile(file, []byte(secureConfig(t, dir, "get work")), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("certificate reloaded")
	p.Logged("configuration reloaded")
	got := ""
	for late := time.Now().Add(clitest.Patience); got != "VALUE work 0 1" && time.Now().Before(late); {
		got = say(t, old, oldReplies, "get work\r\n") // its loop takes the new rights over in its next turn
	}
	if got != "VALUE work 0 1" {
		t.Errorf("the connection of before: %s", got)
	}
	if _, _, name := dialSecure(t, addr); name != "second" {
		t.Errorf("a new connection gets the certificate of %s", name)
	}
	if err := os.WriteFile(filepath.Join(dir, "key.pem"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration not reloaded: nothing is changed")
	if _, _, name := dialSecure(t, addr); name != "second" {
		t.Errorf("after a reload that failed, the certificate is that of %s", name)
	}
}

// TestEndToEndSecureAdvice makes the mistakes of somebody who meets TLS and users for the first time: each error says what
// to do.
func TestEndToEndSecureAdvice(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "server")
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, secureConfig(t, dir, "put work")), "--admin-port", "auto")
	admin := p.Saw("admin port is open")["address"].(string)
	secure := ""
	for secure == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			secure = got["address"].(string)
		}
	}
	t.Setenv("XDG_CONFIG_HOME", dir)
	trust := "--tls-ca=" + filepath.Join(dir, "cert.pem")
	for _, tt := range []struct {
		password string
		code     int
		args     []string
		want     string
	}{
		{"s3cret", cli.ExitUnknown, []string{"put", "work", "x", "--server", secure}, "if the port encrypts, say --tls"},
		{"s3cret", cli.ExitFailed, []string{"ls", "--server", secure}, "if the port encrypts, say --tls"},
		{"s3cret", cli.ExitFailed, []string{"ls", "--server", secure, "--tls"}, "--tls-ca names the authority"},
		{"s3cret", cli.ExitFailed, []string{"ls", "--server", p.Addr, "--tls"}, "leave out --tls"},
		{"s3cret", cli.ExitFailed, []string{"put", "work", "x", "--server", secure, trust}, "say --user NAME"},
		{"s3cret", cli.ExitFailed, []string{"ls", "--server", secure, trust}, "say --user NAME"},
		{"wrong", cli.ExitFailed, []string{"ls", "--server", secure, trust, "--user", "alice"}, "authentication failure: user \"alice\"; the password is in $KESTREL_PASSWORD"},
		{"s3cret", cli.ExitFailed, []string{"get", "work", "--server", secure, trust, "--user", "alice"}, "allow of [users.alice]"},
		{"s3cret", cli.ExitFailed, []string{"clients", "--admin", admin}, "say --user NAME"},
		{"s3cret", cli.ExitFailed, []string{"clients", "--admin", admin, "--user", "alice", trust}, "leave out --tls"},
		{"s3cret", cli.ExitFailed, []string{"backup", "--output", dir, "--admin", admin}, "say --user NAME"},
		{"s3cret", cli.ExitFailed, []string{"backup", "--output", dir, "--admin", admin, "--tls"}, "leave out --tls"},
		{"s3cret", cli.ExitOK, []string{"put", "work", "x", "--server", secure, trust, "--user", "alice"}, ""},
	} {
		t.Setenv("KESTREL_PASSWORD", tt.password)
		if code, _, errs := clitest.RunToEnd(t, tt.args...); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("kestrel %q = %d, want %d and %q; it said\n%s", tt.args, code, tt.code, tt.want, errs)
		}
	}
}

// TestReloadCertificates reloads two certificates, one of which cannot be read: then the other stays too, as the log says.
func TestReloadCertificates(t *testing.T) {
	var dirs [8]string
	d := &daemon{log: slog.New(slog.DiscardHandler), certificates: make(map[string]*certs.Source)}
	for i := range 8 { // they come in any order
		name := fmt.Sprint("c", i)
		dirs[i] = t.TempDir()
		writeCertificate(t, dirs[i], name)
		s, err := certs.Open(certs.Files{Certificate: filepath.Join(dirs[i], "cert.pem"), Key: filepath.Join(dirs[i], "key.pem")})
		if err != nil {
			t.Fatal(err)
		}
		d.certificates[name] = s
	}
	prints := func() (all []string) {
		for i := range 8 {
			all = append(all, d.certificates[fmt.Sprint("c", i)].Fingerprint())
		}
		return all
	}
	before := prints()
	for i := range 8 {
		writeCertificate(t, dirs[i], fmt.Sprint("c", i))
	}
	broken := filepath.Join(dirs[4], "key.pem")
	key, err := os.ReadFile(broken)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(broken, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.reloadCertificates(); err == nil || !slices.Equal(prints(), before) {
		t.Errorf("a reload with a broken key: %v, and certificates have changed: %t", err, !slices.Equal(prints(), before))
	}
	if err := os.WriteFile(broken, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.reloadCertificates(); err != nil {
		t.Error(err)
	}
	for i, now := range prints() {
		if now == before[i] {
			t.Errorf("certificate %d is the old one", i)
		}
	}
}

// TestHalfOfTheProcessors tests how many passwords are checked at once.
func TestHalfOfTheProcessors(t *testing.T) {
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 7: 3, 64: 32} {
		if got := checksAtOnce(processors); got != want {
			t.Errorf("%d processors: %d checks at once, want %d", processors, got, want)
		}
	}
	if n := processors(); n < 1 {
		t.Errorf("the process may use %d processors", n)
	}
}

// TestEndToEndSelfSigned tries TLS without files.
func TestEndToEndSelfSigned(t *testing.T) {
	p := clitest.Serve(t, "--tls-self-signed")
	c, err := tls.Dial("tcp", p.Addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	if got := say(t, c, bufio.NewReader(c), "set work 0 0 1\r\nx\r\n"); got != "STORED" {
		t.Error(got)
	}
}

// TestSSLScan has sslscan look for what is weak.
func TestSSLScan(t *testing.T) {
	scan := clitest.Tool(t, "sslscan")
	p := clitest.Serve(t, "--tls-self-signed")
	out, err := exec.Command(scan, "--no-colour", "--no-check-certificate", p.Addr).CombinedOutput()
	if err != nil {
		t.Fatalf("sslscan: %v: %s", err, out)
	}
	found := string(out)
	for _, want := range []string{
		`SSLv2\s+disabled`, `SSLv3\s+disabled`, `TLSv1\.0\s+disabled`, `TLSv1\.1\s+disabled`, `TLSv1\.2\s+enabled`,
		`TLSv1\.3\s+enabled`, `Session renegotiation not supported`,
		`TLSv1\.3 not vulnerable to heartbleed`, `TLSv1\.2 not vulnerable to heartbleed`,
	} {
		if !regexp.MustCompile(want).MatchString(found) {
			t.Errorf("sslscan does not say %s", want)
		}
	}
	ciphers := regexp.MustCompile(`(?m)^(?:Preferred|Accepted)\s+(\S+)\s+(\d+) bits\s+(\S+)`).FindAllStringSubmatch(found, -1)
	for _, c := range ciphers {
		weak := regexp.MustCompile(`NULL|RC4|DES|MD5|EXP|anon|^AES`).MatchString(c[3]) // AES alone: RSA without forward secrecy
		if c[1] != "TLSv1.3" && c[1] != "TLSv1.2" || len(c[2]) < 3 || weak {
			t.Errorf("weak: %v", c[1:])
		}
	}
	if len(ciphers) < 4 || t.Failed() {
		t.Errorf("%d ciphers in: %s", len(ciphers), found)
	}
}

// TestEndToEndOperator logs in to an admin port that asks, over TLS, with a password, a token and a profile.
func TestEndToEndOperator(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "admin")
	h, err := access.HashPassword([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	token := access.NewToken()
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, fmt.Sprintf(`
[[listener]]
protocol = "memcache"
address = "127.0.0.1:0"
auth = "none"
[[listener]]
protocol = "admin"
address = "127.0.0.1:0"
tls = "public"
[tls.public]
certificate = "%[1]s/cert.pem"
key = "%[1]s/key.pem"
[users.root]
password = "%[2]s"
tokens = ["%[3]s"]
allow = ["operate", "get *", "stats *"]
[users.alice]
password = "%[2]s"
allow = ["operate", "get *"]
`, dir, h, access.HashToken(token))))
	admin := p.Saw("admin port is open")["address"].(string)
	profiles := filepath.Join(dir, "kestrel")
	if err := os.Mkdir(profiles, 0o700); err != nil {
		t.Fatal(err)
	}
	profile := fmt.Sprintf("[profiles.mine]\ntoken = %q\ntls_ca = \"%s/cert.pem\"\n", token, dir)
	if err := os.WriteFile(filepath.Join(profiles, "client.toml"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(env []string, args ...string) string {
		cmd := clitest.Command(t, append(args, "--admin", admin)...)
		cmd.Env = append(os.Environ(), append(env, "XDG_CONFIG_HOME="+dir)...)
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	ca := []string{"--tls-ca", filepath.Join(dir, "cert.pem")}
	for i, tt := range []struct {
		env, flags []string
		want       string // in the output of both commands; "" if they succeed
	}{
		{nil, ca, "unauthenticated"},
		{[]string{"KESTREL_PASSWORD=wrong"}, append(ca, "--user", "root"), "authentication failure"},
		{[]string{"KESTREL_TOKEN=" + access.NewToken()}, ca, "authentication failure"},
		{[]string{"KESTREL_PASSWORD=s3cret"}, append(ca, "--user", "alice"), "not allowed"},
		{[]string{"KESTREL_PASSWORD=s3cret"}, []string{"--tls", "--user", "root"}, "certificate"},
		{[]string{"KESTREL_PASSWORD=s3cret"}, append(ca, "--user", "root"), ""},
		{[]string{"KESTREL_PASSWORD=s3cret", "KESTREL_USER=root"}, ca, ""},
		{[]string{"KESTREL_TOKEN=" + token}, ca, ""},
	} {
		to := filepath.Join(dir, fmt.Sprint("backup", i))
		clients, copied := run(tt.env, append([]string{"clients"}, tt.flags...)...), run(tt.env, append([]string{"backup", "--output", to}, tt.flags...)...)
		_, err := os.Stat(filepath.Join(to, "MANIFEST"))
		if tt.want != "" && (!strings.Contains(clients, tt.want) || !strings.Contains(copied, tt.want) || err == nil) ||
			tt.want == "" && (!strings.Contains(clients, "connection") || strings.Contains(clients, "admin port") || err != nil) {
			t.Errorf("%v %v:\n%s%s%v", tt.env, tt.flags, clients, copied, err)
		}
	}
	if got := run(nil, "clients", "--profile", "mine"); !strings.Contains(got, "NO  PEER") {
		t.Errorf("a token in a profile: %s", got)
	}
}

// TestEndToEndSecureClients has the command line and the Go client put, look, list and fetch over TLS as users: by flag,
// environment, address and profile. Without a user, with a wrong password, without the right or with another authority
// nothing happens, and they say why.
func TestEndToEndSecureClients(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "server")
	h, err := access.HashPassword([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, secureConfig(t, dir, "put work")+fmt.Sprintf(
		"[users.root]\npassword = \"%s\"\nallow = [\"put *\", \"get *\", \"peek *\", \"manage *\", \"stats *\"]\n", h)))
	var addr string
	for addr == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			addr = got["address"].(string)
		}
	}
	other := t.TempDir()
	writeCertificate(t, other, "other")
	if err := os.Mkdir(filepath.Join(dir, "kestrel"), 0o700); err != nil {
		t.Fatal(err)
	}
	profile := fmt.Sprintf("[profiles.mine]\nserver = %q\nuser = \"root\"\npassword = \"s3cret\"\ntls_ca = \"%s/cert.pem\"\n", addr, dir)
	if err := os.WriteFile(filepath.Join(dir, "kestrel", "client.toml"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	ca := []string{"--tls-ca", filepath.Join(dir, "cert.pem")}
	at := append([]string{"--server", addr}, ca...)
	secret := "KESTREL_PASSWORD=s3cret"
	root := append([]string{"--user", "root"}, at...)
	for _, tt := range []struct {
		env, args []string
		want      string // in the output
		ok        bool
	}{
		{[]string{secret}, append([]string{"put", "work", "one", "two", "three"}, root...), "3 items put", true},
		{[]string{secret}, append([]string{"peek", "work"}, root...), "one", true},
		{[]string{secret}, append([]string{"ls"}, root...), "work", true},
		{[]string{secret, "KESTREL_USER=root"}, append([]string{"get", "work"}, at...), "one", true},
		{nil, append([]string{"get", "work", "--server", "kestrels://root:s3cret@" + addr}, ca...), "two", true},
		{nil, []string{"get", "work", "--profile", "mine"}, "three", true},
		{[]string{secret}, append([]string{"put", "work", "four", "--user", "alice"}, at...), "1 item put", true},
		{[]string{secret}, append([]string{"get", "work", "--exec", "cat", "--count", "1"}, root...), "four", true},
		{[]string{secret}, append([]string{"get", "work", "--user", "alice"}, at...), "not allowed: get on work", false},
		{[]string{secret}, append([]string{"put", "billing", "x", "--user", "alice"}, at...), "not allowed: put on billing", false},
		{[]string{"KESTREL_PASSWORD=wrong"}, append([]string{"get", "work"}, root...), "authentication", false},
		{[]string{secret}, append([]string{"get", "work", "--user", "nobody"}, at...), "authentication", false},
		{nil, append([]string{"get", "work"}, at...), "unauthenticated", false},
		{[]string{secret}, []string{"get", "work", "--user", "root", "--tls", "--server", addr}, "certificate", false},
		{[]string{secret}, []string{"get", "work", "--user", "root", "--tls-ca", filepath.Join(other, "cert.pem"), "--server", addr}, "certificate", false},
	} {
		cmd := clitest.Command(t, tt.args...)
		cmd.Env = append(os.Environ(), append(tt.env, "XDG_CONFIG_HOME="+dir)...)
		out, err := cmd.CombinedOutput()
		if (err == nil) != tt.ok || !strings.Contains(string(out), tt.want) {
			t.Errorf("%v kestrel %v: %v: %s, want %q", tt.env, tt.args, err, out, tt.want)
		}
	}
	trust := x509.NewCertPool()
	signer, err := os.ReadFile(filepath.Join(dir, "cert.pem"))
	if err != nil || !trust.AppendCertsFromPEM(signer) {
		t.Fatal(err)
	}
	c, err := client.Dial(t.Context(), addr, client.Options{TLS: &tls.Config{RootCAs: trust}, User: "root", Password: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Put(t.Context(), "work", []byte("by the client"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if item, err := c.Get(t.Context(), "work", 0); err != nil || string(item.Data) != "by the client" {
		t.Errorf("Get = %q, %v", item.Data, err)
	}
}

// TestEndToEndClientCertificates has every kind of command say who it is by a certificate, to listeners that take nothing
// else: by flags and by a profile. Without one, and with that of nobody, nothing happens.
func TestEndToEndClientCertificates(t *testing.T) {
	dir, nobody := t.TempDir(), t.TempDir()
	writeCertificate(t, dir, "alice")     // the server's own as well
	writeCertificate(t, nobody, "nobody") // signed by itself, and client_ca trusts it
	var trusted []byte
	for _, d := range []string{dir, nobody} {
		text, err := os.ReadFile(filepath.Join(d, "cert.pem"))
		if err != nil {
			t.Fatal(err)
		}
		trusted = append(trusted, text...)
	}
	if err := os.WriteFile(filepath.Join(dir, "clients.pem"), trusted, 0o600); err != nil {
		t.Fatal(err)
	}
	listeners := ""
	for _, protocol := range []string{"memcache", "admin", "burrow"} {
		listeners += "[[listener]]\nprotocol = \"" + protocol + "\"\naddress = \"127.0.0.1:0\"\ntls = \"public\"\nauth = \"certificate\"\n"
	}
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, listeners+fmt.Sprintf(`
[tls.public]
certificate = "%[1]s/cert.pem"
key = "%[1]s/key.pem"
client_ca = "%[1]s/clients.pem"
[users.alice]
certificates = ["CN=alice"]
allow = ["put *", "get *", "peek *", "manage *", "stats *", "operate"]
`, dir)))
	at := map[string]string{"admin": p.Saw("admin port is open")["address"].(string)}
	for at["memcache"] == "" || at["burrow"] == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			at[got["protocol"].(string)] = got["address"].(string)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "kestrel"), 0o700); err != nil {
		t.Fatal(err)
	}
	profile := fmt.Sprintf("[profiles.mine]\nserver = %q\ntls_ca = \"%[2]s/cert.pem\"\ntls_cert = \"%[2]s/cert.pem\"\ntls_key = \"%[2]s/key.pem\"\n",
		at["memcache"], dir)
	if err := os.WriteFile(filepath.Join(dir, "kestrel", "client.toml"), []byte(profile), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, bool) {
		cmd := clitest.Command(t, args...)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir)
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	ca := []string{"--tls-ca", filepath.Join(dir, "cert.pem")}
	with := func(d string) []string {
		return append(ca[:2:2], "--tls-cert", filepath.Join(d, "cert.pem"), "--tls-key", filepath.Join(d, "key.pem"))
	}
	for i, tt := range []struct{ args, want string }{
		{"put work one two --server " + at["memcache"], "2 items put"},
		{"peek work --server " + at["memcache"], "one"},
		{"ls --server " + at["memcache"], "work"},
		{"cluster status --server " + at["memcache"], "127.0.0.1"},
		{"clients --admin " + at["admin"], "NO  PEER"},
		{"backup --admin " + at["admin"] + " --output ", ""},
		{"burrow get_queues --server https://" + at["burrow"], "work"},
		{"get work --server " + at["memcache"], "one"},
	} {
		args := func(d string) []string {
			list := strings.Fields(tt.args)
			if strings.HasSuffix(tt.args, " ") {
				list = append(list, filepath.Join(d, fmt.Sprint("to", i)))
			}
			return list
		}
		for name, flags := range map[string][]string{"none": ca, "that of nobody": with(nobody)} {
			if out, ok := run(append(args(nobody), flags...)...); ok {
				t.Errorf("kestrel %s with certificate %s: %s", tt.args, name, out)
			}
		}
		if out, ok := run(append(args(dir), with(dir)...)...); !ok || !strings.Contains(out, tt.want) {
			t.Errorf("kestrel %s: %s, want %q", tt.args, out, tt.want)
		}
	}
	if out, ok := run("get", "work", "--profile", "mine"); !ok || !strings.Contains(out, "two") {
		t.Errorf("a certificate in a profile: %s", out)
	}
	if out, ok := run("ls", "--server", at["memcache"], "--tls-cert", filepath.Join(dir, "cert.pem")); ok || !strings.Contains(out, "go together") {
		t.Errorf("a certificate without its key: %s", out)
	}
}

// TestOpenSSLClient has openssl talk to the server: versions before 1.2, and ciphers without forward secrecy, get
// nothing; 1.2 and 1.3 get an answer.
func TestOpenSSLClient(t *testing.T) {
	openssl := clitest.Tool(t, "openssl")
	p := clitest.Serve(t, "--tls-self-signed")
	for _, tt := range []struct {
		flags []string
		ok    bool
	}{
		{[]string{"-tls1_3"}, true},
		{[]string{"-tls1_2"}, true},
		{[]string{"-tls1_1", "-cipher", "ALL:@SECLEVEL=0"}, false},
		{[]string{"-tls1", "-cipher", "ALL:@SECLEVEL=0"}, false},
		{[]string{"-tls1_2", "-cipher", "AES128-SHA:AES256-SHA:AES128-GCM-SHA256:@SECLEVEL=0"}, false},
		{[]string{"-tls1_2", "-cipher", "aNULL:eNULL:@SECLEVEL=0"}, false},
	} {
		cmd := exec.CommandContext(t.Context(), openssl, append([]string{"s_client", "-quiet", "-connect", p.Addr}, tt.flags...)...)
		cmd.Stdin = strings.NewReader("version\r\nquit\r\n")
		out, _ := cmd.CombinedOutput()
		if got := strings.Contains(string(out), "VERSION "); got != tt.ok {
			t.Errorf("openssl s_client %v gets an answer: %t, want %t: %s", tt.flags, got, tt.ok, out)
		}
	}
}
