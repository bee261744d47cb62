// Lab tries to break the promises of the server. It kills it, cuts its power, makes its system calls fail, damages its
// files, sets its clock, and sends it what no client should. Then a checker compares what is left with what was
// promised. docs/RELIABILITY.md says which experiment tries each promise, and with what result.
//
//	go run ./bench/lab kill -n 3000     kill -9 under load
//	go run ./bench/lab all              everything, briefly
//	go run ./bench/lab help
//
// The result goes to standard output, progress to standard error. The status is 1 if a promise was
// broken, 2 if an experiment could not be done. The command leaves the files of a broken promise, and names them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/kestrelmq/kestrel/segment/segmenttest/failingdisk"
)

// experiment is one way to try the server.
type experiment struct {
	name    string
	summary string
	cycles  int // unless -n says otherwise
	run     func(context.Context, *trial) error
}

func experiments() []experiment {
	return []experiment{
		{"kill", "kill -9 under mixed load", 30, killTrial},
		{"spill", "kill -9 while queues spill and are drained at full speed", 30, spillTrial},
		{"rough", "few descriptors, slow disks, failing calls, SIGTERM: all in one data directory", 20, roughTrial},
		{"short", "the same, and every read and write of a file comes up short", 10, shortTrial},
		{"order", "in a trace, every STORED leaves after its sync", 2000, orderTrial},
		{"faults", "system calls of the real server that fail", 1000, faultsTrial},
		{"limits", "full disks, memory, descriptors, directories that are wrong", 2, limitsTrial},
		{"clocks", "a wall clock that is stepped, by seconds, hours and days", 10, clocksTrial},
		{"damage", "files with a byte changed, or cut", 200, damageTrial},
		{"panics", "faults of the server itself, in a session and in the engine", 1, panicsTrial},
		{"hostile", "clients that send, read and connect as none should", 2, hostileTrial},
		{"halfopen", "what others feel of ten thousand TLS handshakes that nobody ends", 3, halfOpenTrial},
		{"timing", "whether time says which of user and password was wrong", 1, timingTrial},
		{"soak", "a steady load, for -n seconds: nothing may grow", 10, soakTrial},
		{"cut-ext4", "power cuts on an ext4 image", 16, cutTrial("ext4")},
		{"cut-spill", "power cuts while queues spill and are drained", 16, cutSpillTrial},
		{"cut-xfs", "power cuts on an XFS image", 16, cutTrial("xfs")},
	}
}

// all returns the experiments that can be chosen: the controls need the others, and older another build.
func all() []experiment {
	return append(experiments(), experiment{
		"older", "a directory of plain queues, in turns with the build before delays, leases and keys", 20, olderTrial,
	}, experiment{
		"controls", "broken servers, each of which an experiment or a test must notice", 1, controlsTrial,
	}, experiment{
		"simulated", "broken servers, each of which bench/sim must notice within -n seconds", 60, simulatedTrial,
	})
}

var (
	errBroken = errors.New("a promise was broken")
	errUsage  = errors.New("usage: lab EXPERIMENT [flags]; lab help lists the experiments")
)

func main() {
	if status, is := runShortened(os.Args[1:]); is {
		os.Exit(status)
	}
	if status, is := failingdisk.Served(os.Args[1:]); is {
		os.Exit(status)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errBroken):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("lab", flag.ContinueOnError)
	flags.SetOutput(stderr)
	cycles := flags.Int("n", 0, "how often to do what the experiment repeats; 0: as it sees fit")
	length := flags.Duration("for", 0, "how long to repeat that, instead of -n times")
	seed := flags.Uint64("seed", rand.Uint64(), "of everything that is drawn")
	only := flags.String("only", "", "the one case to run, of limits, hostile or controls")
	binary := flags.String("kestrel", "", "the server to try; default: built from this repository")
	if args[0] == "help" {
		for _, e := range all() {
			fmt.Fprintf(stdout, "%-10s %s\n", e.name, e.summary)
		}
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return nil
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	chosen := slices.DeleteFunc(all(), func(e experiment) bool {
		return args[0] != "all" && args[0] != e.name
	})
	if len(chosen) == 0 || flags.NArg() > 0 {
		return errUsage
	}
	if *binary != "" { // servers are started in other directories
		abs, err := filepath.Abs(*binary)
		if err != nil {
			return err
		}
		*binary = abs
	}
	if *binary == "" {
		built, remove, err := buildHere(ctx)
		if err != nil {
			return err
		}
		defer remove()
		*binary = built
	}
	var failed error
	for _, e := range chosen {
		if *cycles > 0 {
			e.cycles = *cycles
		}
		t, err := newTrial(e.name, *binary, e.cycles, *seed, stderr)
		if err != nil {
			return err
		}
		t.only, t.length = *only, *length
		failed = errors.Join(failed, try(ctx, e, t, stdout))
	}
	return failed
}

// buildHere builds the server of the repository that the lab is run in.
func buildHere(ctx context.Context) (program string, remove func(), err error) {
	root, err := repository(ctx)
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", dirPattern("build"))
	if err != nil {
		return "", nil, err
	}
	program, err = build(ctx, root, dir, nil)
	return program, func() { os.RemoveAll(dir) }, err
}

// try does one experiment and reports it.
func try(ctx context.Context, e experiment, t *trial, stdout io.Writer) error {
	defer t.finish()
	fmt.Fprintf(t.log, "%s: begins (seed %d; files in %s)\n", e.name, t.seed, t.dir)
	t.stopped = ctx.Err
	running, done := context.WithCancel(ctx)
	go t.reportProgress(running, progressInterval)
	err := e.run(ctx, t)
	done()
	return errors.Join(err, report(stdout, e, t))
}

// report writes what came of a trial.
func report(w io.Writer, e experiment, t *trial) error {
	if why := t.skipReason(); why != "" {
		fmt.Fprintf(w, "%s: NOT DONE HERE: %s\n", e.name, why)
		return nil
	}
	broken := t.violations()
	if len(broken) > 0 {
		fmt.Fprintf(w, "%s: BROKEN (seed %d; files in %s)\n", e.name, t.seed, t.dir)
		for _, b := range broken {
			fmt.Fprintf(w, "  %s\n", b)
		}
		return errBroken
	}
	fmt.Fprintf(w, "%s: %s (seed %d)\n", e.name, t.summary(), t.seed)
	return nil
}
