package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// pusher puts items to a queue as fast as the server answers, until it is stopped or the server is.
type pusher struct {
	stop  chan struct{}
	warm  chan struct{} // closed when some are acknowledged, or none will be
	done  chan struct{}
	acked []string // valid once done is closed
}

// push starts a pusher, whose items begin with a prefix.
func push(t *testing.T, addr, queue, prefix string) *pusher {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &pusher{stop: make(chan struct{}), warm: make(chan struct{}), done: make(chan struct{})}
	go func() {
		warm := sync.OnceFunc(func() { close(p.warm) })
		defer close(p.done)
		defer conn.Close()
		defer warm()
		in := bufio.NewReader(conn)
		for n := 0; ; n++ {
			select {
			case <-p.stop:
				return
			default:
			}
			item := fmt.Sprintf("%s%d", prefix, n)
			fmt.Fprintf(conn, "set %s 0 0 %d\r\n%s\r\n", queue, len(item), item)
			if reply, err := in.ReadString('\n'); err != nil || reply != "STORED\r\n" {
				return
			}
			if p.acked = append(p.acked, item); len(p.acked) == 10 {
				warm()
			}
		}
	}()
	return p
}

// end stops the pusher and returns what was acknowledged.
func (p *pusher) end() []string {
	close(p.stop)
	<-p.done
	return p.acked
}

// TestEndToEndRedriveKilled kills kestrel redrive, and then the server under it, in the middle, while a producer puts to
// the queue that it moves to. Every item is in one of the two queues, or in both if it was on its way, and another
// redrive moves the rest. What the server has acknowledged is there once.
func TestEndToEndRedriveKilled(t *testing.T) {
	const items = 300
	dir := t.TempDir()
	p := clitest.Serve(t, "--data-dir", dir, "--sync-journal", "never")
	c := p.Dial()
	for i := range items {
		c.Ask(fmt.Sprintf("set work_dead 0 0 3\n%03d\n", i), "STORED\n")
	}
	found := make(map[string]int)
	take := func() {
		code, out, errs := clitest.RunToEnd(t, "get", "work", "--all", "--server", p.Addr)
		if code != 0 {
			t.Fatalf("get ends with %d: %s", code, errs)
		}
		for item := range strings.FieldsSeq(out) {
			found[item]++
		}
	}
	var acked []string
	for _, victim := range []string{"client", "server"} {
		cmd := clitest.Command(t, "redrive", "work_dead", "--rate", "50", "--server", p.Addr)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c := p.Dial()
		c.Send("get work/t=10000/peek\n")
		if line := c.Read(1); !strings.HasPrefix(line, "VALUE") { // some have moved, and some have not
			t.Fatalf("nothing is moved: %q", line)
		}
		pushing := push(t, p.Addr, "work", victim)
		<-pushing.warm
		if victim == "client" {
			cmd.Process.Kill()
			cmd.Wait()
			acked = append(acked, pushing.end()...)
			take()
			continue
		}
		p.Signal(os.Kill)
		p.ExitCode()
		acked = append(acked, pushing.end()...)
		if cmd.Wait() == nil {
			t.Error("redrive says that all is moved, and its server was killed")
		}
		p = clitest.Serve(t, "--data-dir", dir, "--sync-journal", "never")
	}
	if code, out, errs := clitest.RunToEnd(t, "redrive", "work_dead", "--server", p.Addr); code != 0 {
		t.Fatalf("redrive ends with %d: %s%s", code, out, errs)
	}
	take()
	for _, item := range acked {
		if found[item] != 1 {
			t.Errorf("item %s of the producer came %d times", item, found[item])
		}
	}
	twice := 0
	for i := range items {
		switch n := found[fmt.Sprintf("%03d", i)]; n {
		case 0:
			t.Errorf("item %d is lost", i)
		case 1:
		default:
			twice++
		}
	}
	if twice > 2*20 { // what was on its way: a tenth of a second each
		t.Errorf("%d items came twice", twice)
	}
	if _, out, _ := clitest.RunToEnd(t, "get", "work_dead", "--all", "--server", p.Addr); out != "" {
		t.Errorf("the dead-letter queue still has %q", out)
	}
}
