package docs

import (
	"go/ast"
	"go/token"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// telltale are phrases that a tired reader has to read twice. Each stands for a sentence without a subject
// that does something: say who does it.
var telltale = regexp.MustCompile(
	`(?i)\b(told|be it|by and by|that of which|such as are)\b`)

// TestPlainWords tests that no comment and no page has a telltale phrase. A phrase counts across the end of
// a line.
func TestPlainWords(t *testing.T) {
	files := 0
	for _, file := range goFiles(t) {
		files++
		for _, group := range parse(t, file).Comments {
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

// retiredName is a word in names that has had several meanings.
type retiredName struct {
	name    *regexp.Regexp
	folders []string // in which it is retired
	means   string   // what it means now
}

// retired are words in the names of functions and methods.
var retired = []retiredName{
	{regexp.MustCompile(`^told|Told`), []string{""}, "nothing: a waiter is notified, an error reported, an item recorded"},
	{regexp.MustCompile(`^(run|Run)$`), []string{"engine/", "segment/"}, "a file of a backlog: a function does, reads or finishes something"},
	{regexp.MustCompile(`(?i)(put|kind|append)run$`), []string{""}, "a file of a backlog: several puts in one record are puts"},
	{regexp.MustCompile(`^[kK]eep`), []string{"engine/internal/hidden/", "engine/internal/keyindex/"},
		"to write a keep record: what is left alone is retained or filtered"},
	{regexp.MustCompile(`^[kK]eep`), []string{"netloop/"}, "to write a keep record, in the engine: input is buffered, a request is copied"},
	{regexp.MustCompile(`^[aA]lter(ing|ation)?$`), []string{"engine/", "netloop/", "client/"}, "nothing: an item is changed"},
	{regexp.MustCompile(`^holds?(From|Segments|Items|Input|Dirs)$`), []string{"engine/", "netloop/"}, "nothing: reads pin segments, a backup retains them, what is held is an item, a reply or a lock"},
	{regexp.MustCompile(`^[cC]laim|[a-z]Claim|[uU]nclaimed`), []string{"engine/"}, "a reply that waits for its ticket, in netloop: a queue wins a wait, a run is stray"},
	{regexp.MustCompile(`^(?i:is)?[bB]ehind$`), []string{"engine/", "netloop/"}, "later in an order: a queue has many items, a session is resuming"},
	{regexp.MustCompile(`^[pP]ublish`), []string{"engine/"},
		"to make a server's status known elsewhere, in netloop: the spool adds a batch to a backlog"},
	{regexp.MustCompile(`^(flushing|flushed)$`), []string{"bench/sim/"}, "nothing: a clearing begins and ends"},
	{regexp.MustCompile(`[eE]nqueue$|[dD]equeue$`), []string{"engine/"}, "nothing: items are put and fetched"},
	{regexp.MustCompile(`^fill`), []string{"engine/internal/journal/"}, "to read frames into a window: a frame of records ends"},
	{regexp.MustCompile(`^mark[A-Z]`), []string{"engine/"}, "nothing: marks are a file of ids that are gone, and an item that is taken is announced"},
	{regexp.MustCompile(`^serve$`), []string{"engine/"}, "to handle the bulk, in netloop: a queue serves its waiters by serveWaiters"},
	{regexp.MustCompile(`^side$|[sS]ideline`), []string{"engine/"}, "nothing: an item is aside"},
	{regexp.MustCompile(`[kK]eeper$`), []string{"engine/", "netloop/"}, "nothing: functions called keep write keep records, and a server has a status"},
	{regexp.MustCompile(`^ahead$|[aA]skAhead`), []string{"netloop/", "client/"}, "of a queue: it takes puts faster than the disk does"},
}

// settle is retired in all that is declared, not only in functions. Package codec/burrow has it from the published names
// of operations.
var settle = retiredName{regexp.MustCompile(`(?i)settl`), []string{"access/", "bench/", "client/", "cmd/", "loadtest/", "netloop/", "segment/"},
	"to drop what a queue owes, in the engine: a loop wraps up, clients get a head start, servers return"}

// TestRetiredNames tests that no name outside of tests has a meaning that another word has now.
func TestRetiredNames(t *testing.T) {
	names := 0
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "segment/segmenttest/") {
			continue
		}
		for name, function := range declared(parse(t, file)) {
			rules := []retiredName{settle}
			if function {
				names++
				rules = append(rules, retired...)
			}
			for _, r := range rules {
				in := slices.ContainsFunc(r.folders, func(folder string) bool { return strings.HasPrefix(file, folder) })
				if in && r.name.MatchString(name) {
					t.Errorf("%s: something is called %s, but that word means %s", file, name, r.means)
				}
			}
		}
	}
	if names < 3000 {
		t.Errorf("only %d functions were looked at", names)
	}
}

// declared returns the names that a file declares, and whether each is that of a function or method.
func declared(f *ast.File) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		stopped := false
		ast.Inspect(f, func(n ast.Node) bool {
			var names []*ast.Ident
			function := false
			switch n := n.(type) {
			case *ast.FuncDecl:
				names, function = []*ast.Ident{n.Name}, true
			case *ast.ValueSpec:
				names = n.Names
			case *ast.TypeSpec:
				names = []*ast.Ident{n.Name}
			case *ast.Field:
				names = n.Names
			case *ast.AssignStmt:
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok && n.Tok == token.DEFINE {
						names = append(names, id)
					}
				}
			}
			for _, id := range names {
				if stopped = stopped || !yield(id.Name, function); stopped {
					return false
				}
			}
			return !stopped
		})
	}
}
