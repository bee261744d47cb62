package peer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestKestrelCommand(t *testing.T) {
	dir := t.TempDir()
	o := Setup{KestrelArgs: "serve DIR FILE PORT", KestrelServer: "a = 1\n", KestrelQueues: "b = 2\n"}
	args, err := kestrelCommand(&o, Server{Class: SyncAlways, Loops: 2}, dir, 42)
	want := "serve " + dir + "/data " + dir + "/kestrel.toml 42 --loops 2"
	if got := strings.Join(args, " "); err != nil || got != want {
		t.Errorf("kestrelCommand = %s, %v, want %s", got, err, want)
	}
	text, err := os.ReadFile(filepath.Join(dir, "kestrel.toml"))
	if err != nil || string(text) != "a = 1\n"+DefaultConfig(SyncAlways)+"b = 2\n" {
		t.Errorf("the configuration is %q, %v", text, err)
	}
}

// TestCommandLine checks that what changes from start to start is not in the header of a report.
func TestCommandLine(t *testing.T) {
	o := Setup{Dir: t.TempDir()}
	for _, s := range All() {
		line := o.CommandLine(s)
		if !strings.Contains(line, "PORT") || strings.Contains(line, o.Dir) {
			t.Errorf("%s is started with %q, want PORT and no directory in it", s.Name, line)
		}
	}
}

func TestLocate(t *testing.T) {
	dir := t.TempDir()
	built := filepath.Join(dir, "nsqd")
	if err := os.WriteFile(built, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	o := Setup{Install: dir, Kestrel: filepath.Join(dir, "kestrel")}
	for _, tt := range []struct{ name, want string }{{"nsqd", built}, {"kestrel", ""}} {
		s, ok := Find(tt.name)
		if !ok {
			t.Fatalf("no server %s", tt.name)
		}
		got, err := o.Locate(s)
		if (err == nil) != (tt.want != "") || err == nil && got.Program != tt.want {
			t.Errorf("Locate(%s) = %q, %v, want %q", tt.name, got.Program, err, tt.want)
		}
	}
}
