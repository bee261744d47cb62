package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tenantRate   = 500             // requests a second of the quiet account
	tenantTime   = 4 * time.Second // of one measurement
	floodClients = 8
	floodBatch   = 16 // requests that each of them has in flight
)

// tenantQuota is what the account that floods may do.
const tenantQuota = "[accounts.flood]\naccount_operations = 1000\naccount_traffic = \"1 MiB\"\naccount_items = 100_000\n"

// tenants measures what the flood of an account with a quota does to the replies of another account.
func (b *bench) tenants(ctx context.Context) error {
	s, err := b.startKestrel(ctx, tenantQuota)
	if err != nil {
		return err
	}
	defer s.Kill()
	if _, err := b.quiet(s, 1); err != nil { // warms up
		return err
	}
	p50, p99 := make([][]float64, 2), make([][]float64, 2)
	var sent, refused int64
	for round := range b.rounds {
		for which := range 2 {
			flooding := (which+round)%2 == 1 // each is first as often
			end := func() (int64, int64, error) { return 0, 0, nil }
			if flooding {
				if end, err = b.startFlood(ctx, s); err != nil {
					return err
				}
			}
			took, err := b.quiet(s, b.of(int(tenantTime/time.Second*tenantRate)))
			n, over, err2 := end()
			if err != nil {
				return err
			}
			if err2 != nil {
				return fmt.Errorf("flood: %w", err2)
			}
			sent, refused = sent+n, refused+over
			i := 0
			if flooding {
				i = 1
			}
			p50[i], p99[i] = append(p50[i], quantile(took, 0.5)), append(p99[i], quantile(took, 0.99))
			fmt.Fprintf(b.log, "round %d/%d flooding %t: p50 %.0f p99 %.0f µs; the flood sent %d, refused %d\n", round+1, b.rounds, flooding,
				quantile(took, 0.5), quantile(took, 0.99), n, over)
		}
	}
	if refused == 0 {
		return fmt.Errorf("the flood of %d requests never met its quota", sent)
	}
	b.table(fmt.Sprintf("Replies to an account of %d requests a second beside one that floods over %d connections, in µs; %d rounds, %d requests of "+
		"the flood, %d of them refused", tenantRate, floodClients, b.rounds, sent, refused), "", "alone", "beside the flood", "beside to alone")
	factor, text := ratio(p99[1], p99[0])
	fmt.Fprintf(&b.report, "| median | %s | %s | | | |\n", spread(p50[0]), spread(p50[1]))
	b.row(factor, goal{most: 1.1, unit: " ×"}, "p99", spread(p99[0]), spread(p99[1]), text)
	b.endTable()
	return nil
}

// quiet has a client put and delete messages at a steady pace. It returns how long each reply took from when its
// request was due, in µs.
func (b *bench) quiet(s *server, requests int) ([]float64, error) {
	c, err := dial(s.http)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var took []float64
	due := time.Now()
	for i := range requests {
		due = due.Add(time.Second / tenantRate)
		time.Sleep(time.Until(due))
		method, want, body := "PUT", 201, item()
		if i%2 == 1 {
			method, want, body = "DELETE", 204, ""
		}
		status, _, err := c.askHTTP(method, "/v1.0/quiet/jobs/m", body)
		if err != nil || status != want {
			return nil, fmt.Errorf("%s: %d, %v", method, status, err)
		}
		took = append(took, float64(time.Since(due))/1e3)
	}
	if requests%2 == 1 {
		_, _, err = c.askHTTP("DELETE", "/v1.0/quiet/jobs/m", "")
	}
	return took, err
}

// startFlood has an account send as much as the server reads, from a process that leaves the processor of the clients to
// this one. The function that it returns ends that, and says how many requests were sent, and how many were refused.
func (b *bench) startFlood(ctx context.Context, s *server) (end func() (sent, refused int64, err error), err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "chrt", "--idle", "0", own, "-flood", s.http)
	var counts bytes.Buffer
	cmd.Stdout, cmd.Stderr = &counts, b.log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() (sent, refused int64, err error) {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			return 0, 0, err
		}
		_, err = fmt.Sscan(counts.String(), &sent, &refused)
		return sent, refused, err
	}, nil
}

// flood sends requests of account flood to addr until stdin ends, and prints how many were sent and refused.
func flood(addr string, stdin io.Reader, stdout io.Writer) error {
	var over atomic.Bool
	var sent, refused atomic.Int64
	var running sync.WaitGroup
	errs := make([]error, floodClients)
	for i := range floodClients {
		c, err := dial(addr)
		if err != nil {
			return err
		}
		defer c.Close()
		batch := bytes.Repeat(request("PUT", fmt.Sprintf("/v1.0/flood/jobs/%d", i), item()), floodBatch)
		running.Go(func() {
			for !over.Load() && errs[i] == nil {
				_, errs[i] = c.Write(batch)
				for n := 0; n < floodBatch && errs[i] == nil; n++ {
					status, body, err := c.replyHTTP()
					switch errs[i] = err; {
					case err != nil:
					case status == 429:
						refused.Add(1)
					case status != 201 && status != 204:
						errs[i] = fmt.Errorf("reply %d %s", status, body)
					}
					sent.Add(1)
				}
			}
		})
	}
	_, err := io.Copy(io.Discard, stdin)
	over.Store(true)
	running.Wait()
	if err = errors.Join(append(errs, err)...); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, sent.Load(), refused.Load())
	return err
}
