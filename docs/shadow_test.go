package docs

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"
)

// TestShadows tests that no variable, parameter or constant has the name of a package that its file imports, or is
// called any. A reader takes it for the package, or for the type.
func TestShadows(t *testing.T) {
	declared := 0
	for _, file := range goFiles(t) {
		f := parse(t, file)
		taken := map[string]string{"any": "the type any"}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			name := path.Base(imported)
			if strings.HasPrefix(name, "v") && len(name) == 2 {
				name = path.Base(path.Dir(imported))
			}
			if spec.Name != nil {
				name = spec.Name.Name
			}
			taken[name] = "the package " + imported
		}
		check := func(names ...*ast.Ident) {
			for _, name := range names {
				declared++
				if what, shadows := taken[name.Name]; shadows && name.Name != "_" {
					t.Errorf("%s: a variable called %s hides %s", file, name.Name, what)
				}
			}
		}
		fields := func(list *ast.FieldList) {
			if list != nil {
				for _, field := range list.List {
					check(field.Names...)
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				fields(n.Recv)
			case *ast.FuncType:
				fields(n.Params)
				fields(n.Results)
			case *ast.ValueSpec:
				check(n.Names...)
			case *ast.AssignStmt:
				if n.Tok == token.DEFINE {
					for _, left := range n.Lhs {
						if name, ok := left.(*ast.Ident); ok {
							check(name)
						}
					}
				}
			case *ast.RangeStmt:
				if n.Tok == token.DEFINE {
					for _, left := range []ast.Expr{n.Key, n.Value} {
						if name, ok := left.(*ast.Ident); ok {
							check(name)
						}
					}
				}
			}
			return true
		})
	}
	if declared < 10_000 {
		t.Errorf("only %d names were looked at", declared)
	}
}
