package client

import (
	"os"
	"strings"
	"testing"
)

// TestClientsPage tests that the program in docs/CLIENTS.md is one of the examples, which run.
func TestClientsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/CLIENTS.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```go\n")
	program, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("docs/CLIENTS.md has no program in Go")
	}
	var indented strings.Builder
	for line := range strings.Lines(program) {
		indented.WriteString("\t" + line)
	}
	if !strings.Contains(string(examples), indented.String()) {
		t.Errorf("no example has the program of docs/CLIENTS.md:\n%s", program)
	}
}
