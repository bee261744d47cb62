package main

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/kestrelmq/kestrel/loadtest"
	"golang.org/x/sys/unix"
)

// testServer returns a server that is a shell script, and options to start it under t's directory
// without moving to another processor.
func testServer(t *testing.T, script string) (*options, server) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("no shell")
	}
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !own.IsSet(cpu) {
		cpu++
	}
	runtime.LockOSThread() // for good: the thread is now bound to one processor
	args := func(*options, server, string, int) ([]string, error) {
		return []string{"-c", script}, nil
	}
	return &options{dir: t.TempDir(), serverCPU: cpu, loadCPUs: []int{cpu}},
		server{name: "test", protocol: loadtest.Memcache, program: "/bin/sh", args: args}
}

func TestStartReportsAServerThatEnds(t *testing.T) {
	o, s := testServer(t, "echo cannot bind >&2; exit 3")
	p, err := start(context.Background(), o, s)
	if err == nil {
		p.stop()
		t.Fatal("start: no error")
	}
	for _, want := range []string{"start test", "exit status 3", "cannot bind"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("start = %v, want %q in it", err, want)
		}
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartKillsAServerThatIsSilent(t *testing.T) {
	o, s := testServer(t, "echo $$ >&2; exec sleep 1000")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := start(ctx, o, s)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "no answer on 127.0.0.1:") {
		t.Errorf("start = %v, want that there is no answer", err)
	}
}

func TestStopKills(t *testing.T) {
	o, s := testServer(t, "exec sleep 1000")
	p := &process{name: s.name, dir: t.TempDir(), exited: make(chan struct{})}
	if err := p.launch(o, s); err != nil {
		t.Fatal(err)
	}
	if err := p.alive(); err != nil {
		t.Errorf("alive after launch = %v", err)
	}
	if err := p.stop(); err != nil {
		t.Errorf("stop = %v", err)
	}
	if err := syscall.Kill(p.pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal after stop = %v, want that there is no process", err)
	}
	if _, err := os.Stat(p.dir); !os.IsNotExist(err) {
		t.Errorf("directory after stop: %v", err)
	}
	if err := p.alive(); err == nil || !strings.Contains(err.Error(), "signal: killed") {
		t.Errorf("alive after stop = %v", err)
	}
}

func TestStartReportsAMissingProgram(t *testing.T) {
	o, s := testServer(t, "")
	s.program = "no/such/program"
	if _, err := start(context.Background(), o, s); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start = %v, want ErrNotExist", err)
	}
}

func TestProcessUsage(t *testing.T) {
	before, err := processCPU(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatalf("processCPU of this process = %v, %v", before, err)
	}
	// The clock must move with the time of this very thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var ts unix.Timespec
	sum := 0
	for begin := int64(0); ; sum++ {
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		if begin == 0 {
			begin = ts.Nano()
		}
		if ts.Nano()-begin > 1e6 {
			break
		}
	}
	after, err := processCPU(os.Getpid())
	if err != nil || after-before < 1e6 {
		t.Errorf("processCPU went from %v to %v, %v, over 1ms of work", before, after, err)
	}
	if n, err := residentMemory(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("residentMemory of this process = %d, %v", n, err)
	}
	if _, err := residentMemory(1 << 30); err == nil {
		t.Error("residentMemory of no process: no error")
	}
	if _, err := processCPU(1 << 23); err == nil {
		t.Error("processCPU of no process: no error")
	}
}
