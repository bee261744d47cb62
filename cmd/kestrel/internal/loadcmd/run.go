package loadcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
	"github.com/kestrelmq/kestrel/netloop"
)

// defaultTimeout bounds scenarios that say no duration.
const defaultTimeout = time.Hour

// dialWait is how long a server that is not there yet is waited for, if a test says so.
var dialWait time.Duration

// run runs a scenario as the flags say, prints what it found, and writes the files.
func (p *loadFlags) run(cmd *cobra.Command, s scenario.Scenario) (err error) {
	if err := p.check(); err != nil {
		return err
	}
	cpus, err := p.processors()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	e := &scenario.Env{
		Server:   p.server,
		Protocol: p.protocol(),
		Control:  p.stats,
		PID:      p.pid,
		ClientID: p.clientID,
		Out:      out,
		Monitor:  p.monitor,
		Interval: p.interval,
		Figures:  p.newFigures(),
		Seed:     p.seed,
		Threads:  p.threads,
		CPUs:     cpus,
		Verify:   !p.noVerify,
		Flush:    p.flush,
		NoFlush:  p.noFlush,
		Timeout:  p.timeoutOf(s),
		DialWait: dialWait,
		Waits: func(why error, most time.Duration) {
			fmt.Fprintf(errs, "kestrel: %v; a server may be starting, so this tries again for %v\n", why, most)
		},
	}
	if !p.flags.Changed("seed") {
		e.Seed = rand.Uint64()
	}
	if p.spawn {
		spawned, err := p.spawnServer(ctx, e)
		if err != nil {
			return cli.Failed("load %s: %s", s.Name(), err)
		}
		defer func() {
			if stopErr := spawned.Stop(); stopErr != nil && err == nil {
				err = cli.Failed("load %s: %s", s.Name(), stopErr)
			}
		}()
	}
	line := newProgressLine(errs, p.quiet)
	if line != nil {
		e.Progress = line.show
	}
	err = p.runRecorded(ctx, e, s)
	if line != nil {
		line.clear()
	}
	if !p.quiet && (err == nil || len(e.Figures.Phases) > 0) {
		if unwritten := e.Figures.WriteTable(out); unwritten != nil {
			err = errors.Join(err, fmt.Errorf("write to standard output: %w", unwritten))
		}
	}
	if err == nil || len(e.Figures.Phases) > 0 {
		err = errors.Join(err, p.save(e.Figures, out))
	}
	if err != nil {
		advice := ""
		switch {
		case len(e.Figures.Phases) > 0:
		case errors.Is(err, io.EOF):
			advice = "; is the port one of the " + e.Protocol.String() + " protocol, and one that does not encrypt?"
		case errors.Is(err, syscall.ECONNREFUSED):
			advice = "; is a server running there? --server says where to look, and --spawn starts one"
		}
		return cli.Failed("load %s: %s (seed %d)%s", s.Name(), err, e.Seed, advice)
	}
	return nil
}

// runRecorded runs the scenario with an interval log, if there are to be files. A run that measures nothing leaves the log
// of before.
func (p *loadFlags) runRecorded(ctx context.Context, e *scenario.Env, s scenario.Scenario) (err error) {
	if p.output == "" {
		return scenario.Run(ctx, e, s)
	}
	unwritten := figures.WriteFile(p.output+".hlog", func(w io.Writer) (bad error) {
		if e.Log, bad = figures.NewLog(w, time.Now(), "kestrel load "+s.Name()); bad != nil {
			return bad
		}
		if err = scenario.Run(ctx, e, s); len(e.Figures.Phases) == 0 {
			return err
		}
		return nil
	})
	return cmp.Or(err, unwritten)
}

// save writes the files of a run, also of one that failed when it had measured something.
func (p *loadFlags) save(r *figures.Run, out io.Writer) error {
	if p.output == "" {
		return nil
	}
	names, err := r.SaveFiles(p.output)
	if err == nil && !p.quiet {
		fmt.Fprintf(out, "wrote %s, %s.hlog and %s\n", names[0], p.output,
			cli.Counted(len(names)-1, "file")+" of percentiles")
	}
	return err
}

// newFigures returns the figures of a run by this program and machine.
func (p *loadFlags) newFigures() *figures.Run {
	return &figures.Run{
		Label:   p.label,
		Options: p.options(),
		Machine: figures.ThisMachine(),
		Versions: figures.Versions{
			Generator: netloop.Version,
			Revision:  cli.Revision(),
			Go:        runtime.Version(),
		},
	}
}

// timeoutOf returns how long a scenario may take.
func (p *loadFlags) timeoutOf(s scenario.Scenario) time.Duration {
	if p.timeout > 0 {
		return p.timeout
	}
	if timed, ok := s.(interface{ Length() time.Duration }); ok {
		return max(defaultTimeout, 2*timed.Length())
	}
	return defaultTimeout
}
