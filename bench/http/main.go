// Burrow measures what Burrow's protocol costs the server. It takes the processor time of a PUT and a GET of 64 bytes.
// It also takes the memory of a long poll, and of a long list that is read slowly. It times how soon a message reaches
// long polls, and what the flood of one account does to another. Where there is a measure, it stands beside. One is
// memcache's protocol of the same server in the same run; nginx with a fixed 204 is the floor of what HTTP costs.
//
//	go run ./bench/http -kestrel bin/kestrel
//
// The report goes to standard output as markdown, progress to standard error. It ends with status 1 if a goal is missed.
// The server has processor 0 and the clients have processor 1. What is compared takes turns.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

const (
	bodySize   = 64 // bytes
	serverCPU  = 0
	clientsCPU = 1
)

// errMissed ends the program when a figure is not what it is meant to be.
var errMissed = errors.New("a goal is missed")

// bench is one run.
type bench struct {
	kestrel string // path of the binary
	dir     string // parent of the servers' directories
	rounds  int
	scale   float64 // of how much each part does
	report  strings.Builder
	log     io.Writer
	missed  bool
}

// of returns n, scaled.
func (b *bench) of(n int) int { return max(int(float64(n)*b.scale), 1) }

// parts are what may be measured, in this order.
var parts = []struct {
	name string
	run  func(*bench, context.Context) error
}{
	{"cost", (*bench).cost}, {"polls", (*bench).polls}, {"delivery", (*bench).delivery}, {"listing", (*bench).listing},
	{"tenants", (*bench).tenants},
}

func main() {
	runtime.LockOSThread() // servers die with the thread that has started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "burrow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	f := flag.NewFlagSet("burrow", flag.ContinueOnError)
	f.SetOutput(stderr)
	kestrel := f.String("kestrel", "bin/kestrel", "`path` of the kestrel binary")
	b := &bench{log: stderr}
	f.IntVar(&b.rounds, "rounds", 5, "`rounds` of what is compared")
	f.Float64Var(&b.scale, "scale", 1, "`factor` on requests, polls, messages and seconds")
	chosen := f.String("parts", strings.Join(names, ","), "`parts` to measure")
	dir := f.String("dir", os.TempDir(), "`directory` on the disk that the servers write to")
	floods := f.String("flood", "", "do nothing but flood the server at that `address`, for the part tenants")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *floods != "" {
		return flood(*floods, os.Stdin, stdout)
	}
	wanted := strings.Split(*chosen, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return fmt.Errorf("-parts: %q is none of %s", name, strings.Join(names, ", "))
		}
	}
	var err error
	if b.kestrel, err = filepath.Abs(*kestrel); err != nil {
		return err
	}
	if err := spawn.PinSelf([]int{clientsCPU}); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp(*dir, "burrow-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, p := range parts {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		if err := p.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	if _, err := io.WriteString(stdout, b.report.String()); err != nil {
		return err
	}
	if b.missed {
		return errMissed
	}
	return nil
}

// table begins a table of the report.
func (b *bench) table(title string, columns ...string) {
	fmt.Fprintf(&b.report, "%s\n\n| %s | goal | reached |\n|%s\n", title, strings.Join(columns, " | "),
		strings.Repeat("---|", len(columns)+2))
}

// goal is what a figure may be at most.
type goal struct {
	most  float64
	below bool // the figure must be less than most
	unit  string
}

func (g goal) reached(figure float64) bool { return figure < g.most || !g.below && figure == g.most }

// row adds a row of a table, with whether a figure reaches its goal.
func (b *bench) row(figure float64, g goal, cells ...string) {
	sign, reached := "≤", "yes"
	if g.below {
		sign = "<"
	}
	if !g.reached(figure) {
		reached, b.missed = "**NO**", true
	}
	fmt.Fprintf(&b.report, "| %s | %s %v%s | %s |\n", strings.Join(cells, " | "), sign, g.most, g.unit, reached)
}

func (b *bench) endTable() { b.report.WriteString("\n") }

// spread returns the median of values and their bounds, as text.
func spread(values []float64) string { return figures.Summarize(values).String() }

// ratio returns the median of the ratios, round by round, and its text.
func ratio(values, reference []float64) (float64, string) {
	s := figures.Summarize(figures.Ratios(values, reference))
	return s.Median, s.String()
}
