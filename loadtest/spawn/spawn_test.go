package spawn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script returns options for a server that is a shell script, on one of this process's processors.
func script(t *testing.T, text string) Options {
	t.Helper()
	cpus, err := Processors(0)
	if err != nil || len(cpus) == 0 {
		t.Fatalf("Processors = %v, %v", cpus, err)
	}
	runtime.LockOSThread() // for good: servers live as long as the thread
	return Options{
		Name:    "test",
		Program: "/bin/sh",
		Args:    func(string) ([]string, error) { return []string{"-c", text}, nil },
		Dir:     t.TempDir(),
		CPUs:    cpus[:1],
		Ready:   func() error { return errors.New("not yet") },
	}
}

// TestStartPins starts a server on one processor and itself stays where it was.
func TestStartPins(t *testing.T) {
	o := script(t, "exec sleep 1000")
	o.Ready = func() error { return nil }
	before, err := Processors(0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	if cpus, err := Processors(p.PID); err != nil || len(cpus) != 1 || cpus[0] != o.CPUs[0] {
		t.Errorf("the server is on %v, %v, want %v", cpus, err, o.CPUs)
	}
	if after, err := Processors(0); err != nil || len(after) != len(before) {
		t.Errorf("this thread is on %v, %v, was on %v", after, err, before)
	}
}

func TestPinSelf(t *testing.T) {
	own, err := Processors(0)
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ending sync.WaitGroup
	for range 100 { // a thread ends with a goroutine that has locked it
		ending.Go(runtime.LockOSThread)
		if err := PinSelf(own[:1]); err != nil {
			t.Fatal(err)
		}
	}
	ending.Wait()
	defer PinSelf(own)
	if n := runtime.GOMAXPROCS(0); n != 2 {
		t.Errorf("with one processor GOMAXPROCS is %d, want 2", n)
	}
	if now, err := Processors(0); err != nil || len(now) != 1 || now[0] != own[0] {
		t.Errorf("this process is on %v, %v, want %d", now, err, own[0])
	}
}

func TestStartReportsAServerThatEnds(t *testing.T) {
	o := script(t, "echo cannot bind >&2; exit 3")
	p, err := Start(context.Background(), o)
	if err == nil {
		p.Kill()
		t.Fatal("Start: no error")
	}
	for _, want := range []string{"start test", "exit status 3", "cannot bind"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Start = %v, want %q in it", err, want)
		}
	}
	if left, err := os.ReadDir(o.Dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestStartKillsAServerThatIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Start(ctx, script(t, "exec sleep 1000"))
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("Start = %v, want that there is no answer", err)
	}
}

func TestStartReportsAMissingProgram(t *testing.T) {
	o := script(t, "")
	o.Program = "no/such/program"
	if _, err := Start(context.Background(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Start = %v, want ErrNotExist", err)
	}
}

// TestEnds ends servers in the three ways there are, and checks that nothing is left of them.
func TestEnds(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		end        func(*Process) error
		want       string // in the error
	}{
		{"kill", "exec sleep 1000", (*Process).Kill, ""},
		{"stop", "sleep 1000 & trap 'kill $!; exit 0' TERM; touch up; wait", (*Process).Stop, ""},
		{"stop of one that fails", "sleep 1000 & trap 'kill $!; echo no; exit 4' TERM; touch up; wait",
			(*Process).Stop, "exit status 4; its output:\nno"},
	} {
		o := script(t, tt.text)
		o.Ready = func() error { return nil }
		if tt.name != "kill" { // wait until the trap is set
			up := o.Dir + "/up"
			o.Program, o.Args = "/bin/sh", func(string) ([]string, error) {
				return []string{"-c", strings.ReplaceAll(tt.text, "touch up", "touch "+up)}, nil
			}
			o.Ready = func() error { _, err := os.Stat(up); return err }
		}
		p, err := Start(context.Background(), o)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		err = tt.end(p)
		if tt.want == "" && err != nil || tt.want != "" &&
			(err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s = %v, want %q", tt.name, err, tt.want)
		}
		if err := syscall.Kill(p.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s: signal afterwards = %v, want that there is no process", tt.name, err)
		}
		if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
			t.Errorf("%s: directory afterwards: %v", tt.name, err)
		}
		if err := p.Alive(); err == nil {
			t.Errorf("%s: Alive afterwards: no error", tt.name)
		}
	}
}

