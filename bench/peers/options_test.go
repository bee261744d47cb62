package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-short", "-rounds", "9"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 9 || o.window != shortWindow || o.warmup != shortWindow/4 {
		t.Errorf("-short -rounds 9: %d rounds, window %v, warm-up %v", o.rounds, o.window, o.warmup)
	}
	if o, err = parseOptions([]string{"-window", "4s"}, io.Discard); err != nil {
		t.Fatal(err)
	}
	if o.rounds != 5 || o.warmup != time.Second {
		t.Errorf("-window 4s: %d rounds, warm-up %v, want 5 and 1s", o.rounds, o.warmup)
	}
	for _, tt := range []struct{ args, want string }{
		{"-servers memcached,postgres", `unknown server "postgres"`},
		{"-rounds 0", "-rounds 0"},
		{"-window 0s", "-window 0s"},
		{"-cases (", "-cases: "},
		{"-server-cpu 1", "among -load-cpus"},
		{"-load-cpus 1,x", "-load-cpus: "},
		{"-load-cpus 1,1024", "processor 1024"},
		{"extra", `unexpected argument "extra"`},
		{"-nonsense", "not defined"},
	} {
		_, err := parseOptions(strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseOptions(%s) = %v, want %q", tt.args, err, tt.want)
		}
	}
}

func TestPlan(t *testing.T) {
	all := []server{
		{name: "a", class: pageCache}, {name: "b", class: pageCache}, {name: "c", class: syncAlways},
	}
	for _, tt := range []struct {
		cases   string
		servers []server
		want    int // measurements of a round
	}{
		{".", all, 16*2 + 2},
		{"SET", all, 8*2 + 2},
		{" c=100 ", all, 4*2 + 1},
		{"page-cache GET c=1 P=32", all, 2},
		{"sync-always", all[:2], 0},
		{"no such case", all, 0},
	} {
		o, err := parseOptions([]string{"-cases", tt.cases}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, p := range o.plan(tt.servers) {
			got += len(p.servers)
		}
		if got != tt.want {
			t.Errorf("-cases %q selects %d measurements, want %d", tt.cases, got, tt.want)
		}
	}
}

func TestInstalledSkipsWhatIsMissing(t *testing.T) {
	var said strings.Builder
	o, err := parseOptions([]string{"-servers", "kestrel", "-kestrel", "no/such/binary"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if found := o.installed(&said); len(found) != 0 {
		t.Errorf("installed = %v, want none", found)
	}
	if !strings.Contains(said.String(), "skipping kestrel") {
		t.Errorf("said %q, want that it skips kestrel", said.String())
	}
}

func TestKestrelCommand(t *testing.T) {
	o, err := parseOptions([]string{"-kestrel-args", "serve DIR FILE PORT"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args, err := kestrelCommand(o, server{class: syncAlways}, dir, 42)
	want := "serve " + dir + "/data " + dir + "/kestrel.toml 42"
	if got := strings.Join(args, " "); err != nil || got != want {
		t.Errorf("kestrelCommand = %s, %v, want %s", got, err, want)
	}
}
