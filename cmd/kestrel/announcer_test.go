package main

import (
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
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
	open = map[string]net.Addr{"burrow": tcp(4)}
	if _, err := a.start(); err == nil || !strings.Contains(err.Error(), "open one of these ports") {
		t.Errorf("a server that speaks burrow alone: %v", err)
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
