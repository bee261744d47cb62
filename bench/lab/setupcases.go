package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// descriptors is the case of a limit of 200 descriptors, and more connections than that. Those over the limit get an
// error, and the others are served. When they have gone there is room again.
func descriptors(ctx context.Context, t *trial, dir string) error {
	few := launch{binary: t.binary, dir: dir, shell: "ulimit -n 60"}
	err := expectExit(ctx, t, few, "the limit of open files is 60", "ulimit -n", "for clients")
	if err != nil {
		return err
	}
	how := launch{binary: t.binary, dir: dir, shell: "ulimit -n 200"}
	s, err := how.start(ctx)
	if err != nil {
		return err
	}
	defer s.kill()
	for round := range 3 {
		if err := crowd(t, s, round); err != nil {
			return err
		}
	}
	t.counts.checks.Add(1)
	return nil
}

// crowd opens 300 connections, uses them, and closes them.
func crowd(t *trial, s *server, round int) error {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	served, refused := 0, 0
	for range 300 {
		c, err := net.DialTimeout("tcp", s.addr["memcache"], patience)
		if err != nil {
			return err
		}
		conns = append(conns, c)
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, "version\r\n") // fails for one that has been refused already
		switch reply, _ := readSome(c); {
		case bytes.HasPrefix(reply, []byte("VERSION")):
			served++
		case bytes.HasPrefix(reply, []byte("SERVER_ERROR too many open connections")):
			refused++
		}
	}
	if served < 40 || served > 200 {
		t.violate("round %d: %d of 300 connections were served, with 200 descriptors", round, served)
	}
	if refused == 0 {
		t.violate("round %d: no connection was refused", round)
	}
	if !s.running() {
		t.violate("round %d: the server has ended: %s", round, s.lastWords())
	}
	return nil
}

func readSome(c net.Conn) ([]byte, error) {
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	return buf[:n], err
}

// stopTime is how long a server is stopped.
func stopTime(t *trial) time.Duration {
	if t.cycles > 1 {
		return 10 * time.Second
	}
	return 500 * time.Millisecond
}

// stopped is the case of a process that is stopped, as a machine that is short of everything does, and goes on. The
// server answers requests sent meanwhile, ends waits that are over, and loses nothing.
func stopped(ctx context.Context, t *trial, dir string) error {
	how := launch{binary: t.binary, dir: dir}
	s, a, err := startAsked(ctx, how, 100)
	if err != nil {
		return err
	}
	defer s.kill()
	waiting, err := net.DialTimeout("tcp", s.addr["memcache"], patience)
	if err != nil {
		return err
	}
	defer waiting.Close()
	if _, err := io.WriteString(waiting, "get nothing/t=200\r\n"); err != nil {
		return err
	}
	if next, refusal, err := a.putUntilRefused(t, 1, 100); err != nil || refusal != "" {
		return fmt.Errorf("put item %d: %q, %w", next, refusal, err)
	}
	s.signal(syscall.SIGSTOP)
	requests := []request{{op: opPut, queue: "limit", items: []int{101}}}
	if err := a.send(requests, a.body); err != nil {
		return err
	}
	time.Sleep(stopTime(t))
	s.signal(syscall.SIGCONT)
	if got, err := a.receive(requests[0]); err != nil || got.refusal != "" {
		t.violate("a put sent to a stopped server got %+v, %v", got, err)
	}
	waiting.SetDeadline(time.Now().Add(patience))
	if reply, err := readSome(waiting); err != nil || string(reply) != "END\r\n" {
		t.violate("a wait that ended while the server was stopped got %q, %v", reply, err)
	}
	if end, err := a.expectItems(t, 1, 0); err != nil || end != 102 {
		t.violate("the queue ended before item %d, %v", end, err)
	}
	t.counts.checks.Add(1)
	return nil
}

// twoServers is the case of a second server on the data directory of a first.
func twoServers(ctx context.Context, t *trial, dir string) error {
	how := launch{binary: t.binary, dir: dir}
	s, a, err := startAsked(ctx, how, 100)
	if err != nil {
		return err
	}
	defer s.kill()
	for item := 1; item <= 3; item++ {
		if refusal, err := a.put(item); err != nil || refusal != "" {
			return fmt.Errorf("put: %s, %w", refusal, err)
		}
		if err := expectExit(ctx, t, how, "in use by another server", "data"); err != nil {
			return err
		}
	}
	s.kill() // and the one that comes after it has everything
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	if a, err = ask(s, 100); err != nil {
		return err
	}
	if end, err := a.expectItems(t, 1, 0); err != nil || end != 4 {
		t.violate("the queue ended before item %d, %v", end, err)
	}
	return nil
}

func readOnlyDir(ctx context.Context, t *trial, dir string) error {
	if err := mountTmpfs(dir, "size=1m", true); err != nil {
		t.skip("mount tmpfs: %v", err)
		return nil
	}
	defer detachMount(dir)
	how := launch{binary: t.binary, dir: dir}
	return expectExit(ctx, t, how, "cannot be used", "data", "read-only")
}

func fileForDir(ctx context.Context, t *trial, dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("mine"), 0o600); err != nil {
		return err
	}
	err := expectExit(ctx, t, launch{binary: t.binary, dir: dir}, "cannot be used", "data")
	if b, _ := os.ReadFile(filepath.Join(dir, "data")); string(b) != "mine" {
		t.violate("the file in place of the data directory is now %q", b)
	}
	return err
}

func missingDir(ctx context.Context, t *trial, dir string) error {
	how := launch{binary: t.binary, dir: dir, args: []string{"--data-dir", "a/b/c"}}
	s, err := how.start(ctx)
	if err != nil {
		t.violate("the server does not make its data directory: %v", err)
		return nil
	}
	defer s.kill()
	if _, err := os.Stat(filepath.Join(dir, "a/b/c/journal")); err != nil {
		t.violate("the server did not make its data directory: %v", err)
	}
	t.counts.checks.Add(1)
	return nil
}

// strayFiles is the case of files in the data directory that are not the server's.
func strayFiles(ctx context.Context, t *trial, dir string) error {
	how := launch{binary: t.binary, dir: dir}
	s, err := how.start(ctx)
	if err != nil {
		return err
	}
	a, err := ask(s, 100)
	if err != nil {
		return err
	}
	if refusal, err := a.put(1); err != nil || refusal != "" {
		return fmt.Errorf("put: %s, %w", refusal, err)
	}
	s.kill()
	names := []string{
		"data/README", "data/journal/notes.txt", "data/journal/0000000001.seg~", "data/journal/1.seg",
		"data/journal/00000000001.seg", "data/journal/0000000009.seg.bak", "data/lost+found",
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("stray "+name), 0o600); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "data/journal/0000000077.d"), 0o700); err != nil {
		return err
	}
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	defer s.kill()
	if a, err = ask(s, 100); err != nil {
		return err
	}
	if end, err := a.expectItems(t, 1, 0); err != nil || end != 2 {
		t.violate("the queue ended before item %d, %v", end, err)
	}
	for _, name := range names {
		if b, err := os.ReadFile(filepath.Join(dir, name)); string(b) != "stray "+name {
			t.violate("the stray file %s is now %q, %v", name, b, err)
		}
	}
	t.counts.checks.Add(1)
	return nil
}
