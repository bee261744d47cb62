// Backlog measures what a consumer outage costs: a queue that grows far beyond memory, the kill of
// its server, and the way back.
//
//	make bench-backlog                                 kestrel alone, beside its goals
//	make bench-backlog ARGS="-size 10GiB"              the same of a backlog of 10 GiB
//	make bench-backlog ARGS="-peers"                   beside other servers
//	make bench-backlog ARGS="-size 256MiB -rounds 1"   a quick look
//	make bench-backup                                  kestrel backup, and a neighbour beside it
//
// The report goes to standard output as markdown, and with -results to a file; progress goes to
// standard error. The status is 1 if any measurement failed, and after an interrupt.
//
// # Method
//
// Items of 1 KiB are put and got over 4 connections with 32 requests in flight each. All of them are known one by one:
// each must come back once, whole, in the order of its producer. At the end nothing else may be there. One core is the
// server's, another the generator's. Rounds interleave what is compared, A B C A B C, each in a server of its own on an
// empty directory. A ratio is the median of the rounds' own ratios.
//
// An outage is a fill, a SIGKILL right behind its last reply, and a start on what the disk has. It ends with the first
// item, whose time counts from that start, and a drain. What was acknowledged and does not come is counted, not
// forgiven.
//
// Kestrel's own goals compare a server in read-behind with two that are not. One fills a queue with a little and drains
// it, again and again, so that it reuses memory and files. The other may keep a backlog of this size in memory.
//
// A neighbour is a process of its own, to which the load gives way. It puts at a steady rate to another queue while the
// backlog grows or shrinks as fast as the server can. Its latency counts from when a put was due.
//
// A backup runs as the command that users run, on the generator's processor, and writes to the same disk. Its
// speed is by the clock, from its start to its end. A missed goal of backups makes the status 1 as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

// generators is how many load generators run at a time in this process, on one processor.
const generators = 1

func main() {
	if len(os.Args) > 1 && os.Args[1] == putterArg {
		if err := runPutter(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Servers are started from this thread: they inherit its processor, and die with it.
	runtime.LockOSThread()
	runtime.GOMAXPROCS(generators + 2) // what waits for them runs too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
		syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "backlog:", err)
		os.Exit(1)
	}
}

// run measures what the arguments select and prints the report, also if some of it failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if err := o.room(); err != nil {
		return err
	}
	if o.peers && o.setup.Install != "" {
		if err := peer.Install(ctx, o.setup.Install, strings.Split(o.servers, ","), stderr); err != nil {
			return err
		}
	}
	rows, err := o.rows()
	if err != nil {
		return err
	}
	if err := spawn.PinSelf([]int{o.loadCPU}); err != nil {
		return err
	}
	t := newTable(o, rows)
	measureErr := t.measure(ctx, stderr)
	if o.backup {
		measureErr = errors.Join(measureErr, t.missed())
	}
	report := t.report()
	if _, err := io.WriteString(stdout, report); err != nil {
		return errors.Join(measureErr, err)
	}
	if o.results == "" {
		return measureErr
	}
	name, err := t.save(o.results, report)
	if err == nil {
		fmt.Fprintln(stderr, "backlog: wrote", name)
	}
	return errors.Join(measureErr, err)
}

// rows returns what is to be measured.
func (o *options) rows() ([]row, error) {
	switch {
	case o.backup:
		return o.backupRows()
	case !o.peers:
		return o.ownRows()
	}
	var rows []row
	for name := range strings.SplitSeq(o.servers, ",") {
		s, _ := peer.Find(name) // parseOptions has looked
		s, err := o.setup.Locate(s)
		if err != nil {
			return nil, err
		}
		r := row{name: name, server: s, setup: &o.setup, kind: outage, touch: used(o.size)}
		if strings.HasPrefix(name, "kestrel") {
			r.touch = used(o.memory) // it keeps the rest on disk
		}
		rows = append(rows, r)
	}
	return rows, nil
}
