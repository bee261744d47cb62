package client

import (
	"os"
	"strings"
	"testing"
)

// TestClientsPages tests that the programs in Go of two pages are among the examples, which run.
func TestClientsPages(t *testing.T) {
	for _, page := range []string{"CLIENTS.md", "WORK-QUEUES.md"} {
		t.Run(page, func(t *testing.T) { testPage(t, page) })
	}
}

func testPage(t *testing.T, name string) {
	page, err := os.ReadFile("../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	programs := strings.Split(string(page), "```go\n")[1:]
	if len(programs) == 0 {
		t.Fatalf("docs/%s has no program in Go", name)
	}
	for _, rest := range programs {
		program, _, ended := strings.Cut(rest, "```")
		var indented strings.Builder
		for line := range strings.Lines(program) {
			indented.WriteString("\t" + line)
		}
		if !ended || !strings.Contains(string(examples), indented.String()) {
			t.Errorf("no example has the program of docs/%s:\n%s", name, program)
		}
	}
}
