package main

import (
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/config"
	"github.com/kestrelmq/kestrel/netloop"
)

func TestSetsOf(t *testing.T) {
	for status, want := range map[netloop.Status]discovery.Sets{
		netloop.Up:         {Read: true, Write: true},
		netloop.WriteAvoid: {Read: true},
		netloop.ReadOnly:   {Read: true},
		netloop.Quiescent:  {},
		netloop.Down:       {},
	} {
		if got := setsOf(status); got != want {
			t.Errorf("a server that is %s belongs to %s, want %s", status, got, want)
		}
	}
}

func TestReachableHost(t *testing.T) {
	for _, tt := range []struct{ listen, want, err string }{
		{"10.1.2.3", "10.1.2.3", ""},
		{"queues.example.com", "queues.example.com", ""},
		{"127.0.0.1", "", "which no other machine reaches"},
		{"::1", "", "which no other machine reaches"},
	} {
		got, err := reachableHost(tt.listen)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("reachableHost(%q) = %q, %v; want %q, %s", tt.listen, got, err, tt.want, tt.err)
		}
	}
}

// TestEndpoints tests that members carry the original's protocols and no others, and that a server without them says
// what to do.
func TestEndpoints(t *testing.T) {
	tcp := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }
	open := map[string]net.Addr{"memcache": tcp(1), "thrift": tcp(2), "text": tcp(3), "burrow": tcp(4)}
	a := &announcer{host: "10.1.2.3", addrs: func() map[string]net.Addr { return open }}
	want := map[string]discovery.Endpoint{
		"memcache": {Host: "10.1.2.3", Port: 1}, "thrift": {Host: "10.1.2.3", Port: 2}, "text": {Host: "10.1.2.3", Port: 3},
	}
	if got := a.endpoints(); !maps.Equal(got, want) {
		t.Errorf("endpoints = %v, want %v", got, want)
	}
	a.config.Memcache = config.Advertised{Host: "203.0.113.7", Port: 7000} // behind NAT
	a.config.Thrift = config.Advertised{Host: "queues.example.com"}
	a.config.Text = config.Advertised{Not: true}
	want = map[string]discovery.Endpoint{
		"memcache": {Host: "203.0.113.7", Port: 7000}, "thrift": {Host: "queues.example.com", Port: 2},
	}
	if got := a.endpoints(); !maps.Equal(got, want) {
		t.Errorf("endpoints = %v, want %v", got, want)
	}
	a.config = config.Discovery{}
	open = map[string]net.Addr{"burrow": tcp(4)}
	if _, err := a.start(); err == nil || !strings.Contains(err.Error(), "open one of these ports") {
		t.Errorf("a server that speaks burrow alone: %v", err)
	}
}

// TestAdvertised tests which configurations say where clients find the server, and that another, which listens where no
// client comes, does not start.
func TestAdvertised(t *testing.T) {
	for _, tt := range []struct {
		src string
		ok  bool
	}{
		{"", false},
		{"advertise = \"10.1.2.3\"\n", true},
		{"advertise_memcache = \"203.0.113.7:7000\"\n", false}, // and the others?
		{"advertise_memcache = \"203.0.113.7:7000\"\nadvertise_thrift = \"none\"\nadvertise_text = \"a\"\n", true},
	} {
		src := "[discovery]\n" + tt.src + "[discovery.zookeeper]\nhosts = [\"127.0.0.1:1\"]\npath_prefix = \"/kestrel\"\n"
		for _, off := range []bool{false, true} {
			if off { // the others are not spoken, or over a Unix socket
				src = "thrift_port = \"none\"\n[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:0\"\n" +
					"[[listener]]\nprotocol = \"text\"\naddress = \"unix:/tmp/k.sock\"\n" + src
			}
			c, err := config.Parse("", src, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := newAnnouncer(c, nil, nil)
			if ok := tt.ok || off && tt.src != ""; (err == nil) != ok || err == nil && a == nil {
				t.Errorf("%q, others off: %t: %v", tt.src, off, err)
			}
		}
	}
}

// TestEndToEndDiscoveryAway serves clients while ZooKeeper cannot be reached.
func TestEndToEndDiscoveryAway(t *testing.T) {
	file := clitest.WriteConfig(t, "[discovery]\nadvertise = \"10.1.2.3\"\n[discovery.zookeeper]\n"+
		"hosts = [\"127.0.0.1:1\"]\npath_prefix = \"/kestrel\"\nsession_timeout = \"1s\"\n")
	p := clitest.Serve(t, "--config", file)
	p.Dial().Ask("set work 0 0 1\na\nget work\n", "STORED\nVALUE work 0 1\na\nEND\n")
	p.Says("ZooKeeper cannot be used: the server serves on, and tries again every second")
}
