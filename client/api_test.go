package client_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/api.txt anew")

// TestAPI tests that the exported names of the packages that programs use, with their types, are those of
// testdata/api.txt. Programs are built with them: a line that goes, or changes, breaks some. After a change that is
// meant, go test ./client -run TestAPI -update writes the file, and the changelog says it.
func TestAPI(t *testing.T) {
	var got []string
	for _, dir := range []string{".", "discovery"} {
		got = append(got, exported(t, dir)...)
	}
	const file = "testdata/api.txt"
	text := strings.Join(got, "\n") + "\n"
	if *update {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
	for _, line := range before {
		if !slices.Contains(got, line) {
			t.Errorf("gone, or changed: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(before, line) {
			t.Errorf("new: %s", line)
		}
	}
	if string(want) != text && !t.Failed() {
		t.Error("the file has another order")
	}
	if t.Failed() {
		t.Log("if that is meant: go test ./client -run TestAPI -update, and say so in docs/CHANGELOG.md")
	}
}

// exported returns a line for each exported name of a package: functions and methods with their types, fields, methods
// of interfaces, constants and variables.
func exported(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	pkg := ""
	text := func(node any) string {
		var b bytes.Buffer
		if err := printer.Fprint(&b, fset, node); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	add := func(words ...string) { lines = append(lines, pkg+": "+strings.Join(words, " ")) }
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		pkg = parsed.Name.Name
		for _, decl := range parsed.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				receiver := ""
				if d.Recv != nil {
					receiver = text(d.Recv.List[0].Type)
				}
				if d.Name.IsExported() && (receiver == "" || ast.IsExported(strings.TrimPrefix(receiver, "*"))) {
					words := []string{"func", d.Name.Name + strings.TrimPrefix(text(d.Type), "func")}
					if receiver != "" {
						words = []string{"func", "(" + receiver + ")", words[1]}
					}
					add(words...)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch s := spec.(type) {
					case *ast.TypeSpec:
						if s.Name.IsExported() {
							addType(s, text, add)
						}
					case *ast.ValueSpec:
						for i, name := range s.Names {
							words := []string{d.Tok.String(), name.Name}
							if s.Type != nil {
								words = append(words, text(s.Type))
							}
							if d.Tok == token.CONST && i < len(s.Values) {
								words = append(words, "=", text(s.Values[i]))
							}
							if name.IsExported() {
								add(words...)
							}
						}
					}
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// addType adds a type, with a line for each of its fields or methods that is exported.
func addType(s *ast.TypeSpec, text func(any) string, add func(...string)) {
	var members []*ast.Field
	kind := "field"
	switch typ := s.Type.(type) {
	case *ast.StructType:
		members = typ.Fields.List
		add("type", s.Name.Name, "struct")
	case *ast.InterfaceType:
		members, kind = typ.Methods.List, "method"
		add("type", s.Name.Name, "interface")
	default:
		alias := ""
		if s.Assign.IsValid() {
			alias = "= "
		}
		add("type", s.Name.Name, alias+text(s.Type))
	}
	for _, m := range members {
		if len(m.Names) == 0 {
			add(kind, s.Name.Name+":", text(m.Type)) // embedded
		}
		for _, name := range m.Names {
			if name.IsExported() {
				add(kind, s.Name.Name+"."+name.Name, strings.TrimPrefix(text(m.Type), "func"))
			}
		}
	}
}
