package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/codec/thrift"
)

// exchanges counts them.
var exchanges atomic.Uint32

// exchange connects, sends bytes and the end of the stream, and returns all that comes back. Each has an address of its
// own, because failures to authenticate slow an address down.
func exchange(t *testing.T, addr, sent string) string {
	t.Helper()
	n := exchanges.Add(1)
	from := net.Dialer{Timeout: clitest.Patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 1, byte(n>>8), byte(n))}}
	c, err := from.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(clitest.Patience))
	io.WriteString(c, sent)
	if !strings.Contains(sent, "Connection: close") { // over HTTP that would end the request
		c.(*net.TCPConn).CloseWrite()
	}
	out, _ := io.ReadAll(c) // the server may end the connection by a reset: it has not read everything
	return string(out)
}

// TestEndToEndUpgrade starts a server with a configuration from before there were listeners and users. It says what it
// said then: it serves every protocol in the clear, asks nobody, takes orders from this machine, and keeps what it has.
func TestEndToEndUpgrade(t *testing.T) {
	file, err := filepath.Abs("internal/config/testdata/before-users.toml")
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--config", file, "--admin-port", "auto", "--data-dir", t.TempDir(), "--loops", "2"}
	p := clitest.Serve(t, args...)
	for _, entry := range append(p.Entries("listening"), p.Entries("admin port is open")...) {
		if entry["tls"] != false || entry["auth"] != "none" {
			t.Errorf("a port of before is %v", entry)
		}
	}
	for _, entry := range p.Entries("") {
		if entry["level"] == "WARN" && entry["msg"] != "option has no effect" {
			t.Errorf("the start warns: %v", entry)
		}
	}
	c := p.Dial()
	c.Ask("set work 0 0 5\nhello\n", "STORED\n")
	c.Ask("set all 0 0 5\nevery\n", "STORED\n")
	c.Ask("get work\n", "VALUE work 0 5\nhello\nEND\n")
	c.Ask("get events\n", "VALUE events 0 5\nevery\nEND\n")
	if got := exchange(t, p.Text, "put mail:\nletter\n\nget mail\n"); got != "+1\n:letter\n" {
		t.Errorf("text: %q", got)
	}
	put := thrift.Client{}.AppendPut(nil, 1, []byte("calls"), 0, []byte("call"))
	var reply thrift.Reply
	got := exchange(t, p.Thrift, string(put))
	if _, err := (thrift.Client{}).DecodeReply([]byte(got), &reply); err != nil || len(reply.Message) > 0 {
		t.Errorf("Thrift: %q, %v", got, err)
	}
	o := newOperator(t, p)
	o.expect("/readyz", 200, "ready\n")
	o.expect("/stats.json", 200, "{")
	o.expectBy("POST", "/reload.txt", 200, "ok\n")
	c.Ask("reload\n", "Reloaded config.\n")
	c.Send("shutdown\n")
	if code := p.ExitCode(); code != cli.ExitOK {
		t.Errorf("exit code = %d", code)
	}
	c = clitest.Serve(t, args...).Dial()
	c.Ask("get work\n", "VALUE work 0 5\nevery\nEND\n")
	c.Ask("get calls\n", "VALUE calls 0 4\ncall\nEND\n")
	c.Ask("get events\n", "END\n") // keep_journal = false
}

// untilReply asks again and again, until the reply is want: loops take changed users over in their next turns.
func untilReply(t *testing.T, c *clitest.Client, request, want string) {
	t.Helper()
	got := ""
	for late := time.Now().Add(clitest.Patience); got != want && time.Now().Before(late); {
		c.Send(request)
		got = c.Read(strings.Count(want, "\n"))
	}
	if got != want {
		t.Fatalf("%q: %q, want %q", request, got, want)
	}
}

// login says who a connection of the memcache protocol is.
func login(c *clitest.Client, name, password, want string) {
	data := name + " " + password
	c.Ask(fmt.Sprintf("set x 0 0 %d\n%s\n", len(data), data), want)
}

