package config

import (
	"testing"

	"github.com/kestrelmq/kestrel/access"
)

// TestQuotaOption tests what may be written for a quota, and that it is read back from what is printed.
func TestQuotaOption(t *testing.T) {
	const all = `{ connections = 100, open_reads = 1000, waits = 200, operations = 5000, bytes = "10MiB" }`
	want := access.Quota{Connections: 100, OpenReads: 1000, Waits: 200, Operations: 5000, Bytes: 10 << 20}
	for src, want := range map[string]access.Quota{
		"[users.alice]\nallow = [\"put *\"]\nquota = " + all:                   want,
		"[users.alice]\nallow = [\"put *\"]\n[users.alice.quota]\nwaits = 7\n": {Waits: 7},
		"[users.alice]\nallow = [\"put *\"]\nquota = \"none\"\n":               {},
	} {
		if got := parse(t, src).Users.Named("alice").Quota; got != want {
			t.Errorf("%s: %+v, want %+v", src, got, want)
		}
	}
	if got := (quotaValue{&want}).String(); got != all {
		t.Errorf("printed as %s", got)
	}
	for value, want := range map[string]string{
		`{ conections = 1 }`:     "conections is none of connections, open_reads, waits, operations, bytes",
		`{ waits = 0 }`:          "waits: want a whole number from 1 to 2147483647, have 0",
		`{ waits = "many" }`:     `waits: want a whole number from 1 to 2147483647, have "many"`,
		`{ bytes = "10 miles" }`: `bytes: want a size such as 1048576 or "16MiB", have "10 miles"`,
		`{ bytes = 0 }`:          "bytes: want at least 1, have 0",
		`7`:                      `want a table such as { connections = 100, operations = 1000, bytes = "10MiB" }, or "none", have 7`,
	} {
		_, err := Parse("k", "[users.alice]\nallow = [\"put *\"]\nquota = "+value, nil)
		if err == nil || err.Error() != "k:3: users.alice.quota: "+want {
			t.Errorf("%s:\n got %v\nwant %s", value, err, want)
		}
	}
}
