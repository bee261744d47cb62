package clientcmd

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	for _, tt := range []struct {
		name, file      string
		server, profile string // flags
		envServer       string
		envProfile      string
		want            string
		wantTimeout     time.Duration
		wantErr         string
	}{
		{name: "nothing", want: defaultServer, wantTimeout: defaultTimeout},
		{name: "the file's default", file: profiles, want: "here:1", wantTimeout: defaultTimeout},
		{name: "--profile", file: profiles, profile: "live", envServer: "e:1", want: "kestrel://a:1,b:2", wantTimeout: 3 * time.Second},
		{name: "--server", file: profiles, server: "s:1", envServer: "e:1", envProfile: "live", want: "s:1", wantTimeout: 3 * time.Second},
		{name: "the server's variable", file: profiles, envServer: "e:1", want: "e:1", wantTimeout: defaultTimeout},
		{name: "the profile's variable", file: profiles, envProfile: "live", want: "kestrel://a:1,b:2", wantTimeout: 3 * time.Second},
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
		p := &place{server: tt.server, profile: tt.profile, output: "text"}
		err := p.resolve()
		if tt.wantErr != "" {
			var failed *cli.Failure
			if !errors.As(err, &failed) || !strings.Contains(failed.Text, tt.wantErr) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.wantErr)
			}
			continue
		}
		if err != nil || p.server != tt.want || p.timeout != tt.wantTimeout {
			t.Errorf("%s: server %q, timeout %v, %v; want %q, %v", tt.name, p.server, p.timeout, err, tt.want, tt.wantTimeout)
		}
	}
}