// TestEndToEndUsersFile changes the file of users beside a running server: users are removed, lose a right, and get
// another password, while they are connected. A file that is broken, or gone, changes nothing, and the log says so.
func TestEndToEndUsersFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.toml")
	users := func(of ...string) { // name, password, grant
		t.Helper()
		text := ""
		for ; len(of) > 0; of = of[3:] {
			h, err := access.HashPassword([]byte(of[1]))
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("[users.%s]\npassword = %q\nallow = [%s]\n", of[0], h, of[2])
		}
		write(t, file, text)
	}
	const failed, all = "CLIENT_ERROR authentication failure\n", `"put *", "get *"`
	users("alice", "first", all, "bob", "first", all, "carol", "first", all, "root", "first", `"operate"`)
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, fmt.Sprintf("users_file = %q\n"+
		"[[listener]]\nprotocol = \"burrow\"\naddress = \"127.0.0.1:0\"\n", file)))
	web := p.Logged("listening")["address"].(string)
	status := func(name, password string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+web+"/v1.0", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(name, password)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	alice, bob, carol, root := p.Dial(), p.Dial(), p.Dial(), p.Dial()
	for name, c := range map[string]*clitest.Client{"alice": alice, "bob": bob, "carol": carol, "root": root} {
		login(c, name, "first", "STORED\n")
	}
	alice.Ask("set work 0 0 1\nx\n", "STORED\n")
	if got := status("bob", "first"); got != 403 { // he may not list accounts
		t.Errorf("bob on the port of Burrow's protocol: %d", got)
	}

	users("alice", "second", `"get *"`, "carol", "first", all, "root", "first", `"operate"`)
	root.Ask("reload\n", "Reloaded config.\n")
	p.Logged("configuration reloaded")
	if line, err := bob.In.ReadString('\n'); err != io.EOF {
		t.Errorf("a user that is gone: %q, %v, want the end", line, err)
	}
	if got := p.Says("connection closed: its user is gone"); got["user"] != "bob" {
		t.Errorf("the end of bob's connection is logged as %v", got)
	}
	untilReply(t, alice, "set other 0 0 1\nx\n", "CLIENT_ERROR not allowed: put on other\n")
	alice.Ask("get work\n", "VALUE work 0 1\nx\nEND\n")
	carol.Ask("set work 0 0 1\ny\n", "STORED\n")
	login(p.Dial(), "bob", "first", failed)
	login(p.Dial(), "alice", "first", failed)
	login(p.Dial(), "alice", "second", "STORED\n")
	if got := status("bob", "first"); got != 401 {
		t.Errorf("bob, who is gone, on the port of Burrow's protocol: %d", got)
	}
	if got := status("alice", "second"); got != 403 {
		t.Errorf("alice on the port of Burrow's protocol: %d", got)
	}

	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ broken, want string }{
		{string(good[:len(good)/2]) + "\n[users.mallory", "users.toml:"},
		{"[users.mallory]\npassword = \"hunter2\"\nallow = [\"get *\"]\n", "users.mallory.password"},
		{"[users.mallory]\npassword = hunter2\n", "users.toml:2: the value is not TOML"},
		{string(good) + "[users.mallory]\nallow = [\"fetch *\"]\n", "the verb must be one of"},
		{string(good) + "[listener]\n", "a file of users has tables [users.NAME] only"},
		{"", "no such file"}, // removed
	} {
		if write(t, file, tt.broken); tt.broken == "" {
			os.Remove(file)
		}
		p.Signal(syscall.SIGHUP)
		got := p.Logged("configuration not reloaded: nothing is changed")
		if said := fmt.Sprint(got["err"]); got["level"] != "ERROR" || !strings.Contains(said, tt.want) || strings.Contains(said, "hunter2") {
			t.Errorf("%q is logged as %v, want %q", tt.broken, got, tt.want)
		}
		root.Ask("reload\n",
			"SERVER_ERROR configuration not reloaded: the log says why\n") // root may not see the names of queues
		p.Logged("configuration not reloaded: nothing is changed")
		alice.Ask("get none\n", "END\n")
		login(p.Dial(), "carol", "first", "STORED\n")
	}
	login(p.Dial(), "mallory", "hunter2", failed)
	write(t, file, string(good))
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration reloaded")
	login(p.Dial(), "alice", "second", "STORED\n")
	carol.Ask("get work\n", "VALUE work 0 1\ny\nEND\n")
}

