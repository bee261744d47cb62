// Profile shows where the processor time of the server goes. It starts kestrel with its profiler
// on, and puts and gets as fast as the server can. Then it sorts the samples of each by their
// purpose.
//
//	go run ./bench/profile -kestrel bin/kestrel
//
// The table goes to standard output as markdown. Shares, unlike times, hardly depend on the machine
// being quiet. What the kernel does for a system call is in the row of that call.
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
	"syscall"
	"time"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// options are the command line.
type options struct {
	kestrel string        // path of the binary
	window  time.Duration // of each profile
	keep    string        // directory for the profiles; empty: they are not kept
	results string        // directory for the table; empty: standard output only
	cpus    [2]int        // of the server, and of the load
}

func main() {
	runtime.LockOSThread() // the server is started from this thread, and dies with it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := new(options)
	f := flag.NewFlagSet("profile", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.kestrel, "kestrel", "bin/kestrel", "`path` of the kestrel binary")
	f.DurationVar(&o.window, "window", 3*time.Second, "`time` of each profile")
	f.StringVar(&o.keep, "keep", "", "`directory` to keep the profiles in, for go tool pprof")
	f.StringVar(&o.results, "results", "",
		"`directory` to write the table to, as DATE-MACHINE-profile.md, too")
	f.IntVar(&o.cpus[0], "server-cpu", 0, "`processor` of the server")
	f.IntVar(&o.cpus[1], "load-cpu", 1, "`processor` of the load")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if o.window < time.Second || o.window > 10*time.Second {
		return nil, fmt.Errorf("-window is %v, want 1s to 10s", o.window)
	}
	return o, nil
}

// run profiles each load and prints the table.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	text := o.head(time.Now())
	for _, loads := range tables() {
		var columns []column
		for _, l := range loads {
			fmt.Fprintf(stderr, "profile: %v\n", l)
			c, err := o.profile(ctx, l)
			if err != nil {
				return fmt.Errorf("%v: %w", l, err)
			}
			columns = append(columns, c)
		}
		text += "\n" + table(columns)
	}
	if _, err := io.WriteString(stdout, text); err != nil || o.results == "" {
		return err
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-profile.md", time.Now().Format("2006-01-02"),
		figures.ThisMachine().FileName())
	return os.WriteFile(filepath.Join(o.results, name), []byte(text), 0o644)
}

// head returns what is needed to judge the tables, and to repeat them.
func (o *options) head(now time.Time) string {
	return fmt.Sprintf("# Where the processor time goes, %s\n\n- machine: %s\n- load: c connections, P requests"+
		" in flight on each, items of 64 bytes where no size is given, one queue; of WAITERS, c consumers wait"+
		" for the items of one more connection, which puts %d a second\n- server on processor %d, load on %d;"+
		" sync_journal never, or always where it says so; profiles of %v, of WAITERS of %v\n",
		now.Format("2 January 2006 15:04 MST"), figures.ThisMachine(), waitersRate, o.cpus[0], o.cpus[1],
		o.window, waiters(1).window(o.window))
}
