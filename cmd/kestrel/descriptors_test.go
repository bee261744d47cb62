package main

import (
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/admin"
)

// sum is all that the parts may have.
func (d descriptors) sum() int {
	return d.process + d.ports + d.files + d.admin + d.lingering + d.clients
}

// TestShareDescriptors: for every limit the parts add up to it at most, each has its minimum, and more
// of a limit takes nothing from anybody.
func TestShareDescriptors(t *testing.T) {
	for _, n := range []need{
		{opened: 4, ports: 12, admin: 1, clients: netloop.DefaultMaxConnections},
		{opened: 4, ports: 12, admin: 1, clients: 100},
		{opened: 40, ports: 140, clients: 1},
		{opened: 4, ports: 12, clients: netloop.DefaultMaxConnections},
	} {
		var last descriptors
		served := false
		for limit := range 5000 {
			d, err := shareDescriptors(limit, n)
			if err != nil {
				if served || !strings.Contains(err.Error(), "raise it with ulimit -n") {
					t.Fatalf("%+v: a limit of %d is refused: %v", n, limit, err)
				}
				continue
			}
			served = true
			switch {
			case d.sum() > limit:
				t.Fatalf("%+v: %+v adds up to %d", n, d, d.sum())
			case d.files < engine.MinFiles || d.files > engine.DefaultFiles,
				d.clients < min(minClients, n.clients) || d.clients > n.clients,
				d.lingering < minLingering || d.lingering > netloop.DefaultMaxLingering,
				n.admin > 0 && (d.admin < minAdmin || d.admin > admin.DefaultMaxConnections),
				n.admin == 0 && d.admin > 0:
				t.Fatalf("%+v: %+v is out of bounds", n, d)
			case d.files < last.files-1, d.clients < last.clients-1, d.lingering < last.lingering-1:
				t.Fatalf("%+v: %+v has less than %+v", n, d, last)
			}
			last = d
		}
		if !served || last.files != engine.DefaultFiles || last.lingering != netloop.DefaultMaxLingering {
			t.Errorf("%+v: with 5000 there are %+v", n, last)
		}
	}
}

func TestTooFewDescriptors(t *testing.T) {
	_, err := shareDescriptors(60, need{opened: 4, ports: 12, admin: 1, clients: 1000})
	const want = "the limit of open files is 60, and the server needs 85: 19 for the process, 14 for event" +
		" loops and ports, 28 for files, 4 for operators, 4 for connections that end and 16 for clients;" +
		" raise it with ulimit -n or LimitNOFILE"
	if err == nil || err.Error() != want {
		t.Errorf("60 descriptors = %v, want %s", err, want)
	}
}
