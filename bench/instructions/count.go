package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// emulators are QEMU's programs, by the machine's architecture.
var emulators = map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}

// A count is what the longer run took beyond the shorter one. So what a program does once, before its first round, is not
// in it. Both handle so many items, which is enough to lose sight of what the runtime does now and then.
const (
	fewItems  = 32_000
	manyItems = 160_000
)

//go:embed plugin/count.c
var source []byte

// buildPlugin compiles the plugin, and returns its path.
func buildPlugin(ctx context.Context, dir string) (string, error) {
	in, out := filepath.Join(dir, "count.c"), filepath.Join(dir, "count.so")
	if err := os.WriteFile(in, source, 0o600); err != nil {
		return "", err
	}
	return out, output(exec.CommandContext(ctx, "cc", "-O2", "-shared", "-fPIC", "-o", out, in), nil)
}

// program is the tests of a package of one tree.
type program struct {
	tree, dir string // the tree, and the package's directory in it
	path      string // of the binary
	functions []function
}

// function is where a function's code begins.
type function struct {
	at   uint64
	name string
}

// build compiles the tests of a package of a tree to a file.
func build(ctx context.Context, tree, pkg, path string) (*program, error) {
	p := &program{tree: tree, dir: filepath.Join(tree, pkg), path: path}
	c := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, pkg)
	c.Dir, c.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if err := output(c, nil); err != nil {
		return nil, err
	}
	var table bytes.Buffer
	if err := output(exec.CommandContext(ctx, "go", "tool", "nm", "-n", path), &table); err != nil {
		return nil, err
	}
	var err error
	p.functions, err = parseFunctions(&table)
	return p, err
}

// parseFunctions reads what go tool nm -n prints, in the order of addresses.
func parseFunctions(table *bytes.Buffer) (list []function, err error) {
	for line := range strings.Lines(table.String()) {
		words := strings.Fields(line)
		if len(words) < 3 || words[1] != "T" && words[1] != "t" {
			continue
		}
		at, err := strconv.ParseUint(words[0], 16, 64)
		if err != nil {
			return nil, err
		}
		list = append(list, function{at, words[2]})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("go tool nm names no function")
	}
	return list, nil
}

// rows returns the names of the benchmarks that match a pattern.
func (p *program) rows(ctx context.Context, pattern string) (names []string, err error) {
	var out bytes.Buffer
	c := exec.CommandContext(ctx, p.path, "-test.run=^$", "-test.bench="+pattern, "-test.benchtime=1x", "-test.cpu=1")
	c.Dir = p.dir
	if err := output(c, &out); err != nil {
		return nil, err
	}
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "Benchmark") {
			names = append(names, strings.Fields(line)[0])
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no benchmark of %s matches %s", p.dir, pattern)
	}
	return names, nil
}

// exactly returns the pattern of one benchmark.
func exactly(row string) string {
	words := strings.Split(row, "/")
	for i, w := range words {
		words[i] = "^" + strings.ReplaceAll(w, "+", `\+`) + "$"
	}
	return strings.Join(words, "/")
}

// counts is how many instructions an item takes, by function.
type counts map[string]float64

// count runs one benchmark, whose rounds handle so many items, twice.
func (p *program) count(ctx context.Context, plugin, row string, items int) (counts, error) {
	fewRounds, manyRounds := max(fewItems/items, 1), max(manyItems/items, 2)
	few, err := p.runs(ctx, plugin, row, fewRounds)
	if err != nil {
		return nil, err
	}
	many, err := p.runs(ctx, plugin, row, manyRounds)
	if err != nil {
		return nil, err
	}
	c := make(counts)
	for at, n := range many {
		c[p.function(at)] += float64(n-few[at]) / float64((manyRounds-fewRounds)*items)
	}
	return c, nil
}

// runs returns how often each instruction ran, by its address.
func (p *program) runs(ctx context.Context, plugin, row string, rounds int) (map[uint64]int64, error) {
	out := p.path + ".counts"
	c := exec.CommandContext(ctx, emulators[runtime.GOARCH], "-cpu", "max", "-plugin", plugin+",out="+out, p.path,
		"-test.run=^$", "-test.bench="+exactly(row), fmt.Sprintf("-test.benchtime=%dx", rounds))
	// One processor, no collection and no clock that interrupts: what is left is the requests.
	c.Dir, c.Env = p.dir, append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	if err := output(c, nil); err != nil {
		return nil, err
	}
	f, err := os.Open(out)
	if err != nil {
		return nil, fmt.Errorf("the plugin wrote no counts: %w", err)
	}
	defer f.Close()
	counts := make(map[uint64]int64)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var at uint64
		var n int64
		if _, err := fmt.Sscanf(lines.Text(), "%x %d", &at, &n); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", out, lines.Text(), err)
		}
		counts[at] = n
	}
	return counts, nil
}

// function returns the name of the function that an address is in.
func (p *program) function(at uint64) string {
	i, found := slices.BinarySearchFunc(p.functions, at, func(f function, at uint64) int { return cmp.Compare(f.at, at) })
	if !found {
		i--
	}
	if i < 0 {
		return "?"
	}
	return p.functions[i].name
}

// total is the instructions of all functions.
func (c counts) total() (sum float64) {
	for _, n := range c {
		sum += n
	}
	return sum
}

// list words the functions that take most, a line each.
func (c counts) list(most int) string {
	var names []string
	for name := range c {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	})
	var b strings.Builder
	for _, name := range names[:min(most, len(names))] {
		fmt.Fprintf(&b, "%8.1f  %s\n", c[name], name)
	}
	return b.String()
}

// output runs a command, whose output goes to out, and returns an error with what it complained of.
func output(c *exec.Cmd, out *bytes.Buffer) error {
	var complaints bytes.Buffer
	c.Stderr = &complaints
	if out == nil {
		out = &complaints
	}
	c.Stdout = out
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, complaints.Bytes())
	}
	return nil
}