func TestUsage(t *testing.T) {
	before, err := CPUTime(os.Getpid())
	if err != nil || before <= 0 {
		t.Fatalf("CPUTime of this process = %v, %v", before, err)
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
	after, err := CPUTime(os.Getpid())
	if err != nil || after-before < 1e6 {
		t.Errorf("CPUTime went from %v to %v, %v, over 1ms of work", before, after, err)
	}
	if n, err := Resident(os.Getpid()); err != nil || n < 1<<20 {
		t.Errorf("Resident of this process = %d, %v", n, err)
	}
	peak, err := Peak(os.Getpid())
	if now, nowErr := Resident(os.Getpid()); errors.Join(err, nowErr) != nil || peak < now/2 {
		t.Errorf("Peak of this process = %d, %v; now it has %d, %v", peak, err, now, nowErr)
	}
	const size = 64 << 20
	block, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		for i := 0; i < size; i += os.Getpagesize() {
			block[i] = 1
		}
		err = unix.Munmap(block)
	}
	if err != nil {
		t.Fatal(err)
	}
	high, err := Peak(os.Getpid())
	if err != nil || high < size {
		t.Errorf("Peak after 64 MiB were used and given back = %d, %v", high, err)
	}
	if err := ResetPeak(os.Getpid()); err != nil {
		t.Errorf("ResetPeak of this process: %v", err)
	}
	if low, err := Peak(os.Getpid()); err != nil || low > high-size/2 {
		t.Errorf("Peak after ResetPeak = %d, %v; before it was %d", low, err, high)
	}
	if _, err := Peak(1 << 30); err == nil {
		t.Error("Peak of no process: no error")
	}
	if _, err := Resident(1 << 30); err == nil {
		t.Error("Resident of no process: no error")
	}
	if _, err := CPUTime(1 << 23); err == nil {
		t.Error("CPUTime of no process: no error")
	}
}

// TestRestart kills a server that has written something, and finds it again with what it wrote.
func TestRestart(t *testing.T) {
	o := script(t, "")
	o.Args = func(dir string) ([]string, error) {
		return []string{"-c", `echo started >> "$0/data"; exec sleep 1000`, dir}, nil
	}
	var dir string
	lines := func() int {
		b, err := os.ReadFile(dir + "/data")
		if err != nil {
			return 0
		}
		return strings.Count(string(b), "started\n")
	}
	o.Ready = func() error {
		dirs, err := filepath.Glob(o.Dir + "/*")
		if err == nil && len(dirs) == 1 {
			if dir = dirs[0]; lines() > 0 {
				return nil
			}
		}
		return errors.New("not yet")
	}
	p, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	first := p.PID
	executed, err := p.Restart()
	if err != nil || executed.IsZero() {
		t.Fatalf("Restart = %v, %v", executed, err)
	}
	if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal to the first process = %v, want that there is none", err)
	}
	if cpus, err := Processors(p.PID); err != nil || len(cpus) != 1 || cpus[0] != o.CPUs[0] {
		t.Errorf("the second process is on %v, %v, want %v", cpus, err, o.CPUs)
	}
	for lines() < 2 {
		if err := p.Alive(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	p.opts.Program = "no/such/program"
	if _, err := p.Restart(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Restart of a missing program = %v, want ErrNotExist", err)
	}
}

func TestDiskUsed(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/sub", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/a", "/sub/b"} {
		f, err := os.Create(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.Write(make([]byte, 64<<10)); err == nil {
			err = f.Sync() // file systems allocate late
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := DiskUsed(dir); err != nil || n < 128<<10 || n > 256<<10 {
		t.Errorf("DiskUsed of two files of 64 KiB = %d, %v", n, err)
	}
	if n, err := DiskUsed(dir + "/none"); n != 0 || err != nil {
		t.Errorf("DiskUsed of nothing = %d, %v", n, err)
	}
}

func TestFreePort(t *testing.T) {
	if port, err := FreePort(); err != nil || port < 1024 {
		t.Errorf("FreePort = %d, %v", port, err)
	}
}
