package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/bench/peer/peertest"
)

// TestRun measures memcached for a moment, from the command line to the report.
func TestRun(t *testing.T) {
	peertest.Installed(t, "memcached")
	peertest.TwoProcessors(t)
	args := "-servers memcached -cases 64B.c=16.P=32 -rounds 1 -window 5ms -dir " + t.TempDir()
	var stdout, stderr strings.Builder
	if err := run(context.Background(), strings.Fields(args), &stdout, &stderr); err != nil {
		t.Fatalf("run = %v; progress:\n%s", err, stderr.String())
	}
	for _, want := range []string{
		`- memcached: memcached \d.*; .memcached -R 1000 .* -p PORT`,
		`\| SET 64B c=16 P=32 \| memcached \| [0-9.]+ \| 1 \| [0-9.]+ \| 1 \|( [0-9.]+ \|){2} 1 \|( [0-9.]+ \|){3} – \| [0-9.]+ \|\n`,
		`\| GET 64B c=16 P=32 \| memcached \| [0-9.]+ \| 1 \| [0-9.]+ \| 1 \|( [0-9.]+ \|){2} 1 \|( [0-9.]+ \|){3} – \| [0-9.]+ \|\n`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout.String()) {
			t.Errorf("report:\n%s\nwant a match of %s", stdout.String(), want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := run(ctx, strings.Fields(args), &stdout, &stderr); err == nil {
		t.Error("run with a context that is done: no error")
	}
}

// TestRunDelivers measures deliveries on whatever queue servers are there.
func TestRunDelivers(t *testing.T) {
	peertest.TwoProcessors(t)
	names := peertest.Installed(t, "redis-everysec", "beanstalkd")
	args := "-servers " + strings.Join(names, ",") + " -cases (FLOOD|CHURN).64B.c=16.P=1 -rounds 1" +
		" -window 5ms -dir " + t.TempDir()
	var stdout, stderr strings.Builder
	if err := run(context.Background(), strings.Fields(args), &stdout, &stderr); err != nil {
		t.Fatalf("run = %v; progress:\n%s", err, stderr.String())
	}
	for _, name := range names {
		row := regexp.MustCompile(`\| ` + name + ` \| [0-9.]+ \| [^–]+ \| – \| [0-9.]+ \|`)
		if n := len(row.FindAllString(stdout.String(), -1)); n < 2 {
			t.Errorf("report:\n%s\nwant rows with figures of %s", stdout.String(), name)
		}
	}
}
