package main

import (
	"context"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRun measures memcached for a moment, from the command line to the report.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("memcached"); err != nil {
		t.Skip("memcached is not installed")
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil || !own.IsSet(0) || !own.IsSet(1) {
		t.Skip("needs processors 0 and 1")
	}
	runtime.LockOSThread() // for good: run binds the thread
	args := "-servers memcached -cases 64B.c=16.P=32 -rounds 1 -window 5ms -dir " + t.TempDir()
	var stdout, stderr strings.Builder
	if err := run(context.Background(), strings.Fields(args), &stdout, &stderr); err != nil {
		t.Fatalf("run = %v; progress:\n%s", err, stderr.String())
	}
	for _, want := range []string{
		`- memcached: memcached \d.*; .memcached -m 1024 .* -p PORT`,
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
