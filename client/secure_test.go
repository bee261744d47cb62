package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/certs"
	"github.com/kestrelmq/kestrel/netloop/ports"
)

// TestSecure puts and gets over TLS as a user, by a password and by a certificate. It fails with a wrong password, without
// a certificate, with that of nobody, and without a right.
func TestSecure(t *testing.T) {
	h, err := access.HashPassword([]byte("s3c:ret@"))
	if err != nil {
		t.Fatal(err)
	}
	config, strangers := selfSigned(t, "bob.example"), selfSigned(t)
	work := []access.Grant{{Right: access.Put, Pattern: "work"}, {Right: access.Get, Pattern: "work"}}
	users, err := access.NewUsers([]*access.User{
		{Name: "alice", Password: h, Allow: work}, {Name: "bob", Certificates: []string{"dns:bob.example"}, Allow: work},
	})
	if err != nil {
		t.Fatal(err)
	}
	byCertificate := config.Clone()
	byCertificate.ClientAuth = tls.RequireAnyClientCert // that of the authority is tested in netloop
	e, err := engine.Open(engine.Options{
		Dir: t.TempDir(), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}, SegmentSize: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	server, err := netloop.New(netloop.Options{
		Engine: e, Loops: 1, Access: access.NewChecker(users, access.Options{}),
		Listeners: []netloop.Listener{{
			Protocol: netloop.ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Auth: netloop.AuthPassword, TLS: config,
		}, {
			Protocol: netloop.ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Auth: netloop.AuthCertificate, TLS: byCertificate,
		}},
	})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Shutdown(context.Background())
		e.Close()
	})
	addr := server.MemcacheAddr().String()
	certified := server.Ports()[1].Name
	trusting := &tls.Config{InsecureSkipVerify: true}
	dial := func(address string, opts client.Options) *client.Client {
		t.Helper()
		c, err := client.Dial(t.Context(), address, opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	for _, c := range []*client.Client{
		dial(addr, client.Options{TLS: trusting, User: "alice", Password: "s3c:ret@"}),
		dial("kestrels://alice:s3c%3Aret%40@"+addr, client.Options{TLS: trusting}),
		dial(certified, client.Options{TLS: &tls.Config{InsecureSkipVerify: true, Certificates: config.Certificates}}),
	} {
		if err := c.Put(t.Context(), "work", []byte("hello"), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		if item, err := c.Get(t.Context(), "work", 0); err != nil || string(item.Data) != "hello" {
			t.Errorf("Get = %q, %v", item.Data, err)
		}
		if err := c.Put(t.Context(), "billing", []byte("x"), client.PutOptions{}); err == nil {
			t.Error("a put without a right is taken")
		}
	}
	if _, err := dial(addr, client.Options{TLS: trusting, User: "alice", Password: "wrong"}).Get(t.Context(), "work", 0); !errors.Is(err, client.ErrAuthentication) {
		t.Errorf("a wrong password: %v, want ErrAuthentication", err)
	}
	for _, certificates := range [][]tls.Certificate{nil, strangers.Certificates} {
		c := dial(certified, client.Options{TLS: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, User: "alice", Password: "s3c:ret@"})
		if _, err := c.Get(t.Context(), "work", 0); err == nil {
			t.Errorf("%d certificates of nobody are taken", len(certificates))
		}
	}
	if _, err := client.Dial(t.Context(), "kestrel://:x@"+addr, client.Options{}); err == nil {
		t.Error("an address with a password and no user is taken")
	}
}

// TestPasswordStaysHere gives a client a user and a password. Its servers ask for neither: one has no users, and one
// knows the client by its certificate. They would take the client's login for an item like any other.
func TestPasswordStaysHere(t *testing.T) {
	config := selfSigned(t, "bob.example")
	users, err := access.NewUsers([]*access.User{{
		Name: "bob", Certificates: []string{"dns:bob.example"},
		Allow: []access.Grant{{Right: access.Put, Pattern: "*"}, {Right: access.Peek, Pattern: "*"}, {Right: access.Get, Pattern: "*"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	config.ClientAuth = tls.RequireAnyClientCert
	server, err := netloop.New(netloop.Options{
		Engine: e, Loops: 1, Access: access.NewChecker(users, access.Options{}),
		Listeners: []netloop.Listener{
			{Protocol: netloop.ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}},
			{Protocol: netloop.ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Auth: netloop.AuthAny, TLS: config},
		},
	})
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	defer server.Shutdown(context.Background())
	for i, secure := range []*tls.Config{nil, {InsecureSkipVerify: true, Certificates: config.Certificates}} {
		c, err := client.Dial(t.Context(), server.Ports()[i].Name, client.Options{TLS: secure, User: "alice", Password: "s3cret"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Put(t.Context(), "work", []byte("hello"), client.PutOptions{}); err != nil {
			t.Errorf("listener %d: %v", i, err)
		}
		if item, err := c.Peek(t.Context(), "auth"); !errors.Is(err, client.ErrEmpty) {
			t.Errorf("listener %d: the queue auth has %q, %v", i, item.Data, err)
		}
	}
}

// selfSigned returns a configuration with a new certificate that signs itself.
func selfSigned(t *testing.T, hosts ...string) *tls.Config {
	t.Helper()
	source, err := certs.SelfSigned(hosts)
	if err != nil {
		t.Fatal(err)
	}
	config, err := source.Server(tls.NoClientCert)
	if err == nil {
		config, err = config.GetConfigForClient(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return config
}
