package main

import (
	"os"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
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
	playSession(t, clitest.Serve(t).Dial(), session, "README.md")
}

// playSession sends the requests of a session and compares the replies. It returns how many
// requests there are.
func playSession(t *testing.T, c *clitest.Client, session, document string) (requests int) {
	t.Helper()
	body := false // the line is the body of a set
	for _, line := range strings.Split(strings.TrimSpace(session), "\n") {
		word, _, _ := strings.Cut(line, " ")
		if body || word == "set" || word == "get" || word == "quit" {
			c.Send(line + "\n")
			if !body {
				requests++
			}
			body = word == "set" && !body
			continue
		}
		if got := c.Read(1); got != line+"\n" {
			t.Fatalf("got %q, want %q as in %s", got, line, document)
		}
	}
	return requests
}
