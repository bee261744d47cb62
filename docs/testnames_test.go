package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// namedTest finds the tests that a page names.
var namedTest = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")

// TestNamedTests tests that every test, fuzz target and benchmark that a page names is in the tree.
func TestNamedTests(t *testing.T) {
	written := make(map[string]bool)
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)
	for _, file := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range function.FindAllSubmatch(source, -1) {
			written[string(found[1])] = true
		}
	}
	named := 0
	err := filepath.WalkDir(".", func(page string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(page) != ".md" {
			return err
		}
		text, err := os.ReadFile(page)
		for _, found := range namedTest.FindAllSubmatch(text, -1) {
			if named++; !written[string(found[1])] {
				t.Errorf("%s names %s, which does not exist", page, found[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if named < 200 {
		t.Errorf("the pages name only %d tests", named)
	}
}
