package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// secureLibrary is how the program of a page of docs/clients says who it is, and speaks TLS.
type secureLibrary struct {
	behind string   // part of the line that the login follows
	login  string   // as alice
	tls    []string // pairs: what of the program another text replaces; nil if the library has no TLS
}

const loginBySet = `client.set("login", "alice s3cret")`

// secureLibraries has every page by its name.
var secureLibraries = map[string]secureLibrary{
	"pymemcache.md": {"client = Client(", `client.set("login", b"alice s3cret")`, []string{
		"from pymemcache", "import ssl\nfrom pymemcache", "timeout=30)",
		`timeout=30, tls_context=ssl.create_default_context(cafile="cert.pem"))`}},
	"python-memcached.md": {"client = memcache.Client(", loginBySet, nil},
	"pylibmc.md":          {"client = pylibmc.Client(", loginBySet, nil},
	"thrift-python.md": {"transport.open()", `client.authenticate("alice", "s3cret")`, []string{
		"import TSocket, TTransport", "import TSSLSocket, TTransport\nimport ssl", "TSocket.TSocket(",
		"TSSLSocket.TSSLSocket(",
		"2229)", `2229, ca_certs="cert.pem", cert_reqs=ssl.CERT_REQUIRED)`}},
	"dalli.md": {"server = TCPSocket.new(", `server.write("set login 0 0 12\r\nalice s3cret\r\n")` + "\nserver.gets",
		[]string{
			`require "socket"`,
			`require "socket"` + "\n" + `require "openssl"` + "\ncontext = OpenSSL::SSL::SSLContext.new\n" + `context.set_params(ca_file: "cert.pem")`,
			`server = TCPSocket.new("127.0.0.1", 22133)`,
			`server = OpenSSL::SSL::SSLSocket.new(TCPSocket.new("127.0.0.1", 22133), context).tap(&:connect)`}},
	"thrift-ruby.md": {"transport.open", `client.authenticate("alice", "s3cret")`, []string{
		`require "kestrel"`,
		`require "kestrel"` + "\n" + `require "openssl"` + "\ncontext = OpenSSL::SSL::SSLContext.new\n" + `context.set_params(ca_file: "cert.pem")`,
		`Thrift::Socket.new("127.0.0.1", 2229)`, `Thrift::SSLSocket.new("127.0.0.1", 2229, nil, context)`}},
	"php-memcached.md":   {"$client->addServer(", `$client->set("login", "alice s3cret");`, nil},
	"node-memcached.md":  {"(async () => {", `await set("login", "alice s3cret", 0);`, nil},
	"cache-memcached.md": {"my $client =", `$client->set("login", "alice s3cret");`, nil},
	"libmemcached.md": {"memcached_st *client = ", `memcached_set(client, "login", 5, "alice s3cret", 12, 0, 0);`,
		nil},
	"spymemcached.md": {"var client = ", `client.set("login", 0, "alice s3cret").get();`, nil},
	"gomemcache.md": {"client.Timeout = ", `client.Set(&memcache.Item{Key: "login", Value: []byte("alice s3cret")})`,
		[]string{
			`import (`, "import (\n\"crypto/tls\"\n\"crypto/x509\"\n\"os\"", "client.Timeout = ",
			"pem, _ := os.ReadFile(\"cert.pem\")\nroots := x509.NewCertPool()\n" +
				"roots.AppendCertsFromPEM(pem)\nclient.DialContext = (&tls.Dialer{Config: &tls.Config{RootCAs: roots}}).DialContext\nclient.Timeout = "}},
	"thrift-go.md": {"client := kestrel.NewKestrelClientFactory(",
		"if err := client.Authenticate(ctx, \"alice\", \"s3cret\"); err != nil {\nlog.Fatal(err)\n}", []string{
			`import (`, "import (\n\"crypto/tls\"\n\"crypto/x509\"\n\"os\"", "ctx := context.Background()",
			"ctx := context.Background()\npem, _ := os.ReadFile(\"cert.pem\")\n" +
				"roots := x509.NewCertPool()\nroots.AppendCertsFromPEM(pem)", `NewTSocketConf("127.0.0.1:2229", nil)`,
			`NewTSSLSocketConf("127.0.0.1:2229", &thrift.TConfiguration{TLSConfig: &tls.Config{RootCAs: roots}})`}},
}

// TestEndToEndSecureLibraries runs the program of each page of docs/clients whose library is installed. The server
// asks its clients who they are, and uses TLS if the library can.
func TestEndToEndSecureLibraries(t *testing.T) {
	for name, how := range clientPages {
		library, ok := secureLibraries[name]
		if !ok {
			t.Errorf("nobody knows how the program of %s says who it is", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			how.installed(t, dir)
			page, err := os.ReadFile(filepath.Join("../../docs/clients", name))
			if err != nil {
				t.Fatal(err)
			}
			h, err := access.HashPassword([]byte("s3cret"))
			if err != nil {
				t.Fatal(err)
			}
			writeCertificate(t, dir, "server")
			config := filepath.Join(dir, "kestrel.toml")
			write(t, config, strings.Join(fenced(string(page), "toml"),
				"")+fmt.Sprintf("[users.alice]\npassword = %[2]q\n"+
				"allow = [\"put jobs\", \"get jobs\"]\n[tls.own]\ncertificate = \"%[1]s/cert.pem\"\nkey = \"%[1]s/key.pem\"\n"+
				"[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\ntls = \"own\"\n"+
				"[[listener]]\nprotocol = \"thrift\"\naddress = \"127.0.0.1:0\"\ntls = \"own\"\n", dir, h))
			p := clitest.Serve(t, "--config", config)
			secured := map[any]string{}
			for range 2 {
				entry := p.Logged("listening")
				secured[entry["protocol"]] = entry["address"].(string)
			}
			p.Dial().Ask("get jobs\n", "CLIENT_ERROR unauthenticated\n")
			lines := strings.SplitAfter(fenced(string(page), how.language)[0], "\n")
			program := ""
			for _, line := range lines {
				if program += line; strings.Contains(line, library.behind) {
					program += library.login + "\n"
				}
			}
			const want = "working on resize image 7\n"
			if out, err := how.try(t, dir, program, p.Addr, p.Thrift); err != nil || out != want {
				t.Errorf("with a password: %v\n%s\n%s", err, out, program)
			}
			if library.tls == nil {
				return
			}
			for i := 0; i < len(library.tls); i += 2 {
				program = strings.Replace(program, library.tls[i], library.tls[i+1], 1)
			}
			if out, err := how.try(t, dir, program, secured["memcache"], secured["thrift"]); err != nil || !strings.HasSuffix(out, want) { // Python warns before
				t.Errorf("over TLS: %v\n%s\n%s", err, out, program)
			}
		})
	}
}
