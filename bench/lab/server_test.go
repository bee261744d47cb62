package main

import (
	"testing"
	"time"
)

// A server that is killed before it has said its pid is gone, also when another program runs it.
func TestKillBeforePid(t *testing.T) {
	how := launch{dir: t.TempDir(), prefix: []string{"/bin/sh", "-c", "sleep 600 & echo begun >&2; wait"}}
	s, err := how.spawn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.next(0); err != nil {
		t.Fatal(err)
	}
	go s.kill()
	select {
	case <-s.exit:
	case <-time.After(patience):
		t.Fatal("what the shell runs goes on, and holds the log")
	}
}
