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

// TestPlan checks who takes part in what.
func TestPlan(t *testing.T) {
	for _, tt := range []struct{ cases, want string }{
		{" page-cache SET 64B c=16 P=1 ",
			"memcached memcached-default memcached-meta redis-everysec redis-no beanstalkd nats nsqd kestrel kestrel-epoll kestrel-before"},
		{" page-cache SET 64B c=100 P=1 ", "memcached memcached-default memcached-meta redis-everysec redis-no kestrel kestrel-epoll kestrel-before"},
		{" page-cache FLOOD 64B c=16 P=1 ", "redis-everysec redis-no beanstalkd nats nsqd kestrel kestrel-epoll kestrel-before"},
		{" page-cache CHURN 64B c=16 P=1 ", "redis-everysec redis-no beanstalkd kestrel kestrel-epoll kestrel-before"},
		{" CROWD 64B c=10000 P=1 ", "redis-everysec redis-no beanstalkd kestrel kestrel-epoll kestrel-before"},
		{" sync-always SET 64B c=16 P=1 ", "redis-always beanstalkd-always nats-always kestrel-always kestrel-always-before"},
		{" sync-always SET 64B c=100 P=1 Q=1000 ", "redis-always kestrel-always kestrel-always-before"},
		{" memory SET 64B c=16 P=1 ",
			"memcached-memory redis-memory beanstalkd-memory nats-memory nsqd-memory kestrel-memory"},
		{" SCALING ", "kestrel-loops1 kestrel-loops2"},
		{" c=7 ", ""},
	} {
		o, err := parseOptions([]string{"-cases", tt.cases}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range o.plan(servers()) {
			for _, s := range p.servers {
				got = append(got, s.Name)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("-cases %q selects %q, want %s", tt.cases, got, tt.want)
		}
	}
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range allCases() {
		for _, s := range servers() {
			if !c.fits(s) {
				continue
			}
			if err := o.load(c, s, "127.0.0.1:1").Validate(); err != nil {
				t.Errorf("%s cannot run%s: %v", s.Name, c, err)
			}
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
