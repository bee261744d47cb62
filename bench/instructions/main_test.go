package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	o, err := parseOptions([]string{"-trees", "a,b", "-top", "3"}, io.Discard)
	if err != nil || len(o.trees) != 2 || o.trees[1] != "b" || o.top != 3 {
		t.Errorf("options = %+v, %v", o, err)
	}
	if _, err := parseOptions([]string{"more"}, io.Discard); err == nil {
		t.Error("an argument that means nothing passes")
	}
}

func TestFunctions(t *testing.T) {
	list, err := parseFunctions(bytes.NewBufferString("  401000 T main.a\n  401040 t main.b\n  500000 D main.data\n         U extern\n"))
	if err != nil {
		t.Fatal(err)
	}
	p := &program{functions: list}
	for at, want := range map[uint64]string{0x401000: "main.a", 0x40103f: "main.a", 0x401040: "main.b", 0x402000: "main.b", 1: "?"} {
		if got := p.function(at); got != want {
			t.Errorf("function(%#x) = %q, want %q", at, got, want)
		}
	}
	for table, why := range map[string]string{"": "names no function", "zz T main.a\n": "invalid syntax"} {
		if _, err := parseFunctions(bytes.NewBufferString(table)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", table, err, why)
		}
	}
}

func TestExactly(t *testing.T) {
	if got, want := exactly("BenchmarkTurn/SET+GET/nobody"), `^BenchmarkTurn$/^SET\+GET$/^nobody$`; got != want {
		t.Errorf("exactly = %q, want %q", got, want)
	}
}

func TestList(t *testing.T) {
	c := counts{"b": 2, "a": 2, "c": 7.25, "d": 1}
	if got, want := c.list(3), "     7.2  c\n     2.0  a\n     2.0  b\n"; got != want {
		t.Errorf("list = %q, want %q", got, want)
	}
	if c.total() != 12.25 {
		t.Errorf("total = %v", c.total())
	}
}

// turns is a package with a benchmark of 32 calls a round. Those of its second row do ten times as much.
const turns = `package netloop

import "testing"

var sum int

//go:noinline
func step(n int) {
	for i := range n {
		sum += i
	}
}

func BenchmarkTurn(b *testing.B) {
	for _, row := range []struct {
		name string
		n    int
	}{{"short", 100}, {"long", 1000}} {
		b.Run(row.name+"/nobody", func(b *testing.B) {
			for b.Loop() {
				for range 32 {
					step(row.n)
				}
			}
		})
	}
}
`

// TestEndToEndCount counts a program whose second row takes ten times the instructions of its first.
func TestEndToEndCount(t *testing.T) {
	for _, name := range []string{emulators[runtime.GOARCH], "cc"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("KESTREL_CI") != "" {
				t.Fatalf("%v: .ci/run installs it", err)
			}
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module turns\n\ngo 1.26\n", "netloop/turn_test.go": turns} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	temp := t.TempDir()
	plugin, err := buildPlugin(context.Background(), temp)
	if err != nil {
		t.Fatal(err)
	}
	p, err := build(context.Background(), dir, "./netloop", filepath.Join(temp, "turns"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := p.rows(context.Background(), "BenchmarkTurn/./nobody")
	if err != nil || len(rows) != 2 {
		t.Fatalf("rows = %q, %v", rows, err)
	}
	var steps []float64
	for _, row := range rows {
		c, err := p.count(context.Background(), plugin, row, 32)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, c["turns/netloop.step"])
		if rest := c.total() - c["turns/netloop.step"]; rest > 100 {
			t.Errorf("%s: %.0f instructions of an item are beside its step: %s", row, rest, c.list(10))
		}
	}
	if short, long := steps[0], steps[1]; short < 100 || short > 1000 || long < 9*short || long > 11*short {
		t.Errorf("a short step has %.1f instructions and a long one %.1f", short, long)
	}
}
