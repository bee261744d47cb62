//go:build lab

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/client/discovery"
	"github.com/kestrelmq/kestrel/client/discovery/zktest"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// translator is an address in front of a server, as address translation makes one: clients know this address, and the
// server does not.
type translator struct {
	net.Listener
	server atomic.Pointer[string] // host:port; nil until it has started
	passed atomic.Int64           // connections
}

func startTranslator(t *testing.T) *translator {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		if runtime.GOOS == "linux" { // all of 127.0.0.0/8 is this machine there
			t.Fatal(err)
		}
		t.Skipf("no second address of this machine: %v", err)
	}
	tr := &translator{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", *tr.server.Load())
			if err != nil {
				from.Close()
				continue
			}
			tr.passed.Add(1)
			pass := func(to, from net.Conn) {
				io.Copy(to, from)
				to.Close()
			}
			go pass(to, from)
			go pass(from, to)
		}
	}()
	return tr
}

// TestEndToEndClusterAdvertised has a server behind address translation announce itself in a real ZooKeeper. Its member
// carries what advertise_… say, and a client that knows ZooKeeper alone reaches it there.
func TestEndToEndClusterAdvertised(t *testing.T) {
	z := zktest.Start(t)
	tr := startTranslator(t)
	file := clitest.WriteConfig(t, fmt.Sprintf("[discovery]\nadvertise_memcache = %q\nadvertise_thrift = \"queues.example.com\"\n"+
		"advertise_text = \"none\"\n[discovery.zookeeper]\nhosts = [%q]\npath_prefix = \"/kestrel\"\n", tr.Addr(), z.Addr))
	p := clitest.Serve(t, "--config", file, "--data-dir", t.TempDir(), "--sync-journal", "never")
	tr.server.Store(&p.Addr)

	ctx, cancel := context.WithTimeout(t.Context(), 3*clitest.Patience)
	defer cancel()
	found := make(chan discovery.Member, 1)
	go discovery.Watch(ctx, discovery.Config{Hosts: []string{z.Addr}, Path: "/kestrel"}, func(m discovery.Members) {
		if len(m.Read) == 1 && len(m.Write) == 1 {
			select {
			case found <- m.Read[0]:
			default:
			}
		}
	})
	var member discovery.Member
	select {
	case member = <-found:
	case <-ctx.Done():
		t.Fatal("ZooKeeper has no member")
	}
	memcache, err := endpointOf(tr.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	thrift, err := endpointOf(p.Thrift, "queues.example.com")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]discovery.Endpoint{discovery.Memcache: memcache, discovery.Thrift: thrift}
	if member.Service != memcache || !maps.Equal(member.Additional, want) {
		t.Errorf("the member carries %+v, %+v, want %+v", member.Service, member.Additional, want)
	}

	c, err := client.Dial(ctx, "zk://"+z.Addr+"/kestrel", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Put(ctx, "work", []byte("hello"), client.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	it, err := c.Get(ctx, "work", 0)
	if err != nil || string(it.Data) != "hello" {
		t.Errorf("Get = %q, %v", it.Data, err)
	}
	if tr.passed.Load() == 0 {
		t.Error("the client has found another way")
	}
}

// endpointOf is addr as an endpoint, at another host if there is one.
func endpointOf(addr, host string) (e discovery.Endpoint, err error) {
	e.Host = host
	own, port, err := net.SplitHostPort(addr)
	if host == "" {
		e.Host = own
	}
	if err == nil {
		_, err = fmt.Sscan(port, &e.Port)
	}
	return e, err
}
