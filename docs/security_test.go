package docs

import (
	"os"
	"strings"
	"testing"
)

// TestSecurityTests tests that every promise of SECURITY.md names a test. TestNamedTests looks for the tests.
func TestSecurityTests(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, promises, _ := strings.Cut(string(page), "## What the server defends")
	promises, _, _ = strings.Cut(promises, "\n## ")
	parts := strings.Split(promises, "\n**")[1:]
	for _, part := range parts {
		if name, text, _ := strings.Cut(part, ".**"); !namedTest.MatchString(text) && !strings.Contains(text, "`lab ") {
			t.Errorf("the promise about %s names no test", name)
		}
	}
	if len(parts) < 10 {
		t.Errorf("SECURITY.md has %d promises", len(parts))
	}
}
