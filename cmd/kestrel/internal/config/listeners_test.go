package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

func TestListeners(t *testing.T) {
	c := parse(t, `
text_port = 4444
[[listener]]
protocol = "memcache"
address = "[::1]:1234"
allow_from = ["10.0.0.0/8", "::1"]
max_connections = 7
memcache_reply_key = "request"
[[listener]]
protocol = "thrift"
address = "unix:/run/k.sock"
mode = "0660"
group = "staff"
[[listener]]
protocol = "admin"
address = "127.0.0.1:2223"
`)
	if c.Net.Memcache != "" || c.Net.Thrift != "" || c.Net.Text != "127.0.0.1:4444" {
		t.Errorf("shorthand: memcache %q, thrift %q, text %q", c.Net.Memcache, c.Net.Thrift, c.Net.Text)
	}
	if len(c.Net.Listeners) != 2 || len(c.AdminPorts) != 1 || c.AdminPorts[0].Port.Address != "127.0.0.1:2223" {
		t.Fatalf("listeners %+v, admin %+v", c.Net.Listeners, c.AdminPorts)
	}
	first, second := c.Net.Listeners[0], c.Net.Listeners[1]
	if first.Protocol != netloop.ProtocolMemcache || first.Port.Address != "[::1]:1234" || first.Port.MaxConnections != 7 ||
		len(first.Port.AllowFrom) != 2 || first.Port.AllowFrom[1].String() != "::1/128" {
		t.Errorf("first listener %+v", first)
	}
	if first.ReplyKey != netloop.ReplyRequest || second.ReplyKey != "" || c.Net.ReplyWithKey {
		t.Errorf("reply keys %q, %q, of all %v", first.ReplyKey, second.ReplyKey, c.Net.ReplyWithKey)
	}
	if second.Protocol != netloop.ProtocolThrift || second.Port.Mode != 0o660 || second.Port.Group != "staff" {
		t.Errorf("second listener %+v", second)
	}
	if got := c.Addresses(); strings.Join(got, " ") != "127.0.0.1:4444 [::1]:1234 unix:/run/k.sock 127.0.0.1:2223" {
		t.Errorf("addresses %q", got)
	}
}

// TestListenerFlag tests that a flag turns a shorthand port on beside listeners.
func TestListenerFlag(t *testing.T) {
	c := parse(t, "[[listener]]\nprotocol = \"text\"\naddress = \"127.0.0.1:0\"\n",
		Override{Key: "memcache_port", Flag: "memcache-port", Value: "auto"})
	if c.Net.Memcache != "127.0.0.1:0" || c.Net.Text != "" {
		t.Errorf("memcache %q, text %q", c.Net.Memcache, c.Net.Text)
	}
}

func TestBurrowListener(t *testing.T) {
	c := parse(t, `
[[listener]]
protocol = "burrow"
address = "127.0.0.1:8080"
account = "acme"
allow_origins = ["https://app.example"]
[users.alice]
account = "acme"
allow = ["put work*"]
`)
	l := c.Net.Listeners[0]
	if l.Account != "acme" || len(l.Origins) != 1 || l.Origins[0] != "https://app.example" || !l.Auth.Asks() {
		t.Errorf("listener %+v", l)
	}
	if u := c.Users.Named("alice"); u.Account != "acme" || !u.May(access.Put, []byte("acme/work1")) {
		t.Errorf("user %+v", u)
	}
}

