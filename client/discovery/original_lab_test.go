//go:build lab

package discovery

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/kestrelmq/kestrel/client/discovery/zktest"
)

// connected returns a session that ends with the test.
func connected(t *testing.T, z *zktest.Server) *zk.Conn {
	t.Helper()
	conn, _, err := zk.Connect([]string{z.Addr}, 10*time.Second, zk.WithLogger(quietLogger{slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// finagle reads a set as the reference says that the original's clients did. They expect children called member_ and
// digits, and JSON with a service endpoint, further endpoints by name, and the status ALIVE. It refuses what they
// would.
func finagle(t *testing.T, conn *zk.Conn, path string) (members []string) {
	t.Helper()
	names, _, err := conn.Children(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !regexp.MustCompile(`^member_[0-9]{10}$`).MatchString(name) {
			t.Errorf("%s/%s: no name that the original reads", path, name)
			continue
		}
		data, stat, err := conn.Get(path + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if stat.EphemeralOwner == 0 {
			t.Errorf("%s/%s would outlive its server", path, name)
		}
		if len(data) < 2 || string(data[:2]) != `{"` {
			t.Errorf("%s/%s: %q would be read as Thrift", path, name, data)
		}
		var m struct {
			ServiceEndpoint *struct {
				Host string
				Port int
			}
			AdditionalEndpoints map[string]struct {
				Host string
				Port int
			}
			Status string
			Shard  *int
		}
		if err := json.Unmarshal(data, &m); err != nil || m.ServiceEndpoint == nil || m.AdditionalEndpoints == nil ||
			m.Status != "ALIVE" || m.Shard != nil {
			t.Errorf("%s/%s: the original cannot read %s (%v)", path, name, data, err)
			continue
		}
		if e, ok := m.AdditionalEndpoints["memcache"]; !ok || e != *m.ServiceEndpoint {
			t.Errorf("%s/%s: %s has no memcache endpoint", path, name, data)
		}
		members = append(members, fmt.Sprintf("%s:%d", m.ServiceEndpoint.Host, m.ServiceEndpoint.Port))
	}
	slices.Sort(members)
	return members
}

// TestBesideOriginals has a reader of the original's kind read what ours announce. Our clients read members that
// servers of the original have written beside them, in JSON and in the Thrift of its older libraries. They also meet
// nodes that are no members of anything.
func TestBesideOriginals(t *testing.T) {
	z := zktest.Start(t)
	c := configFor(z)
	v := watched(t, c) // before the path is there
	a := announced(t, c, 1)
	set(t, a, Sets{Read: true, Write: true})
	v.wants("read 1, write 1")

	original := connected(t, z)
	for _, data := range []string{fullJSON, string(unhex(t, fullThrift))} {
		node, err := original.Create("/kestrel/test/read/member_", []byte(data), zk.FlagEphemeralSequential, zk.WorldACL(zk.PermAll))
		if err != nil {
			t.Fatal(err)
		}
		v.wants("read 1 22133, write 1")
		if err := original.Delete(node, -1); err != nil {
			t.Fatal(err)
		}
		v.wants("read 1, write 1")
	}
	for name, data := range map[string]string{"member_0000000099": "garbage", "lock_0000000001": fullJSON,
		"member_0000000098": `{"serviceEndpoint":{"host":"h","port":9},"additionalEndpoints":{},"status":"STOPPED"}`} {
		if _, err := original.Create("/kestrel/test/write/"+name, []byte(data), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	b := announced(t, c, 2)
	set(t, b, Sets{Read: true, Write: true})
	v.wants("read 1 2, write 1 2")

	reader := connected(t, z)
	if got, want := finagle(t, reader, "/kestrel/test/read"), []string{"10.1.2.3:1", "10.1.2.3:2"}; !slices.Equal(got, want) {
		t.Errorf("a reader of the original finds %q, want %q", got, want)
	}
	set(t, a, Sets{Read: true})
	set(t, b, Sets{})
	if got, want := finagle(t, reader, "/kestrel/test/read"), []string{"10.1.2.3:1"}; !slices.Equal(got, want) {
		t.Errorf("a reader of the original finds %q, want %q", got, want)
	}
}
