package docs

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityTests tests that every test which SECURITY.md names is there, and that every promise names one.
func TestSecurityTests(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	written := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w*)\(`)
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(root + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(source, -1) {
			written[string(found[1])] = true
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, found := range named.FindAllSubmatch(page, -1) {
		if !written[string(found[1])] {
			t.Errorf("SECURITY.md names %s, which does not exist", found[1])
		}
	}
	_, promises, _ := strings.Cut(string(page), "## What the server defends")
	promises, _, _ = strings.Cut(promises, "\n## ")
	parts := strings.Split(promises, "\n**")[1:]
	for _, part := range parts {
		if name, text, _ := strings.Cut(part, ".**"); !named.MatchString(text) && !strings.Contains(text, "`lab ") {
			t.Errorf("the promise about %s names no test", name)
		}
	}
	if len(parts) < 10 {
		t.Errorf("SECURITY.md has %d promises", len(parts))
	}
}