// TestEndToEndStartWarnings opens a port of every kind. The start warns of those that other machines reach if they ask
// nobody, or do not encrypt, and of no others.
func TestEndToEndStartWarnings(t *testing.T) {
	dir := t.TempDir()
	writeCertificate(t, dir, "server")
	h, err := access.HashPassword([]byte("s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("[tls.public]\ncertificate = \"%[1]s/cert.pem\"\nkey = \"%[1]s/key.pem\"\n"+
		"[users.alice]\npassword = \"%[2]s\"\nallow = [\"get *\"]\n", dir, h)
	ports := 0
	for _, protocol := range []string{"memcache", "text", "thrift", "burrow", "admin"} {
		for _, host := range []string{"0.0.0.0", "127.0.0.1"} {
			for _, more := range []string{`auth = "none"`, `auth = "password"`} {
				for _, secured := range []string{"", "\ntls = \"public\""} {
					config += fmt.Sprintf("[[listener]]\nprotocol = %q\naddress = \"%s:0\"\n%s%s\n", protocol, host,
						more, secured)
					ports++
				}
			}
		}
	}
	config += fmt.Sprintf("[[listener]]\nprotocol = \"text\"\naddress = \"unix:%s/k.sock\"\nauth = \"none\"\n", dir)
	p := clitest.Serve(t, "--config", clitest.WriteConfig(t, config))
	for !strings.HasPrefix(p.Logged("listening")["address"].(string), "unix:") {
	}
	warned := make(map[any]any) // by address
	for _, msg := range []string{openWarning, plainWarning, adminWarning} {
		for _, entry := range p.Entries(msg) {
			if warned[entry["address"]] != nil || entry["level"] != "WARN" {
				t.Errorf("a warning more: %v", entry)
			}
			warned[entry["address"]] = msg
		}
	}
	opened, admins := p.Entries("listening"), p.Entries("admin port is open")
	for i, entry := range append(opened, admins...) {
		var want any
		switch others := strings.HasPrefix(entry["address"].(string), "[::]:"); {
		case others && entry["auth"] == "none" && i >= len(opened):
			want = adminWarning
		case others && entry["auth"] == "none":
			want = openWarning
		case others && entry["tls"] == false:
			want = plainWarning
		}
		if got := warned[entry["address"]]; got != want {
			t.Errorf("%v: warned %v, want %v", entry, got, want)
		}
	}
	if got := len(opened) + len(admins); got != ports+4 || len(warned) != 15 {
		t.Errorf("%d ports were opened, and %d warned of", got, len(warned))
	}
}

// TestEndToEndLogHasNoPassword has clients of every protocol send passwords, tokens and credentials, right and wrong.
// They send them in every place that a client can get wrong. An operator writes them to files where hashes belong. No
// line of the log has one, nor does anything that an operator can ask for, nor what a command prints.
func TestEndToEndLogHasNoPassword(t *testing.T) {
	const mark = "Pa55w0rd" // is part of every secret
	dir := t.TempDir()
	writeCertificate(t, dir, "server")
	right := mark + "right"
	h, err := access.HashPassword([]byte(right))
	if err != nil {
		t.Fatal(err)
	}
	users := filepath.Join(dir, "users.toml")
	write(t, users, "[users.carol]\nallow = [\"get *\"]\n")
	config := fmt.Sprintf(`
log_level = "debug"
enable_session_trace = true
users_file = "%[1]s/users.toml"
[default]
enable_trace = true
[discovery]
advertise = "127.0.0.1"
[discovery.zookeeper]
hosts = ["127.0.0.1:1"]
path_prefix = "/kestrel"
credentials = "kestrel:%[3]szookeeper"
[tls.public]
certificate = "%[1]s/cert.pem"
key = "%[1]s/key.pem"
[users.root]
password = "%[2]s"
allow = ["operate", "put *", "get *", "peek *", "stats *", "manage *"]
`, dir, h, mark)
	for _, protocol := range []string{"memcache", "text", "thrift", "burrow", "admin"} {
		for _, more := range []string{"auth = \"password\"", "auth = \"password\"\ntls = \"public\"", "auth = \"none\""} {
			config += fmt.Sprintf("[[listener]]\nprotocol = %q\naddress = \"127.0.0.1:0\"\n%s\n", protocol, more)
		}
	}
	file := clitest.WriteConfig(t, config)
	p := clitest.Serve(t, "--config", file)
	for range 12 {
		p.Logged("listening")
	}
	at := make(map[string][]string) // addresses by protocol: with passwords, over TLS, for anybody
	for _, entry := range p.Entries("listening")[3:] {
		at[entry["protocol"].(string)] = append(at[entry["protocol"].(string)], entry["address"].(string))
	}
	for _, entry := range p.Entries("admin port is open") {
		at["admin"] = append(at["admin"], entry["address"].(string))
	}
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	var requests []string // over HTTP
	lines := []string{
		"GET /v1.0", "POST /reload", "GET /stats.json", "POST /v1.0/a/q/m", "POST /status?to=Up&password=" + mark,
		"GET http://root:" + mark + "@localhost/v1.0", "GET /metrics?password=" + mark, "POST /logging?level=" + mark,
	}
	for i, said := range []string{
		basic("root:" + right), basic("root:" + mark), basic("nobody:" + mark), basic(mark + ":root"), basic(mark),
		basic(":" + mark),
		"Basic " + mark, mark, "Bearer " + mark, "Bearer kestrel_" + mark, "Digest " + mark,
		basic("root:" + strings.Repeat(mark, 200)),
		strings.Repeat(mark, 9000),
	} {
		if i == 1 {
			lines = lines[:2]
		}
		for _, line := range lines {
			requests = append(requests,
				line+" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nAuthorization: "+said+"\r\n\r\n")
		}
	}
	set := func(data string) string { return fmt.Sprintf("set x 0 0 %d\r\n%s\r\n", len(data), data) }
	authenticate := func(name, password string) string {
		return string(thrift.Client{}.AppendAuthenticate(nil, 1, []byte(name), []byte(password)))
	}
	sends := map[string][]string{
		"burrow": requests, "admin": requests,
		"memcache": {
			set("root " + right), set("root "+right) + set("root "+right) + "version\r\nreload\r\n",
			set("root " + mark),
			strings.Replace(set("root "+mark), "\r\n", " noreply\r\n", 1), set(mark + " root"), set(mark),
			set(" " + mark), set("root  " + mark),
			set("root " + strings.Repeat(mark, 200)), "set x 0 0 5\r\nroot " + mark + "\r\n",
			"set x 0 0 99\r\nroot " + mark + "\r\n",
			"root " + mark + "\r\n", "auth root " + mark + "\r\n", "set " + mark + " 0 0 1\r\nx\r\n",
			"get " + mark + "\r\n", strings.Repeat(mark, 9000),
			"set x " + mark + " 0 1\r\nx\r\n", "gets x/lease=" + mark + "\r\n", "\x80" + mark + "\r\n",
		},
		"text": {
			"auth root " + right + "\n", "auth root " + right + "\nauth root " + right + "\nauth root " + mark + "\n",
			"auth root " + mark + "\n",
			"auth " + mark + " root\n", "auth " + mark + "\n", "auth root " + mark + " " + mark + "\n",
			"login root " + mark + "\n", mark + "\n",
			"AUTH root " + mark + "\r\n", "auth  root " + mark + "\n", "put x:\n" + mark + "\n\n",
			strings.Repeat(mark, 9000), "auth root " + mark,
		},
		"thrift": {
			authenticate("root", right), authenticate("root", right) + authenticate("root", mark),
			authenticate("root", mark),
			authenticate(mark, "root"), authenticate("", mark), authenticate("root", strings.Repeat(mark, 9000)),
			authenticate("root", mark)[:30],
			mark + mark, strings.Replace(authenticate("root", mark), "authenticate", "authenticats", 1),
		},
	}
	// What follows the login as a known user has no secret, and a queue called by one would have been named by a user.
	known := strings.NewReplacer("set "+mark, "set x", "get "+mark, "get x")
	var sending sync.WaitGroup
	room := make(chan struct{}, 32) // many wait because others have failed
	for protocol, list := range sends {
		for _, sent := range list {
			for i, addr := range at[protocol] {
				if i == 2 && protocol == "memcache" {
					sent = known.Replace(sent)
				}
				room <- struct{}{}
				sending.Go(func() { exchange(t, addr, sent); <-room })
			}
		}
	}
	sending.Wait()
	check := func(what, text string) {
		t.Helper()
		if i := strings.Index(text, mark); i >= 0 {
			t.Errorf("%s has a password: %.300q", what, text[max(i-200, 0):])
		}
	}
	for _, path := range []string{"/stats.json", "/metrics", "/connections", "/histograms", "/readyz", "/threads", "/sniff?seconds=0.01"} {
		answer := exchange(t, at["admin"][0],
			"GET "+path+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: "+
				basic("root:"+right)+"\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 200") {
			t.Errorf("%s: %.400q", path, answer)
		}
		check(path, answer)
	}
	for _, request := range []string{"stats\r\n", "dump_config\r\n", "stats connections\r\n", "dump_stats\r\n"} {
		check(request, exchange(t, at["memcache"][0], set("root "+right)+request))
	}
	for _, broken := range []string{
		"[users.x]\npassword = \"" + mark + "\"\n", "[users.x]\npassword = " + mark + "\n",
		"[users.x]\ntokens = [\"" + mark + "\"]\n",
		"[users.x]\npasswd = \"" + mark + "\"\n", "[users.x]\npassword = \"" + mark + "\n",
	} {
		write(t, users, broken)
		p.Signal(syscall.SIGHUP)
		p.Logged("configuration not reloaded: nothing is changed")
		_, out, errs := clitest.RunToEnd(t, "config", "check", file)
		check("config check", out+errs)
	}
	memcache := at["memcache"]
	for _, tt := range []struct{ env, server string }{
		{"", "kestrel://root:" + mark + "@" + memcache[0]}, {"", "root:" + mark + "@" + memcache[0]}, {"",
			"kestrel://root:" + mark + "%@" + memcache[0]},
		{"", "kestrels://root:" + mark + "@" + memcache[0]}, {"", "zk://root:" + mark + "@127.0.0.1:1/"}, {"",
			"http://root:" + mark + "@" + memcache[0]},
		{"KESTREL_PASSWORD=" + mark, memcache[0]}, {"KESTREL_TOKEN=" + mark, memcache[0]},
	} {
		cmd := clitest.Command(t, "get", "x", "--timeout", "10s", "--server", tt.server)
		cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "KESTREL_USER=root", tt.env)
		out, err := cmd.CombinedOutput()
		if check(tt.server, string(out)); err == nil {
			t.Errorf("kestrel get --server %s succeeds", tt.server)
		}
	}
	write(t, users, "[users.carol]\nallow = [\"get *\"]\n")
	p.Signal(syscall.SIGHUP)
	p.Logged("configuration reloaded") // behind everything else
	entries := p.Entries("")
	for _, entry := range entries {
		check("the log", fmt.Sprint(entry))
	}
	for _, msg := range []string{"authentication failed", "request refused", "session begins", "configuration not reloaded: nothing is changed"} {
		if len(p.Entries(msg)) == 0 {
			t.Errorf("of %d lines none says %q", len(entries), msg)
		}
	}
}
