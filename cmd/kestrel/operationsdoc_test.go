package main

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const operationsFile = "../../docs/OPERATIONS.md"

// TestLogLines tests that docs/OPERATIONS.md lists the messages that the server logs, and no
// others, with their level.
func TestLogLines(t *testing.T) {
	said := make(map[string]string)   // levels by message
	consts := make(map[string]string) // texts by name
	internal, err := filepath.Glob("../../engine/internal/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(internal, "../../engine", "../../segment", "../../netloop", "../../netloop/admin", "../../netloop/certs",
		"../../client/discovery", "internal/journalcmd", ".") {
		logMessages(t, dir, consts, said)
	}
	doc, err := os.ReadFile(operationsFile)
	if err != nil {
		t.Fatal(err)
	}
	listed := make(map[string]string)
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (debug|info|warn|error) \\| .+ \\|$")
	last := ""
	for _, m := range row.FindAllStringSubmatch(string(doc), -1) {
		if _, ok := listed[m[1]]; ok {
			t.Errorf("%s lists %q twice", operationsFile, m[1])
		}
		if strings.ToLower(m[1]) < last {
			t.Errorf("%s lists %q behind %q", operationsFile, m[1], last)
		}
		listed[m[1]], last = m[2], strings.ToLower(m[1])
	}
	for message, level := range said {
		if listed[message] != level {
			t.Errorf("%s does not say what this means: | `%s` | %s |", operationsFile, message, level)
		}
	}
	for message := range listed {
		if _, ok := said[message]; !ok {
			t.Errorf("%s lists %q, which nothing logs", operationsFile, message)
		}
	}
	if len(said) < 50 {
		t.Errorf("only %d messages were found", len(said))
	}
}

// logMessages adds the messages that the package in dir logs, and its constants.
func logMessages(t *testing.T, dir string, consts, said map[string]string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := goparser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
				if text, ok := textOf(v.Values[0], nil); ok {
					consts[v.Names[0].Name] = text
				}
			}
			return true
		})
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			level := logLevel(call.Fun)
			text, ok := textOf(call.Args[0], consts)
			if level != "" && ok {
				said[text] = level
			}
			return true
		})
	}
}

// logLevel is the level at which a call of fun logs its first argument; "" if it does not.
func logLevel(fun ast.Expr) string {
	method, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if strings.EqualFold(method.Sel.Name, "report") || method.Sel.Name == "reportOnce" { // of background work
		return "error"
	}
	receiver := ""
	switch x := method.X.(type) {
	case *ast.Ident:
		receiver = x.Name
	case *ast.SelectorExpr:
		receiver = x.Sel.Name
	}
	level := strings.ToLower(method.Sel.Name)
	if !strings.EqualFold(receiver, "log") || !strings.Contains(" debug info warn error ", " "+level+" ") {
		return ""
	}
	return level
}

// textOf is the text of a string literal, a constant, literals added up, or the beginning of a text that goes
// on with something else.
func textOf(e ast.Expr, consts map[string]string) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.Ident:
		text, ok := consts[e.Name]
		return text, ok
	case *ast.SelectorExpr: // a constant of another package
		text, ok := consts[e.Sel.Name]
		return text, ok
	case *ast.BinaryExpr:
		first, ok := textOf(e.X, consts)
		if rest, literal := textOf(e.Y, consts); ok && literal {
			return first + rest, true
		}
		return strings.TrimRight(first, ": "), ok
	}
	return "", false
}
