package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// rotating is a client over TLS that checks every reply, and that every item comes back once, in order.
type rotating struct {
	addr, queue string
	each        int // requests of a connection; 0: it keeps the first
	done        int // items put and fetched
}

// run puts and fetches until enough is true, and at least once. It returns what went wrong.
func (r *rotating) run(enough *atomic.Bool) error {
	for {
		if err := r.connect(enough); err != nil {
			return fmt.Errorf("%s, behind %d items: %w", r.queue, r.done, err)
		}
		if enough.Load() {
			return nil
		}
	}
}

// connect makes a connection, says who it is, and uses it.
func (r *rotating) connect(enough *atomic.Bool) error {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: clitest.Patience}, "tcp", r.addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	ask := func(request, want string) error {
		c.SetDeadline(time.Now().Add(clitest.Patience))
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		got := make([]byte, len(want))
		if n, err := io.ReadFull(in, got); err != nil || string(got) != want {
			return fmt.Errorf("%q is answered %q, want %q, %v", request, got[:n], want, err)
		}
		return nil
	}
	if err := ask("set x 0 0 12\r\nalice s3cret\r\n", "STORED\r\n"); err != nil {
		return err
	}
	for n := 0; r.each == 0 || n < r.each; n++ {
		item := fmt.Sprint(r.queue, " ", r.done)
		put := fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", r.queue, len(item), item)
		got := fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", r.queue, len(item), item)
		if err := ask(put+"get "+r.queue+"\r\n", "STORED\r\n"+got); err != nil {
			return err
		}
		if r.done++; enough.Load() {
			return nil
		}
	}
	return nil
}

// TestEndToEndRotationUnderLoad changes the certificate and the users of a running server again and again. Meanwhile
// clients put and fetch over TLS: some on one connection all the time, and some on a new one every few requests. No
// reply is lost, no connection ends, and none is refused.
func TestEndToEndRotationUnderLoad(t *testing.T) {
	const rotations = 8
	dir := t.TempDir()
	write := func(file string, n int) {
		t.Helper()
		writeCertificate(t, dir, fmt.Sprint("number", n))
		h, err := access.HashPassword([]byte("s3cret"))
		if err != nil {
			t.Fatal(err)
		}
		// alice's hash is another one each time, and others come and go.
		config := secureConfig(t, dir, "put work*\", \"get work*") +
			fmt.Sprintf("[users.guest%d]\npassword = \"%s\"\nallow = [\"get work*\"]\n", n, h)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := clitest.WriteConfig(t, "")
	write(file, 0)
	p := clitest.Serve(t, "--config", file)
	var addr string
	for addr == "" {
		if got := p.Logged("listening"); got["tls"] == true {
			addr = got["address"].(string)
		}
	}
	var enough atomic.Bool
	var running sync.WaitGroup
	clients := make([]rotating, 6)
	errs := make([]error, len(clients))
	for i := range clients {
		clients[i] = rotating{addr: addr, queue: fmt.Sprint("work", i), each: 20 * (i % 2)}
		running.Go(func() { errs[i] = clients[i].run(&enough) })
	}
	for n := 1; n <= rotations; n++ {
		write(file, n)
		p.Signal(syscall.SIGHUP)
		p.Logged("configuration reloaded")
	}
	enough.Store(true)
	running.Wait()
	items := 0
	for i, err := range errs {
		if items += clients[i].done; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d items put and fetched beside %d rotations", items, rotations)
	if _, _, name := dialSecure(t, addr); name != fmt.Sprint("number", rotations) {
		t.Errorf("a new connection gets the certificate of %s", name)
	}
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(clitest.Patience))
	if got := say(t, c, bufio.NewReader(c), "set x 0 0 13\r\nguest0 s3cret\r\n"); got != "CLIENT_ERROR authentication failure" {
		t.Errorf("a user who is gone: %s", got)
	}
}
