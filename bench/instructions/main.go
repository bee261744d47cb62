// Instructions counts what a request costs the processor in instructions. Unlike times, they hardly depend on what else
// the machine does: two runs differ by less than one in a hundred. So they show what a change costs on a busy machine.
//
//	go run ./bench/instructions
//	go run ./bench/instructions -trees /path/of/the/build/before,. -top 20
//	go run ./bench/instructions -package ./codec/text -bench 'Decode/.' -items 1
//
// It runs BenchmarkTurn of netloop, unless a flag names others: what an event loop does with 32 requests that came with one
// read, without sockets. QEMU's user emulation runs it, and a plugin counts (plugin/count.c). It needs qemu-user and a C
// compiler. Calls of the kernel count nothing.
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
	"strings"
	"syscall"
	"text/tabwriter"
)

// options are the command line.
type options struct {
	trees []string // directories of builds to compare; the first is what the others are compared with
	pkg   string   // whose benchmarks
	bench string   // which of them
	items int      // that a round of a benchmark handles
	top   int      // functions to list of each
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("instructions", flag.ContinueOnError)
	f.SetOutput(stderr)
	trees := f.String("trees", ".", "`directories` of source trees, separated by commas; the first is the one to compare with")
	f.StringVar(&o.pkg, "package", "./netloop", "`directory` of the package whose benchmarks run")
	f.StringVar(&o.bench, "bench", "Turn/./nobody", "`pattern` of the benchmarks")
	f.IntVar(&o.items, "items", 32, "`number` of items that a round of a benchmark handles")
	f.IntVar(&o.top, "top", 0, "list the `number` of functions that take most")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	o.trees = strings.Split(*trees, ",")
	return o, nil
}

// run counts each row in each tree, and prints a table.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	plugin, err := buildPlugin(ctx, dir)
	if err != nil {
		return err
	}
	var programs []*program
	for i, tree := range o.trees {
		p, err := build(ctx, tree, o.pkg, filepath.Join(dir, fmt.Sprint("tree", i)))
		if err != nil {
			return err
		}
		programs = append(programs, p)
	}
	rows, err := programs[0].rows(ctx, o.bench)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "instructions per item\t%s\n", strings.Join(o.trees, "\t"))
	var lists []string
	for _, row := range rows {
		fmt.Fprint(w, row)
		var base float64
		for i, p := range programs {
			c, err := p.count(ctx, plugin, row, o.items)
			if err != nil {
				return err
			}
			total := c.total()
			if i == 0 {
				base = total
				fmt.Fprintf(w, "\t%.0f", total)
			} else {
				fmt.Fprintf(w, "\t%.0f (%.3f)", total, total/base)
			}
			if o.top > 0 {
				lists = append(lists, fmt.Sprintf("\n%s, %s:\n%s", row, p.tree, c.list(o.top)))
			}
		}
		fmt.Fprintln(w)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err = io.WriteString(stdout, strings.Join(lists, ""))
	return err
}
