package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackageComments tests that every package says what it is, and that those with an exported face
// say it in doc.go.
func TestPackageComments(t *testing.T) {
	said := make(map[string]string) // the file with the comment, by package
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		pkg := path.Dir(file)
		if _, ok := said[pkg]; !ok {
			said[pkg] = ""
		}
		parsed := parse(t, file)
		if parsed.Doc != nil {
			said[pkg] = file
			if parsed.Name.Name != "main" && path.Base(file) != "doc.go" {
				t.Errorf("%s has the comment of its package, which belongs in doc.go", file)
			}
		}
	}
	for pkg, file := range said {
		if file == "" {
			t.Errorf("package %s has no comment", pkg)
		}
	}
}

// TestExportedNames tests that every exported name of a package that others import is documented.
func TestExportedNames(t *testing.T) {
	names := 0
	for _, file := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed := parse(t, file)
		if parsed.Name.Name == "main" {
			continue
		}
		for _, decl := range parsed.Decls {
			for name, documented := range exported(decl) {
				names++
				if !documented {
					t.Errorf("%s: %s is exported and has no comment", file, name)
				}
			}
		}
	}
	if names < 500 {
		t.Errorf("only %d exported names were found", names)
	}
}

// TestFunctionComments tests that a comment above a function begins with its name. A comment above a test, an example,
// or a function that tests call may begin with another word. It must not begin with the name of another function.
func TestFunctionComments(t *testing.T) {
	named := 0
	for _, file := range goFiles(t) {
		for _, decl := range parse(t, file).Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Doc.Text() == "" {
				continue
			}
			first := strings.TrimRight(strings.Fields(d.Doc.Text())[0], ".,:;")
			if first == d.Name.Name {
				named++
				continue
			}
			if !strings.HasSuffix(file, "_test.go") || otherName.MatchString(first) {
				t.Errorf("%s: the comment of %s begins with %q", file, d.Name.Name, first)
			}
		}
	}
	if named < 6000 {
		t.Errorf("only %d comments begin with a name", named)
	}
}

// otherName matches what is written like the name of a function.
var otherName = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)[A-Z]|^[a-z]+[A-Z]`)

// wellKnown are methods that say what they do by their name.
var wellKnown = []string{"Error", "String", "Unwrap"}

// exported returns the exported names that decl declares. With each it says whether a comment describes it: its own,
// one at the end of its line, or that of its group.
func exported(decl ast.Decl) map[string]bool {
	names := make(map[string]bool)
	switch d := decl.(type) {
	case *ast.FuncDecl:
		method := d.Recv != nil
		if !d.Name.IsExported() || method && !exportedType(d.Recv.List[0].Type) {
			break
		}
		names[d.Name.Name] = d.Doc != nil || method && slices.Contains(wellKnown, d.Name.Name)
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					names[s.Name.Name] = d.Doc != nil || s.Doc != nil || s.Comment != nil
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() {
						names[name.Name] = d.Doc != nil || s.Doc != nil || s.Comment != nil
					}
				}
			}
		}
	}
	return names
}

// exportedType reports whether the receiver type e has an exported name.
func exportedType(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.IsExported()
	case *ast.StarExpr:
		return exportedType(e.X)
	case *ast.IndexExpr:
		return exportedType(e.X)
	}
	return false
}

// parse returns a file of the tree, with its comments. It parses each file once.
func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	if parsed := trees[file]; parsed != nil {
		return parsed
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil,
		parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	trees[file] = parsed
	return parsed
}

// trees are the files that were parsed, by name. The tests of this package do not run in parallel.
var trees = make(map[string]*ast.File)
