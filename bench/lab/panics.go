package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// panicsTrial builds servers with a fault in them. One in a session must cost that connection only.
// One in the engine, whose queues may then be half changed, must end the process, and the next
// start must find everything.
func panicsTrial(ctx context.Context, t *trial) error {
	root, err := repository(ctx)
	if err != nil {
		return err
	}
	for i, c := range panics() {
		dir := filepath.Join(t.dir, fmt.Sprint("panic-", i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		program, err := build(ctx, root, dir, c.edits)
		if err != nil {
			return err
		}
		if err := c.run(ctx, t, launch{binary: program, dir: dir}); err != nil {
			return fmt.Errorf("fault %d: %w", i, err)
		}
		t.counts.trials.Add(1)
	}
	return nil
}

// panicInSession runs into the fault of VERSION beside clients who wait, have an item open, or do
// nothing wrong.
func panicInSession(ctx context.Context, t *trial, how launch) error {
	s, a, err := startAsked(ctx, how, 100)
	if err != nil {
		return err
	}
	defer s.kill()
	for item := 1; item <= 20; item++ {
		if refusal, err := a.put(item); err != nil || refusal != "" {
			return fmt.Errorf("put: %s, %w", refusal, err)
		}
		// With an item open, which must come back, and a put, which need not have been answered.
		request := "get limit/open\r\nset other 0 0 1\r\nx\r\nversion\r\n"
		if reply, err := exchange(s, "memcache", []byte(request), 1000); err != nil ||
			strings.Contains(string(reply), "VERSION") {
			t.violate("the connection with the fault got %.100q, %v", reply, err)
		}
	}
	if _, err := s.awaitLog("session closed after a fault"); err != nil {
		t.violate("%v", err)
	}
	if end, err := a.expectItems(t, 1, 0); err != nil || end != 21 {
		t.violate("beside 20 faults the queue ended before item %d, %v", end, err)
	}
	return nil
}

// panicInEngine runs into the fault of FLUSH.
func panicInEngine(ctx context.Context, t *trial, how launch) error {
	s, a, err := startAsked(ctx, how, 100)
	if err != nil {
		return err
	}
	defer s.kill()
	next, refusal, err := a.putUntilRefused(t, 1, 50)
	if err != nil || refusal != "" {
		return fmt.Errorf("put item %d: %q, %w", next, refusal, err)
	}
	if _, err := io.WriteString(a.conn, "flush limit\r\n"); err != nil {
		return err
	}
	<-s.exit
	if code := s.cmd.ProcessState.ExitCode(); code == 0 {
		t.violate("the server ended with status 0 after a fault of the engine")
	}
	if len(s.logged("fault of the lab")) == 0 {
		t.violate("the server did not say which fault of the engine ended it: %s", s.lastWords())
	}
	how.binary = t.binary
	if s, err = startOrViolate(ctx, t, how); s == nil || err != nil {
		return err
	}
	if a, err = ask(s, 100); err != nil {
		return err
	}
	if end, err := a.expectItems(t, 1, 0); err != nil || end != next {
		t.violate("after a fault of the engine the queue ended before item %d of %d, %v", end,
			next-1, err)
	}
	return nil
}

// planted is a fault of the server, and what shows what comes of it.
type planted struct {
	edits []edit
	run   func(context.Context, *trial, launch) error
}

// panics returns a fault in a session and one in the engine.
func panics() []planted {
	return []planted{
		{replaced("netloop/memcache.go", "	s.out = memcache.AppendVersion(s.out, Version)",
			`	panic("fault of the lab")`), panicInSession},
		{replaced("engine/clearing.go", "func (e *Engine) clear(q *queue, s *marks.Staying) rubbish {",
			"func (e *Engine) clear(q *queue, s *marks.Staying) rubbish {\n	panic(\"fault of the lab\")"), panicInEngine},
	}
}
