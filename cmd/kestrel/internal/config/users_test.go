package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
)

const someHash = "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"

func TestUsers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.toml")
	if err := os.WriteFile(file, []byte("[users.bob]\nallow = [\"put *\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const alice = "[users.alice]\npassword = \"" + someHash + "\"\nallow = [\"get work*\", \"operate\"]\n"
	c := parse(t, "users_file = \""+file+"\"\n[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\nauth = \"none\"\n"+
		"[[listener]]\nprotocol = \"admin\"\naddress = \"h:2\"\n"+alice)
	if c.Users.Len() != 2 || !c.Users.Named("alice").May(access.Get, []byte("work1")) || !c.Users.Named("bob").Everywhere(access.Put) {
		t.Errorf("users %+v", c.Users)
	}
	if c.Net.Auth != netloop.AuthPassword || c.Net.Listeners[0].Auth != netloop.AuthNone ||
		c.AdminPorts[0].Auth != netloop.AuthPassword {
		t.Errorf("auth: %q, %+v, %+v", c.Net.Auth, c.Net.Listeners, c.AdminPorts)
	}
	if c := parse(t, ""); c.Users != nil || c.Net.Auth.Asks() {
		t.Errorf("without users: %v, %q", c.Users, c.Net.Auth)
	}
	for _, tt := range []struct{ src, want string }{
		{"[users.alice]\npassword = \"s3cret\"\n",
			"k:2: users.alice.password: no argon2id hash: it does not begin with " +
				"$argon2id$; 'kestrel user hash' makes one"},
		{"[users.alice]\nallow = [\"fetch work\"]\n",
			`k:2: users.alice.allow: "fetch work": the verb must be one of put, get, ` +
				"peek, manage, stats, operate"},
		{"[users.\"a b\"]\nallow = []\n",
			`k:1: users."a b": the name of a user is UTF-8 without spaces, colons and control characters`},
		{"[users.alice]\npasword = 1\n", "k:2: users.alice.pasword: unknown key; did you mean password?"},
		{"[users.alice]\ntokens = [\"x\"]\n",
			"k:2: users.alice.tokens: no hash of a token: want sha256: and 64 hexadecimal " +
				"digits; 'kestrel user token' makes one"},
		{"[[listener]]\nprotocol = \"text\"\naddress = \"h:1\"\nauth = \"password\"\n",
			`k:4: listener.1.auth: auth is "password", and the file has no [users.NAME]: nobody could connect`},
		{"users_file = \"/no/such/file\"\n", "k:1: users_file: open /no/such/file: no such file or directory"},
		{"users_file = \"" + file + "\"\n[users.bob]\n",
			`k:2: users: user "bob": two users have this name: remove or rename one`},
	} {
		if _, err := Parse("k", tt.src, nil); err == nil || err.Error() != tt.want {
			t.Errorf("%q:\n got %v\nwant %s", tt.src, err, tt.want)
		}
	}
	if err := os.WriteFile(file, []byte("loops = 1\n[users.bob]\nallow = 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Parse("k", "users_file = \""+file+"\"\n", nil)
	for _, want := range []string{file + ":1: loops: a file of users has tables [users.NAME] only", file + ":3: users.bob.allow: want"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// TestSecretsAreNotRepeated tests that no message has what was written for a password, a token or credentials, however
// wrong it is. People write the password itself there, with quotes and without.
func TestSecretsAreNotRepeated(t *testing.T) {
	for _, written := range []string{
		`"hunter2"`, `hunter2`, `hunter`, `7234567`, `7234.567.8`, `72_34567`, `0723456`, `-hunter2`, `"hunter2`,
		`'hunter2`, `["hunter2"]`,
		`[hunter2]`, `[7234567]`, `{ hunter2 = 1 }`, `7234-56-78`, `"hunter2" hunter2`, `"\hunter2"`, `"""hunter2`,
		`true hunter2`, `hunter2"`,
		`+7234567x`, `7234567e`, `0xhunter2`,
	} {
		for _, key := range []string{"password", "tokens", "credentials"} {
			src := "[users.alice]\n" + key + " = " + written + "\n"
			if key == "credentials" {
				src = "[discovery.zookeeper]\nhosts = [\"zk\"]\npath_prefix = \"/k\"\ncredentials = " + written + "\n"
			}
			file := filepath.Join(t.TempDir(), "users.toml")
			if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Parse("k", src, nil)
			if err == nil && key == "credentials" {
				continue // TOML and, as it happens, credentials
			}
			for _, secret := range []string{"hunter", "7234", "723", "72_"} {
				if err == nil || strings.Contains(err.Error(), secret) {
					t.Errorf("%s = %s: %v", key, written, err)
				}
			}
			if key == "credentials" {
				continue
			}
			if _, err := Parse("k", "users_file = \""+file+"\"\n", nil); err == nil || !strings.Contains(err.Error(), file) ||
				strings.Contains(strings.ReplaceAll(err.Error(), file, ""), "hunter") {
				t.Errorf("%s = %s in a file of its own: %v", key, written, err)
			}
		}
	}
}

// TestUpgrade tests that a file from before there were listeners and users still means the same. It has the same
// ports, in the clear, and they ask nobody to log in.
func TestUpgrade(t *testing.T) {
	src, err := os.ReadFile(filepath.Join("testdata", "before-users.toml"))
	if err != nil {
		t.Fatal(err)
	}
	c := parse(t, string(src))
	for what, got := range map[string]string{
		"memcache": c.Net.Memcache, "text": c.Net.Text, "thrift": c.Net.Thrift,
	} {
		if want := map[string]string{"memcache": "127.0.0.1:22133", "text": "127.0.0.1:2222", "thrift": "127.0.0.1:2229"}[what]; got != want {
			t.Errorf("%s is spoken on %q, want %q", what, got, want)
		}
	}
	if c.Users != nil || c.Net.Auth.Asks() || c.SelfSigned || c.Net.Burrow != "" || len(c.Listeners)+len(c.AdminPorts)+len(c.Net.Listeners)+len(c.TLS) != 0 {
		t.Errorf("users %v, auth %q, listeners %+v, TLS %v, Burrow %q", c.Users, c.Net.Auth, c.Listeners, c.TLS,
			c.Net.Burrow)
	}
}
