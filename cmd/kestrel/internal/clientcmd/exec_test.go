package clientcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestExecDenied tests that a worker ends if its user may not take items. It asked again for ever, without a word. Such a
// user need not have the right to ask for statistics.
func TestExecDenied(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, stats := range []string{"END\r\n", "CLIENT_ERROR not allowed: stats on all queues\r\n"} {
		server := rigBy(t, func(request string) string {
			switch {
			case strings.HasPrefix(request, "version"):
				return "VERSION 3.0.0\r\n"
			case strings.HasPrefix(request, "get"):
				return "CLIENT_ERROR not allowed: get on work\r\n"
			}
			return stats
		})
		root := cli.NewRoot()
		root.AddCommand(New()...)
		_, said := clitest.Run(t, root, cli.ExitFailed, "get", "work", "--exec", "cat", "--wait", "20s", "--server", server)
		clitest.WantText(t, said, `kestrel: get from "work" on `+server, "not allowed: get on work", "allow of [users.NAME]")
	}
}

// TestEndToEndExecOutput tests that items whose commands print to a full disk go back, and that the first ends the worker.
func TestEndToEndExecOutput(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ seq 3 | kestrel put work
3 items put into "work"
$ kestrel get work --exec 'cat; echo' --wait 10s > /dev/full; echo $?
kestrel: an item of "work" goes back: no space left on device
0 items done
kestrel: write what the commands print to standard output: no space left on device; the items of those are in "work" again
1
$ kestrel get work --all
1
2
3
`)
}

// TestEndToEndExecLeaves tests that an item is confirmed whose command ends well and leaves a process that has its output
// open.
func TestEndToEndExecLeaves(t *testing.T) {
	p := clitest.Serve(t)
	clitest.Transcript(t, p.Addr, t.TempDir(), `
$ kestrel put work one
1 item put into "work"
$ kestrel get work --count 1 --exec 'cat; echo; while ! test -e finish; do sleep 0.1; done & exit 0'; echo $?; touch finish
one
1 item done
0
$ kestrel get work
kestrel: get from "work": there is no item
`)
}

// TestEndToEndExecServerGone tests that a worker whose server goes away, and stays away, does not say that the queue is
// empty.
func TestEndToEndExecServerGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { // it answers one request for statistics, and is gone
		defer l.Close()
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := bufio.NewReader(conn).ReadString('\n'); err == nil {
			io.WriteString(conn, "STAT version 3.0.0\r\nEND\r\n")
		}
	}()
	code, out, errs := clitest.RunToEnd(t, "get", "work", "--exec", "cat", "--wait", "1s", "--server", l.Addr().String())
	if code != cli.ExitFailed || !strings.Contains(errs, "0 items done\nkestrel: ask for statistics on "+l.Addr().String()) {
		t.Errorf("the worker ends with %d, and says\n%s%s", code, out, errs)
	}
}

// TestExecUnconfirmed tests what a worker says of an item that is done, and perhaps still in its queue.
func TestExecUnconfirmed(t *testing.T) {
	var said strings.Builder
	r := &runner{stderr: &said}
	r.report(&client.Delivery{Queue: "work"}, &client.Error{Op: "confirm", Queue: "work", Err: client.ErrUnknownOutcome})
	r.report(&client.Delivery{Queue: "work"}, errors.New("exit status 1"))
	want := fmt.Sprintf("kestrel: an item is done, and may come again: confirm \"work\": %v\n", client.ErrUnknownOutcome) +
		"kestrel: an item of \"work\" goes back: exit status 1\n"
	if said.String() != want || r.unconfirmed.Load() != 1 {
		t.Errorf("said\n%swant\n%sand %d items are not confirmed, want 1", &said, want, r.unconfirmed.Load())
	}
}
