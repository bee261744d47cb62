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

// TestSecure puts and gets over TLS as a user, and fails with a wrong password, and without a right.
func TestSecure(t *testing.T) {
	h, err := access.HashPassword([]byte("s3c:ret@"))
	if err != nil {
		t.Fatal(err)
	}
	users, err := access.NewUsers([]*access.User{{Name: "alice", Password: h, Allow: []access.Grant{
		{Right: access.Put, Pattern: "work"}, {Right: access.Get, Pattern: "work"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	source, err := certs.SelfSigned(nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := source.Server(tls.NoClientCert)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{Dir: t.TempDir(), Settings: engine.Settings{Default: engine.DefaultQueueOptions()}})
	if err != nil {
		t.Fatal(err)
	}
	server, err := netloop.New(netloop.Options{
		Engine: e, Loops: 1, Access: access.NewChecker(users, access.Options{}),
		Listeners: []netloop.Listener{{
			Protocol: netloop.ProtocolMemcache, Port: ports.Spec{Address: "127.0.0.1:0"}, Auth: netloop.AuthPassword, TLS: config,
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
	if _, err := client.Dial(t.Context(), "kestrel://:x@"+addr, client.Options{}); err == nil {
		t.Error("an address with a password and no user is taken")
	}
}
