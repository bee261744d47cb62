package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndToEndLibraryPage runs the program of LIBRARY.md in a module that takes kestrel from this directory.
func TestEndToEndLibraryPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/LIBRARY.md")
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := fenced(string(page), "go")[0]
	if !strings.HasPrefix(program, "package main\n") {
		t.Fatalf("the first program of the page is not whole:\n%s", program)
	}
	write(t, filepath.Join(dir, "main.go"), program)
	goModule(t, dir)
	out, err := shell(t, dir, "go mod edit -require=github.com/kestrelmq/kestrel@v0.0.0 -replace=github.com/kestrelmq/kestrel='"+
		root+"' && go run -mod=mod .")
	if want := "hello\nagain\n"; err != nil || out != want {
		t.Errorf("the program of LIBRARY.md: %v\n%s\nwant %q", err, out, want)
	}
}