func TestListenerProblems(t *testing.T) {
	for _, tt := range []struct{ src, want string }{
		{"listener = 1", `k:1: listener: want tables, each written [[listener]], have 1`},
		{"[[listener]]\n", "k:1: listener.1: protocol is missing; k:1: listener.1: address is missing"},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\n[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\n",
			"k:6: listener.2.address: listener 1 has it already"},
		{"[[listener]]\nprotocol = \"smtp\"\naddress = \"127.0.0.1\"\n",
			`k:2: listener.1.protocol: want "memcache", "text", "thrift", "burrow" or "admin", have "smtp"; ` +
				`k:3: listener.1.address: "127.0.0.1": write host:port, [::1]:port or unix:/path`},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\nmode = \"0660\"\n",
			`k:4: listener.1.mode: only a Unix socket has one, and address is "h:1"`},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"unix:/s\"\nmode = 660\n",
			`k:4: listener.1.mode: want the mode of a file in quotes, such as "0660", have 660`},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"unix:/s\"\nallow_from = [\"::1\"]\n",
			`k:4: listener.1.allow_from: a Unix socket has no networks: mode and group say who may connect`},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\nallow_from = [\"10.0.0.1/8\"]\n",
			`k:4: listener.1.allow_from: "10.0.0.1/8" has bits behind its length; did you mean 10.0.0.0/8?`},
		{"[[listener]]\nprotocol = \"text\"\naddres = \"h:1\"\n",
			"k:1: listener.1: address is missing; k:3: listener.1.addres: unknown key; did you mean address?"},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\naccount = \"acme\"\nallow_origins = [\"*\"]\n",
			`k:4: listener.1.account: only protocol burrow has one, and protocol is "text"; ` +
				`k:5: listener.1.allow_origins: only protocol burrow has one, and protocol is "text"`},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\nmemcache_reply_key = \"request\"\n",
			`k:4: listener.1.memcache_reply_key: only protocol memcache has one, and protocol is "text"`},
		{"[[listener]]\nprotocol = \"memcache\"\naddress = \"h:1\"\nmemcache_reply_key = \"key\"\n",
			`k:4: listener.1.memcache_reply_key: want "queue" or "request", or "auto", have "key"`},
		{"[[listener]]\nprotocol = \"burrow\"\naddress = \"h:1\"\nallow_origins = [\"*\", \"null\", \"https://a.b:1\", \"https://A.b/\"]\n",
			`k:4: listener.1.allow_origins: "https://A.b/": write an origin as browsers do, such as "https://app.example"`},
		{"[[listener]]\nprotocol = \"admin\"\naddress = \"h:1\"\n",
			"k: memcache_port: every protocol is off: nobody could reach the server"},
	} {
		_, err := Parse("k", tt.src, nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q:\n got %v\nwant %s", tt.src, err, tt.want)
		}
	}
}

func TestRestarts(t *testing.T) {
	const table = "[[listener]]\nprotocol = \"text\"\naddress = \"unix:/s\"\n"
	was := parse(t, "loops = 1\n"+table)
	if got := was.Restarts(parse(t, "loops = 1\nlog_level = \"debug\"\n"+table+"max_connections = 3\n")); got != nil {
		t.Errorf("live changes: %q", got)
	}
	got := was.Restarts(parse(t, "loops = 2\n"+table+"mode = \"0660\"\n"))
	if len(got) != 2 || got[0] != [3]string{"loops", "1", "2"} || got[1][0] != "listener" ||
		!strings.Contains(got[1][1], `mode="0600"`) || !strings.Contains(got[1][2], `mode="0660"`) {
		t.Errorf("changes: %q", got)
	}
	const zookeeper = "[discovery.zookeeper]\nhosts = [\"z\"]\npath_prefix = \"/k\"\n"
	const files = "certificate = \"c.pem\"\nkey = \"k.pem\"\n"
	was = parse(t, zookeeper+"credentials = \"u:first\"\n[tls.a]\n"+files+"[tls.b]\n"+files)
	got = was.Restarts(parse(t, zookeeper+"credentials = \"u:second\"\nacl = \"creator\"\n[discovery]\nadvertise = \"h\"\n"+
		"[tls.a]\n"+files+"client_ca = \"ca.pem\"\n[tls.c]\n"+files))
	want := [][3]string{
		{"discovery.advertise", `"auto"`, `"h"`}, {"discovery.zookeeper.credentials", "some", "others"},
		{"discovery.zookeeper.acl", `"open"`, `"creator"`},
		{"tls.a", "certificate=\"c.pem\" key=\"k.pem\" client_ca=\"none\"", "certificate=\"c.pem\" key=\"k.pem\" client_ca=\"ca.pem\""},
		{"tls.b", "certificate=\"c.pem\" key=\"k.pem\" client_ca=\"none\"", "none"},
		{"tls.c", "none", "certificate=\"c.pem\" key=\"k.pem\" client_ca=\"none\""},
	}
	if !slices.Equal(got, want) {
		t.Errorf("changes of discovery and TLS:\n got %q\nwant %q", got, want)
	}
}
