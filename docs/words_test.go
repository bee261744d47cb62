package docs

import (
	"go/parser"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// telltale are phrases that a tired reader has to read twice. Each stands for a sentence without a subject
// that does something: say who does it.
var telltale = regexp.MustCompile(
	`(?i)\b(told again|(?:is|are|was|were|be|been|being) told|be it|by and by|that of which|such as are)\b`)

// TestPlainWords tests that no comment and no page has a telltale phrase. A phrase counts across the end of
// a line.
func TestPlainWords(t *testing.T) {
	files := 0
	for _, file := range goFiles(t) {
		files++
		for _, group := range parse(t, file, parser.ParseComments).Comments {
			checkWords(t, file, group.Text())
		}
	}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, name)
		if rel = filepath.ToSlash(rel); err != nil || !strings.HasSuffix(name, ".md") {
			return err
		}
		files++
		text, err := os.ReadFile(name)
		checkWords(t, rel, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 420 {
		t.Errorf("only %d files were read", files)
	}
}

func checkWords(t *testing.T, file, text string) {
	t.Helper()
	for _, phrase := range telltale.FindAllString(strings.Join(strings.Fields(text), " "), -1) {
		t.Errorf("%s says %q: write an active sentence whose subject does something", file, phrase)
	}
}
