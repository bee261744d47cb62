package clientcmd

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndCluster looks after three servers, of which one goes away.
func TestEndToEndCluster(t *testing.T) {
	a, b, gone := clitest.Serve(t), clitest.Serve(t), nobody(t)
	t.Setenv("A", a.Addr)
	t.Setenv("B", b.Addr)
	t.Setenv("GONE", gone)
	clitest.Transcript(t, a.Addr+","+b.Addr, t.TempDir(), `
$ kestrel put work 1 2 3 --server $A; kestrel put work 4 --server $B; kestrel put mails 'to: me' --server $B
3 items put into "work"
1 item put into "work"
1 item put into "mails"
$ kestrel cluster items
QUEUE  ITEMS  OPEN  BYTES  SERVERS  MOST  ON
work       4     0    4 B        2     3  127.0.0.1:…
mails      1     0    6 B        1     1  127.0.0.1:…
$ kestrel cluster items --bytes m* --output json | grep -o '"queue":"mails".*'
"queue":"mails","servers":["127.0.0.1:…"],"items":1,…"on":[{"server":"127.0.0.1:…","items":1,"bytes":6,"open_reads":0,"age_ms":…}]}]
$ kestrel cluster items --server $A,$B,$GONE; echo $?
QUEUE  ITEMS  OPEN  BYTES  SERVERS  MOST  ON
work       4     0    4 B        2     3  127.0.0.1:…
mails      1     0    6 B        1     1  127.0.0.1:…
kestrel: 1 of 3 servers gave no figures, and what is printed is without: 127.0.0.1:… (dial tcp …connection refused); is a server running there? --server says where to look
1
$ kestrel cluster status $GONE $A; echo $?
SERVER  STATUS  SETS  VERSION  UPTIME  CONNECTIONS  QUEUES  ITEMS  OPEN  BYTES
127.0.0.1:…  …
127.0.0.1:…  …
kestrel: 1 of 2 servers gave no figures, …
1
$ kestrel cluster status --server $A,$GONE --set readonly --yes; echo $?
kestrel: 1 of 2 servers did not take the status ReadOnly: 127.0.0.1:… (its status is not known): set the status on …connection refused; is a server running there? --server says where to look
1
$ kestrel cluster status $A --output json
[{"server":"127.0.0.1:…","status":"READONLY",…,"sets":["read","write"],"open_reads":0}]
$ kestrel cluster status $A --set up; echo $?
kestrel: give 1 server the status Up: 127.0.0.1:…? There is no terminal to ask on: say --yes if that is meant
Try 'kestrel cluster status --help'.
2
$ kestrel cluster status --set up --yes | grep -c ' UP '
2
$ kestrel cluster stale --rounds 3 --interval 20ms 'w*'
QUEUE  ITEMS  OPEN  BYTES  AGE  SERVERS
work       4     0    4 B  …           2
$ kestrel cluster age --output json | grep -o '"queue":"work".*"items":4'
"queue":"work","oldest_ms":…,"on":"127.0.0.1:…","youngest_ms":…,"items":4
$ kestrel cluster flush work --server $A,$B,$GONE --yes; echo $?
QUEUE  DISCARDED  BYTES  ON
work           …
work           …
kestrel: 1 of 3 servers gave no figures, …
1
$ kestrel cluster flush work nothing --yes; echo $?
kestrel: there is no queue "nothing"; 'kestrel cluster items' lists them all
1
$ kestrel cluster drain $GONE; echo $?
kestrel: ask for statistics on 127.0.0.1:…connection refused; is a server running there? --server says where to look
1
$ kestrel cluster drain $A --server $A; echo $?
kestrel: no other server of --server is up, so nobody will take puts: drain 127.0.0.1:…? There is no terminal to ask on: say --yes if that is meant
Try 'kestrel cluster drain --help'.
2
$ kestrel cluster drain $A --move --server $A; echo $?
kestrel: --move needs another server that is up: --server lists them
Try 'kestrel cluster drain --help'.
2
`)
}

// TestEndToEndClusterDrain drains a server that is in use. A worker goes on to take from it, producers go elsewhere,
// and what is put while its grace period runs is waited for, too. The command ends when it is empty.
func TestEndToEndClusterDrain(t *testing.T) {
	file := clitest.WriteConfig(t, "status_change_grace_period = \"300ms\"\n")
	a, b := clitest.Serve(t, "--config", file), clitest.Serve(t)
	ctx, cancel := context.WithTimeout(t.Context(), clitest.Patience)
	defer cancel()
	both, one := clientOf(t, ctx, a.Addr+","+b.Addr), clientOf(t, ctx, a.Addr)
	for i := range 200 {
		if err := one.Put(ctx, "work", fmt.Appendf(nil, "%d", i), client.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	held, err := both.Consume("work")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	open, err := held.Next(ctx) // keeps the server from being empty
	if err != nil || open.Server != a.Addr {
		t.Fatalf("Next = %+v, %v", open, err)
	}

	cmd := clitest.Command(t, "cluster", "drain", a.Addr, "--server", a.Addr+","+b.Addr, "--interval", "20ms")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stored := 200
	for one.Put(ctx, "work", []byte("late"), client.PutOptions{}) == nil { // until the status is enforced
		stored++
	}
	got := 1 // with the one that is open
	for {
		b, err := both.OpenBatch(ctx, "work", 1, 0)
		if err != nil {
			break
		}
		got += len(b.Items)
		if err := b.Confirm(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the command ended with an item open: %v\n%s%s", err, &out, &errs)
	default:
	}
	if err := open.Confirm(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatalf("drain: %v\n%s%s", err, &out, &errs)
	}
	if want := a.Addr + " is empty and quiescent: it can be stopped\n"; out.String() != want {
		t.Errorf("drain says %q, want %q", &out, want)
	}
	for _, s := range one.Stats(ctx) {
		if s.Err != nil || s.Items != 0 {
			t.Errorf("the server that was drained: %+v", s)
		}
	}
	if got != stored {
		t.Errorf("%d items were taken, and %d put", got, stored)
	}
	if status, err := one.Status(ctx); err != nil || status[a.Addr] != "QUIESCENT" {
		t.Errorf("status %v, %v", status, err)
	}
}

// TestEndToEndClusterMove drains a server without consumers, to the others. A queue with fanout children stays.
func TestEndToEndClusterMove(t *testing.T) {
	a, b := clitest.Serve(t), clitest.Serve(t)
	t.Setenv("A", a.Addr)
	t.Setenv("B", b.Addr)
	clitest.Transcript(t, a.Addr+","+b.Addr, t.TempDir(), `
$ seq 250 | kestrel put work --server $A; kestrel put news+desk first --server $A; kestrel put news second --server $A
250 items put into "work"
1 item put into "news+desk"
1 item put into "news"
$ kestrel cluster drain $A --move --interval 20ms > drained & left() { kestrel ls --server $A --output json | grep -o '"items":[1-9][0-9]*'; }; until [ "$(left)" = '"items":1' ]; do sleep 0.1; done; kestrel get news --server $A; wait; cat drained
second
252 items moved to other servers
127.0.0.1:… is empty and quiescent: it can be stopped
$ kestrel get work --all --server $B | sort -n | tr '\n' ' ' | grep -o '^1 2 3 .* 248 249 250 $' | wc -w
250
$ kestrel get work --all --server $B; kestrel get news+desk --all --server $B
kestrel: get from "work": there is no item
first
second
`)
}
