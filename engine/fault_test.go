package engine

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// faulty is a Receiver that panics.
type faulty struct{}

func (faulty) Receive(Item) bool { panic(errors.New("fault of the test")) }

// A panic that leaves the engine is a *Fault, whatever it was before, and however deep.
func TestFaultLeavesTheEngine(t *testing.T) {
	e, _ := newQuiet(t)
	if _, err := e.Put(1, []byte("q"), PutRequest{Data: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		e.shardOf([]byte("q")).mu.Unlock() // or closing the engine would wait for it
		fault, ok := recover().(*Fault)
		if !ok || fault.Error() != "engine: fault of the test" {
			t.Errorf("Fetch panicked with %v, want a *Fault", fault)
		}
	}()
	func() {
		defer contain() // of another operation around it
		e.Fetch(1, []byte("q"), FetchRequest{Access: Take}, faulty{})
	}()
	t.Error("Fetch did not panic")
}

// Every operation that locks or changes something contains its faults: it defers contain, first of all.
// The others are listed with a reason.
func TestOperationsContainFaults(t *testing.T) {
	const makes = "makes a Clearing"
	plain := map[string]string{
		"Abort":              "calls AbortAll",
		"Account":            "adds to a number",
		"Committed":          "reads two numbers",
		"Deleting":           makes,
		"FansOut":            "reads a number and a setting",
		"Fetch":              "calls FetchMany",
		"Flushing":           makes,
		"FlushingAll":        makes,
		"FlushingAllExpired": makes,
		"FlushingExpired":    makes,
		"Left":               "reads a length",
		"MemoryLeft":         "reads a number",
		"MemoryLimit":        "reads a setting",
		"OptionsFor":         "reads settings, which never change",
		"Queue":              "checks a name",
		"Recovery":           "reads what Open has found",
		"Result":             "reads what a Clearing has come to",
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() || !isReceiver(f, "Engine", "Walk", "Clearing") {
				continue
			}
			if found++; plain[f.Name.Name] == "" && !containsFirst(f.Body) {
				t.Errorf("%s does not begin with defer contain()", f.Name.Name)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d operations found", found)
	}
}

// isReceiver reports whether f is a method of a pointer to one of the types named.
func isReceiver(f *ast.FuncDecl, types ...string) bool {
	star, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	for _, name := range types {
		if id, ok := star.X.(*ast.Ident); ok && id.Name == name {
			return true
		}
	}
	return false
}

// containsFirst reports whether the first statement is defer contain().
func containsFirst(body *ast.BlockStmt) bool {
	if len(body.List) == 0 {
		return false
	}
	d, ok := body.List[0].(*ast.DeferStmt)
	if !ok {
		return false
	}
	id, ok := d.Call.Fun.(*ast.Ident)
	return ok && id.Name == "contain"
}
