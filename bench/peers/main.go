// Peers measures servers side by side, under the same load: processor time per operation, rate, latency and memory. The
// server has one core, and the load generator has the others.
//
//	make bench-peers                            everything, from what must be installed to the report
//	go run ./bench/peers                        every case, 5 rounds, of the servers that are there
//	go run ./bench/peers -short                 a quick look
//	go run ./bench/peers -cases 'SET 64B c=16' -rounds 9
//
// The report goes to standard output as markdown, and with -results to a file; progress goes to
// standard error. The status is 1 if any measurement failed, and after an interrupt; the servers it
// started are gone in every case.
//
// # Method
//
// Rounds interleave the servers, A B C A B C, so that a slow minute of the machine hits all of
// them. Each round is compared with the reference of that same round, and the ratio reported is the
// median of those ratios. Every measurement starts a fresh server on an empty directory, and warms
// it up on the connections that are then measured. It reads the server's CPU clock at two moments
// at which no request is outstanding. Gets first fill the queue, outside the window, with as many
// items as they will take; memcached keeps one item and hits it each time. Servers that push, or
// hand out several items at a time (nats, nsqd), are asked for as many as the pipeline is deep.
//
// Cases that deliver run producers and consumers at once, check every item, and report how old
// items were when their consumer had them.
//
// Without pipelining the generator does the same system calls as the server. A server that is as
// cheap as the generator is then no longer kept busy, and pays for going to sleep. The columns busy
// and generator show when that is so; more -load-cpus help. With pipelining, memcached answers each get in a system
// call of its own. memcached-meta, which asks by another command, shows what gathering them saves it.
//
// CPU time is the server's user and system time over all its threads. Work that the kernel does on
// its own account, such as writing back dirty pages, is in nobody's column.
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
	"time"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

func main() {
	// Servers are started from this thread: they inherit its processor, and die with it.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM,
		syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// run measures what the arguments select and prints the report, also if some of it failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	opts, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if opts.setup.Install != "" {
		if err := peer.Install(ctx, opts.setup.Install, opts.names(), stderr); err != nil {
			return err
		}
	}
	servers := opts.installed(stderr)
	plan := opts.plan(servers)
	if len(plan) == 0 {
		return errors.New("no case has a server to run it")
	}
	if err := spawn.PinSelf(opts.loadCPUs); err != nil {
		return err
	}
	todo := newSchedule(opts, plan)
	fmt.Fprintf(stderr, "peers: %d measurements, some %v in all\n", todo.count,
		todo.left().Round(time.Second))
	h := newHeader(opts, used(servers, plan))
	results, err := measureAll(ctx, opts, plan, todo, stderr)
	var report strings.Builder
	if writeErr := writeReport(&report, h, plan, results); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if _, writeErr := io.WriteString(stdout, report.String()); writeErr != nil {
		return errors.Join(err, writeErr)
	}
	if opts.results != "" {
		return errors.Join(err, h.save(opts.results, report.String(), stderr))
	}
	return err
}
