package netloop

import (
	"testing"

	"github.com/kestrelmq/kestrel/access"
)

// TestIdentityRemembers tests that rights on more queues than are remembered come out right, and cost no memory once
// they are.
func TestIdentityRemembers(t *testing.T) {
	users := usersOf(t, grants(t, "alice", "put a*", "get b*"))
	var id identity
	id.become(users.Named("alice"))
	queues := [][]byte{[]byte("a"), []byte("b"), []byte("ab"), []byte("ba"), []byte("c"), []byte("")}
	for range 3 {
		for _, q := range queues {
			if got, want := id.may(access.Put, q), len(q) > 0 && q[0] == 'a'; got != want {
				t.Errorf("put on %q: %v", q, got)
			}
			if got, want := id.may(access.Get, q), len(q) > 0 && q[0] == 'b'; got != want {
				t.Errorf("get on %q: %v", q, got)
			}
		}
	}
	n := need{access.Put, onQueue}
	if allocs := testing.AllocsPerRun(100, func() { id.denied(n, queues[0]) }); allocs > 0 {
		t.Errorf("a check allocates %v times", allocs)
	}
	id.become(nil)
	if id.denied(need{}, nil) == nil {
		t.Error("a command without a need is not refused where it is asked for")
	}
}

// BenchmarkDenied measures what a user's put costs beyond one of nobody. The right is on *, on a pattern whose queue
// is remembered, or on a pattern whose queues are not.
func BenchmarkDenied(b *testing.B) {
	for _, bb := range []struct {
		name, grant string
		queues      int
	}{{"everywhere", "put *", 1}, {"pattern", "put work*", 1}, {"queues=8", "put work*", 8}} {
		b.Run(bb.name, func(b *testing.B) {
			var id identity
			id.become(usersOf(b, grants(b, "alice", bb.grant)).Named("alice"))
			names := make([][]byte, bb.queues)
			for i := range names {
				names[i] = append([]byte("work_items_"), byte('a'+i))
			}
			n, i := need{access.Put, onQueue}, 0
			b.ReportAllocs()
			for b.Loop() {
				if id.denied(n, names[i%len(names)]) != nil {
					b.Fatal("denied")
				}
				i++
			}
		})
	}
}
