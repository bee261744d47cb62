package docs

import (
	"cmp"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestArchitectureFiles tests that the Go files that ARCHITECTURE.md names exist.
func TestArchitectureFiles(t *testing.T) {
	var bases []string
	files := goFiles(t)
	for _, file := range files {
		bases = append(bases, path.Base(file))
	}
	named := regexp.MustCompile("`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1)
	for _, m := range named {
		found := slices.Contains(bases, m[1])
		if strings.Contains(m[1], "/") {
			found = slices.Contains(files, m[1])
		}
		if !found {
			t.Errorf("ARCHITECTURE.md names %s, which does not exist", m[1])
		}
	}
	if len(named) < 100 {
		t.Errorf("ARCHITECTURE.md names only %d files", len(named))
	}
}

// TestArchitectureInvariants tests that the table of invariants in ARCHITECTURE.md names every invariant and the file
// where it is. An invariant is in a comment, at the start of a line.
func TestArchitectureInvariants(t *testing.T) {
	stated := make(map[string]string) // the file of each
	label := regexp.MustCompile(`(?m)^\s*(?://)?\s*([A-Z][0-9]+)  \S`)
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, group := range parse(t, file).Comments {
			for _, m := range label.FindAllStringSubmatch(group.Text(), -1) {
				stated[m[1]] = file
			}
		}
	}
	row := regexp.MustCompile("(?m)^\\| ([A-Z])([0-9]+)(?:–[A-Z]([0-9]+))? \\| `([^`]+)` \\|")
	for _, m := range row.FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1) {
		first, _ := strconv.Atoi(m[2])
		last, _ := strconv.Atoi(cmp.Or(m[3], m[2]))
		for n := first; n <= last; n++ {
			name := m[1] + strconv.Itoa(n)
			if stated[name] != m[4] {
				t.Errorf("ARCHITECTURE.md has %s in %s; a comment states it in %q", name, m[4], stated[name])
			}
			delete(stated, name)
		}
	}
	for name, file := range stated {
		t.Errorf("%s states %s, which ARCHITECTURE.md does not name", file, name)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestArchitectureFunctions tests that what ARCHITECTURE.md names as `function` in `file.go` is declared there.
func TestArchitectureFunctions(t *testing.T) {
	named := regexp.MustCompile("`([A-Za-z]+)`\\s+in\\s+`([a-z0-9_/]+\\.go)`").FindAllStringSubmatch(read(t, "ARCHITECTURE.md"), -1)
	for _, m := range named {
		declared := regexp.MustCompile(`(?m)^(?:func (?:\([^)]*\) )?|type |const |var |\t)` + m[1] + `\b`)
		found := slices.ContainsFunc(goFiles(t), func(file string) bool {
			if file != m[2] && !strings.HasSuffix(file, "/"+m[2]) {
				return false
			}
			text, err := os.ReadFile(path.Join(root, file))
			return err == nil && declared.Match(text)
		})
		if !found {
			t.Errorf("ARCHITECTURE.md names %s in %s, which does not declare it", m[1], m[2])
		}
	}
	if len(named) < 12 {
		t.Errorf("ARCHITECTURE.md names only %d functions with their files", len(named))
	}
}
