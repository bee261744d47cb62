package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestControlsApply checks that what the controls break is still there to be broken: who changes such a line changes the
// control. What they make of it compiles; make test tries that of one in eight. That each is noticed takes minutes: make
// controls.
func TestControlsApply(t *testing.T) {
	t.Parallel()
	root, err := repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, e := range experiments() {
		names[e.name] = true
	}
	var all []edit
	broken := make(map[string]control) // those of the same edits once
	for _, c := range controls() {
		if (c.test == "") == (c.experiment == "") || c.experiment != "" && !names[c.experiment] {
			t.Errorf("control %q is for %q and %q", c.breaks, c.experiment, c.test)
		}
		broken[fmt.Sprint(c.edits)] = c
		all = append(all, c.edits...)
	}
	for i, p := range panics() {
		broken[fmt.Sprint(p.edits)] = control{breaks: fmt.Sprint("fault ", i), edits: p.edits}
		all = append(all, p.edits...)
	}
	checker := newChecker(t, root, all)
	sample := testing.Short() && os.Getenv("KESTREL_CI") == ""
	for i, key := range slices.Sorted(maps.Keys(broken)) {
		c := broken[key]
		if _, err = edited(root, c.edits); err == nil && (!sample || i%8 == 0) {
			err = checker.check(c.edits)
		}
		if err != nil {
			t.Errorf("control %q: %v", c.breaks, err)
		}
	}
	for _, garbled := range [][]edit{
		replaced(tickFile, "package netloop", "package netloop\n\nimport \"os\""), // which it does not use
		replaced(tickFile, "package netloop", "package"),
		replaced(tickFile, "package netloop\n", "package netloop\n\nvar x int = true\n"),
		replaced("netloop/doc.go", "what is not there", ""),
		replaced("codec/oldjournal/replay.go", "package oldjournal", "package oldjournal // of which no control breaks anything"),
	} {
		if checker.check(garbled) == nil {
			t.Errorf("%q passes for a control that compiles", garbled)
		}
	}
}

// A control that does not do what it says must not pass for noticed.
func TestControlNotNoticed(t *testing.T) {
	root, err := repository(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tr := newTestTrial(t, "", 1)
	harmless := control{
		breaks: "nothing", test: "./codec/memcache TestExpiry",
		edits: replaced("codec/memcache/expiry.go", "package memcache", "package memcache // changed"),
	}
	if how, err := harmless.notice(t.Context(), tr, root, tr.dir); err != nil || how != "" {
		t.Errorf("a harmless control was noticed: %q, %v", how, err)
	}
	garbled := harmless
	garbled.edits = replaced("codec/memcache/expiry.go", "package memcache", "package")
	if how, err := garbled.notice(t.Context(), tr, root, tr.dir); err == nil {
		t.Errorf("a control that does not build was noticed: %q", how)
	}
}

func TestOverlay(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "a.go")
	if err := os.WriteFile(file, []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		edits []edit
		want  string
	}{
		{replaced("a.go", "one", "1"), "1 two two"},
		{append(replaced("a.go", "one", "1"), edit{"a.go", "1 two", "2"}), "2 two"},
		{replaced("a.go", "two", "2"), "error: a.go has 2 times"},
		{replaced("a.go", "three", "3"), "error: a.go has 0 times"},
	} {
		dir := t.TempDir()
		got := "error"
		if _, err := overlay(root, dir, tt.edits); err != nil {
			got = "error: " + err.Error()
		} else if b, err := os.ReadFile(filepath.Join(dir, "0-a.go")); err == nil {
			got = string(b)
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("overlay(%v) = %q, want %q", tt.edits, got, tt.want)
		}
	}
}
