package clientcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	file := filepath.Join(dir, "kestrel", "client.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	const profiles = `default = "here"
[profiles.here]
server = "here:1"
[profiles.live]
server = "kestrel://a:1,b:2"
timeout = "3s"
`
	const known = "default = 'here'\n[profiles.here]\nserver = 'here:1'\nuser = 'alice'\npassword = 'secret'\ntls = true\n"
	for _, tt := range []struct {
		name, file      string
		server, profile string // flags
		envServer       string
		envProfile      string
		timeout         time.Duration
		tls             string // the flag; "" if it is not given
		want            string
		wantTimeout     time.Duration
		wantUser        string
		wantTLS         bool
		wantErr         string
	}{
		{name: "nothing", want: defaultServer, wantTimeout: defaultTimeout},
		{name: "the file's default", file: profiles, want: "here:1", wantTimeout: defaultTimeout},
		{name: "--profile", file: profiles, profile: "live", envServer: "e:1", want: "kestrel://a:1,b:2", wantTimeout: 3 * time.Second},
		{name: "--server", file: profiles, server: "s:1", envServer: "e:1", envProfile: "live", want: "s:1", wantTimeout: 3 * time.Second},
		{name: "the server's variable", file: profiles, envServer: "e:1", want: "e:1", wantTimeout: defaultTimeout},
		{name: "the profile's variable", file: profiles, envProfile: "live", want: "kestrel://a:1,b:2", wantTimeout: 3 * time.Second},
		{name: "who, beside --server and --timeout", file: known, server: "s:1", timeout: time.Second, want: "s:1", wantTimeout: time.Second, wantUser: "alice", wantTLS: true},
		{name: "--tls=false", file: known, tls: "false", want: "here:1", wantTimeout: defaultTimeout, wantUser: "alice"},
		{name: "--tls", file: profiles, tls: "true", want: "here:1", wantTimeout: defaultTimeout, wantTLS: true},
		{name: "no such profile", file: profiles, profile: "dead", wantErr: `there is no profile "dead"`},
		{name: "a profile without a file", profile: "live", wantErr: "client.toml does not exist"},
		{name: "no TOML", file: "x", wantErr: "profiles in"},
		{name: "a password without quotes", file: "[profiles.x]\npassword = hunter2\n", wantErr: "line 2: the value of password is not TOML"},
		{name: "a token without quotes", file: "[profiles.x]\ntoken = hunter2\n", wantErr: "line 2: the value of token is not TOML"},
		{name: "a password that is a number", file: "[profiles.x]\npassword = 7234567\n", wantErr: "incompatible types"},
		{name: "an unknown key", file: "[profiles.x]\nsever = 1\n", wantErr: "the key profiles.x.sever is not known"},
		{name: "a bad time", file: "default = 'x'\n[profiles.x]\ntimeout = 'soon'\n", wantErr: `timeout is "soon"`},
	} {
		os.Remove(file)
		if tt.file != "" {
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(serverVariable, tt.envServer)
		t.Setenv(profileVariable, tt.envProfile)
		p := new(place)
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		p.define(f)
		p.server, p.profile, p.timeout = tt.server, tt.profile, tt.timeout
		if tt.tls != "" {
			if err := f.Set("tls", tt.tls); err != nil {
				t.Fatal(err)
			}
		}
		err := p.resolve()
		if tt.wantErr != "" {
			var failed *cli.Failure
			if !errors.As(err, &failed) || !strings.Contains(failed.Text, tt.wantErr) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.wantErr)
			}
			continue
		}
		if err != nil || p.server != tt.want || p.timeout != tt.wantTimeout || p.user != tt.wantUser || p.tls != tt.wantTLS {
			t.Errorf("%s: server %q, timeout %v, user %q, TLS %t, %v; want %q, %v, %q, %t", tt.name, p.server, p.timeout, p.user, p.tls, err,
				tt.want, tt.wantTimeout, tt.wantUser, tt.wantTLS)
		}
	}
}
