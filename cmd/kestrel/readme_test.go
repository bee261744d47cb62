package main

import (
	"os"
	"strings"
	"testing"
)

// TestEndToEndReadme plays the telnet session of the README against the built server.
func TestEndToEndReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(readme), "$ telnet 127.0.0.1 22133\n")
	session, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("README.md has no telnet session")
	}
	c := serveProcess(t).dial()
	body := false // the line is the body of a set
	for _, line := range strings.Split(strings.TrimSpace(session), "\n") {
		if sent := body || strings.HasPrefix(line, "set ") || strings.HasPrefix(line, "get "); sent {
			c.send(line + "\n")
			body = strings.HasPrefix(line, "set ")
			continue
		}
		if got := c.read(1); got != line+"\n" {
			t.Fatalf("got %q, want %q as in README.md", got, line)
		}
	}
}
