package docs

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostForSet is how many files a SET may pass: a new reader opens them all.
const mostForSet = 14

// lives are the sections of ARCHITECTURE.md that list the files of a request, or of a start, and how many each may
// list.
var lives = map[string]int{
	"SET":                mostForSet,
	"GET in read-behind": 30,
	"leased item":        20,
	"Thrift get":         15,
	"Burrow POST":        15,
	"restart":            15,
}

// starter is the file that starts the goroutines of the engine: it calls what a life goes on with behind a list of work.
const starter = "engine/engine.go"

// TestLives holds the lists of files in the lives of ARCHITECTURE.md to the code. Each file is called from one that
// stands before it, directly, by way of an interface or on a goroutine of the engine. The page counts them.
func TestLives(t *testing.T) {
	calls := callsOf(t)
	page := read(t, "ARCHITECTURE.md")
	counts := regexp.MustCompile(`hese (\d+) files`)
	for title, most := range lives {
		_, section, _ := strings.Cut(page, "## The life of a "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		files := filesOfTable(section)
		if m := counts.FindStringSubmatch(section); m == nil || m[1] != fmt.Sprint(len(files)) {
			t.Errorf("the life of a %s lists %d files, and says %q", title, len(files), m)
		}
		if len(files) < 10 || len(files) > most {
			t.Errorf("the life of a %s lists %d files, want 10 to %d", title, len(files), most)
		}
		for i, file := range files {
			if calls[file] == nil {
				t.Errorf("the life of a %s lists %s, which does not exist or calls nothing", title, file)
			}
			called := i == 0 || calls.reach(starter, file)
			for _, before := range files[:i] {
				called = called || calls.reach(before, file)
			}
			if !called {
				t.Errorf("the life of a %s lists %s, which no file before it calls", title, file)
			}
		}
		for _, file := range filesOfSteps(section) {
			if !slices.Contains(files, file) {
				t.Errorf("the steps in the life of a %s name %s, and its table does not", title, file)
			}
		}
	}
}

// TestLivesControl asks for calls that are there, and for one that is not.
func TestLivesControl(t *testing.T) {
	calls := callsOf(t)
	for _, tt := range []struct {
		from, to string
		want     bool
	}{
		{"netloop/requests.go", "netloop/memcache.go", true},
		{"netloop/memcache.go", "codec/memcache/decode.go", true},
		{"netloop/replies.go", "netloop/conn.go", true}, // by way of an interface
		{"codec/memcache/decode.go", "netloop/memcache.go", false},
		{starter, "engine/fill.go", true},
		{"netloop/driver.go", "engine/waiter.go", false}, // each has a method called remove
		{"netloop/memcache.go", "segment/log.go", false},
	} {
		if got := calls.reach(tt.from, tt.to); got != tt.want {
			t.Errorf("%s calls %s: %t, want %t", tt.from, tt.to, got, tt.want)
		}
	}
	const steps = "Text, `a/text.go`.\n\n1. A step (`a/b.go`), and\n   more of it (`c/d/e.go`, `f.go`).\n\nText, `a/g.go`.\n"
	if got := filesOfSteps(steps); !slices.Equal(got, []string{"a/b.go", "c/d/e.go"}) {
		t.Errorf("the steps name %q", got)
	}
}

// filesOfSteps returns the Go files that the numbered steps of a section name with their folders, as files to read. A
// file without its folder is one that the step mentions only.
func filesOfSteps(section string) (files []string) {
	step := false
	for line := range strings.Lines(section) {
		switch {
		case line[0] >= '1' && line[0] <= '9':
			step = true
		case line[0] != ' ':
			step = false
		}
		if step {
			for _, m := range regexp.MustCompile("`([a-z]+/[a-z/]+\\.go)`").FindAllStringSubmatch(line, -1) {
				files = append(files, m[1])
			}
		}
	}
	return files
}

// filesOfTable returns the Go files that the tables of a section name, in their order.
func filesOfTable(section string) (files []string) {
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "|") {
			for _, m := range regexp.MustCompile("`([a-z/]+\\.go)`").FindAllStringSubmatch(line, -1) {
				files = append(files, m[1])
			}
		}
	}
	return files
}

// fileCalls is what a file declares and uses, of functions and methods.
type fileCalls struct {
	declares map[string]bool // methods, see method
	uses     map[string]bool // files, and methods of interfaces
}

type callGraph map[string]*fileCalls

func (g callGraph) of(file string) *fileCalls {
	if g[file] == nil {
		g[file] = &fileCalls{make(map[string]bool), make(map[string]bool)}
	}
	return g[file]
}

// reach reports whether a function of one file uses one of another, or a method of an interface that the other
// declares.
func (g callGraph) reach(from, to string) bool {
	if g[from] == nil || g[to] == nil {
		return false
	}
	if g[from].uses[to] {
		return true
	}
	for name := range g[to].declares {
		if g[from].uses[name] {
			return true
		}
	}
	return false
}

// method names a method for comparison with one of an interface: one that is not exported is that of its package alone.
func method(pkg *types.Package, name string) string {
	if ast.IsExported(name) {
		return "method " + name
	}
	return "method " + pkg.Path() + "." + name
}

// callsOf returns the calls of every file of the tree.
func callsOf(t *testing.T) callGraph {
	t.Helper()
	loaded, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	g := make(callGraph)
	for _, p := range loaded {
		folder := strings.TrimPrefix(p.PkgPath, module+"/")
		for _, file := range p.Syntax {
			calls := g.of(path.Join(folder, filepath.Base(p.Fset.Position(file.Package).Filename)))
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					if n.Recv != nil {
						calls.declares[method(p.Types, n.Name.Name)] = true
					}
				case *ast.Ident:
					f, ok := p.TypesInfo.Uses[n].(*types.Func)
					if !ok || f.Pkg() == nil {
						return true
					}
					if to, ours := strings.CutPrefix(f.Pkg().Path(), module+"/"); ours {
						f = f.Origin()
						calls.uses[path.Join(to, filepath.Base(p.Fset.Position(f.Pos()).Filename))] = true
					}
					if recv := f.Signature().Recv(); recv != nil && types.IsInterface(recv.Type()) {
						calls.uses[method(f.Pkg(), f.Name())] = true
					}
				}
				return true
			})
		}
	}
	return g
}
