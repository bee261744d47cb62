//go:build lab

package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/kestrelmq/kestrel/client/discovery/zktest"
)

func configFor(z *zktest.Server) Config {
	return Config{Hosts: []string{z.Addr}, Path: "/kestrel/test", SessionTimeout: 2 * time.Second}
}

// member returns a member that serves memcache on a port.
func member(t testing.TB, port int) Member {
	t.Helper()
	m, err := NewMember(map[string]Endpoint{Memcache: {"10.1.2.3", port}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// announced announces a member until the end of the test.
func announced(t *testing.T, c Config, port int) *Announcer {
	t.Helper()
	a, err := Announce(c, member(t, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		a.Close(ctx)
	})
	return a
}

// set changes the sets of a, which ZooKeeper is to confirm.
func set(t *testing.T, a *Announcer, want Sets) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := a.Set(ctx, want); err != nil {
		t.Fatal(err)
	}
}

// view is what a Watch reports, as ports: "read 1 2, write 1".
type view struct {
	t       *testing.T
	reports chan string
	last    string
}

func watched(t *testing.T, c Config) *view {
	t.Helper()
	v := &view{t: t, reports: make(chan string, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Watch(ctx, c, func(m Members) { v.reports <- portsOf(m) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return v
}

func portsOf(m Members) string {
	list := func(members []Member) (s string) {
		ports := make([]int, 0, len(members))
		for _, m := range members {
			ports = append(ports, m.Service.Port)
		}
		slices.Sort(ports) // those who come back after a failure may have another order
		for _, port := range ports {
			s += fmt.Sprintf(" %d", port)
		}
		return s
	}
	return "read" + list(m.Read) + ", write" + list(m.Write)
}

// wants waits until the members are those.
func (v *view) wants(want string) {
	v.t.Helper()
	late := time.After(patience)
	for v.last != want {
		select {
		case v.last = <-v.reports:
		case <-late:
			v.t.Fatalf("members are %q, want %q", v.last, want)
		}
	}
}

// TestAnnounce has servers come, change and go, and ZooKeeper stall, die and forget everything.
func TestAnnounce(t *testing.T) {
	z := zktest.Start(t)
	c := configFor(z)
	v := watched(t, c)
	a, b := announced(t, c, 1), announced(t, c, 2)
	set(t, a, Sets{Read: true, Write: true})
	set(t, b, Sets{Read: true})
	v.wants("read 1 2, write 1")
	set(t, a, Sets{Read: true})
	v.wants("read 1 2, write")
	set(t, b, Sets{Read: true, Write: true})
	v.wants("read 1 2, write 2")

	t.Run("another deletes the node", func(t *testing.T) {
		conn, _, err := zk.Connect(c.Hosts, time.Second, zk.WithLogger(quietLogger{slog.New(slog.DiscardHandler)}))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		names, _, err := conn.Children("/kestrel/test/write")
		if err != nil || len(names) != 1 {
			t.Fatalf("children of write: %q, %v", names, err)
		}
		if err := conn.Delete("/kestrel/test/write/"+names[0], -1); err != nil {
			t.Fatal(err)
		}
		data, _, err := conn.Get("/kestrel/test/read/member_0000000000")
		want := `{"serviceEndpoint":{"host":"10.1.2.3","port":1},"additionalEndpoints":` +
			`{"memcache":{"host":"10.1.2.3","port":1}},"status":"ALIVE"}`
		if err != nil || string(data) != want {
			t.Errorf("node = %s, %v\nwant %s", data, err, want)
		}
		v.last = ""
		v.wants("read 1 2, write 2")
	})
	t.Run("stalled past the end of the session", func(t *testing.T) {
		z.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := a.Set(ctx, Sets{Read: true, Write: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wish that ZooKeeper cannot confirm: %v", err)
		}
		z.Continue()
		v.wants("read 1 2, write 1 2")
	})
	t.Run("killed and wiped", func(t *testing.T) {
		z.Kill()
		z.Wipe()
		z.Restart()
		v.last = ""
		set(t, a, Sets{Read: true, Write: true})
		v.wants("read 1 2, write 1 2")
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Close(ctx); err != nil {
		t.Fatal(err)
	}
	v.wants("read 1, write 1")
}

// TestCredentials has nodes that only those with the credentials may change.
func TestCredentials(t *testing.T) {
	z := zktest.Start(t)
	c := configFor(z)
	c.Credentials, c.ACL = "kestrel:secret", Creator
	a := announced(t, c, 1)
	set(t, a, Sets{Read: true, Write: true})
	plain := configFor(z)
	watched(t, plain).wants("read 1, write 1") // everybody may read

	wrong := plain
	wrong.Credentials = "kestrel:guess"
	b := announced(t, wrong, 2)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := b.Set(ctx, Sets{Read: true}); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("announced with the wrong credentials: %v", err)
	}
	if got := b.State(); got.Announced != (Sets{}) || !errors.Is(got.Err, zk.ErrNoAuth) {
		t.Errorf("state = %+v", got)
	}
}
