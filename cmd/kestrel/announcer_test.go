package main

import (
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

// TestEndToEndDiscoveryAway serves clients while ZooKeeper cannot be reached.
func TestEndToEndDiscoveryAway(t *testing.T) {
	file := clitest.WriteConfig(t, "[discovery]\nadvertise = \"10.1.2.3\"\n[discovery.zookeeper]\n"+
		"hosts = [\"127.0.0.1:1\"]\npath_prefix = \"/kestrel\"\nsession_timeout = \"1s\"\n")
	p := clitest.Serve(t, "--config", file)
	p.Dial().Ask("set work 0 0 1\na\nget work\n", "STORED\nVALUE work 0 1\na\nEND\n")
	p.Says("ZooKeeper cannot be used: the server serves on, and tries again every second")
}
