package clientcmd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndMoveKeeps moves items with flags, expiry and keys. All of it goes with them to one server, but for the key
// that another item has there. To several servers keys do not go, since each server has keys of its own.
func TestEndToEndMoveKeeps(t *testing.T) {
	a, b, c := clitest.Serve(t), clitest.Serve(t), clitest.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*clitest.Patience)
	defer cancel()
	from, to := clientOf(t, ctx, a.Addr), clientOf(t, ctx, b.Addr+","+c.Addr)
	taken := clientOf(t, ctx, b.Addr)
	if err := taken.Put(ctx, "one", []byte("that has the key"), client.PutOptions{Key: "taken"}); err != nil {
		t.Fatal(err)
	}
	for _, queue := range []string{"one", "several"} {
		for _, item := range []struct {
			data string
			opts client.PutOptions
		}{
			{"plain", client.PutOptions{}},
			{"flagged", client.PutOptions{Flags: 7}},
			{"mortal", client.PutOptions{TTL: time.Hour}},
			{"keyed", client.PutOptions{Key: "k", TTL: 20 * 24 * time.Hour, Flags: 8}},
			{"second", client.PutOptions{Key: "taken"}},
		} {
			if err := from.Put(ctx, queue, []byte(item.data), item.opts); err != nil {
				t.Fatal(err)
			}
		}
	}
	expires := make(map[string]time.Time)
	listed, err := from.Browse(ctx, "one", client.BrowseOptions{})
	if err != nil || len(listed) != 5 {
		t.Fatalf("Browse = %+v, %v", listed, err)
	}
	for _, item := range listed {
		expires[string(item.Data)] = item.Expires
	}
	for queue, target := range map[string]string{"one": b.Addr, "several": b.Addr + "," + c.Addr} {
		code, out, errs := clitest.RunToEnd(t, "move", queue, queue, "--server", a.Addr, "--to-server", target)
		if want := fmt.Sprintf("5 items moved from %q to %q\n", queue, queue); code != 0 || out != want {
			t.Fatalf("move = %d, %s%s", code, out, errs)
		}
	}
	for _, tt := range []struct{ queue, data, key string }{
		{"one", "that has the key", "taken"}, {"one", "keyed", "k"}, {"one", "second", ""}, {"one", "plain", ""},
		{"several", "keyed", ""}, {"several", "second", ""}, {"several", "flagged", ""}, {"several", "mortal", ""},
	} {
		var found *client.Listed
		listed, err := to.Browse(ctx, tt.queue, client.BrowseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range listed {
			if string(listed[i].Data) == tt.data {
				found = &listed[i]
			}
		}
		if found == nil {
			t.Errorf("%s: %q is not there", tt.queue, tt.data)
			continue
		}
		if found.Key != tt.key {
			t.Errorf("%s: the key of %q is %q, want %q", tt.queue, tt.data, found.Key, tt.key)
		}
		if want := map[string]uint32{"flagged": 7, "keyed": 8}[tt.data]; found.Flags != want {
			t.Errorf("%s: the flags of %q are %d, want %d", tt.queue, tt.data, found.Flags, want)
		}
		// Both queues were filled at about the same time; the day shows that the expiry is the old one.
		before := expires[tt.data]
		if found.Expires.IsZero() != before.IsZero() || found.Expires.Before(before) && tt.queue == "one" ||
			found.Expires.Sub(before) > 10*time.Minute {
			t.Errorf("%s: %q expires at %v, before at %v", tt.queue, tt.data, found.Expires, before)
		}
	}
	if listed, err := from.Browse(ctx, "one", client.BrowseOptions{Hidden: true}); err != nil || len(listed) != 0 {
		t.Errorf("left behind: %+v, %v", listed, err)
	}
}

// TestEndToEndMoveFull tests that items that do not fit into the other queue stay where they are, and those that fit are
// in it alone.
func TestEndToEndMoveFull(t *testing.T) {
	file := clitest.WriteConfig(t, "[queues.small]\nmax_items = 3\n[queues.smaller]\nmax_items = 1\n")
	p := clitest.Serve(t, "--config", file)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ seq 5 | kestrel put work_dead; kestrel redrive work_dead --to small; echo $?
5 items put into "work_dead"
3 items moved from "work_dead" to "small"
kestrel: put to "small" on …: the queue refused the item: …
6
$ kestrel redrive work_dead --to small; echo $?; kestrel get small --all; kestrel get work_dead --all
0 items moved from "work_dead" to "small"
kestrel: put to "small" on …: the queue refused the item: …
6
1
2
3
4
5
$ kestrel put keyed --key a 1; kestrel put keyed --key b 2; kestrel move keyed smaller; kestrel get smaller --all; kestrel get keyed --all
1 item put into "keyed"
1 item put into "keyed"
1 item moved from "keyed" to "smaller"
kestrel: put to "smaller" on …: the queue refused the item: …
1
2
`)
}

// clientOf returns a client that ends with the test.
func clientOf(t *testing.T, ctx context.Context, address string) *client.Client {
	t.Helper()
	c, err := client.Dial(ctx, address, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestEndToEndMoveLate moves an item that expires after all times that the memcache protocol can say: it stays for good.
func TestEndToEndMoveLate(t *testing.T) {
	p := clitest.Serve(t, "--burrow-port", "auto")
	t.Setenv("KESTREL_BURROW", "http://"+p.Logged("listening")["address"].(string))
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ kestrel burrow create_message late one --body x --ttl 999999999; kestrel put late y --ttl 1h; kestrel put late z --ttl 876000h
1 item put into "late"
kestrel: put to "late": a TTL of 876000h0m0s ends after 2038-01-19, the last day that the protocol can say
$ kestrel move late moved
2 items moved from "late" to "moved"
$ kestrel peek moved --from 1 --output json | grep -c expires_ms
1
`)
}
