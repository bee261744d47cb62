package backupcmd

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }

// itemSize is the size of the items of the tests, in bytes.
const itemSize = 16 << 10

func body(n int64) string {
	text := fmt.Sprintf("%d ", n)
	return text + strings.Repeat("x", itemSize-len(text))
}

func number(t *testing.T, item string) int64 {
	t.Helper()
	text, _, _ := strings.Cut(item, " ")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || item != body(n) {
		t.Fatalf("an item is %.40q, and was never put", item)
	}
	return n
}

// load puts the numbers from 0 on to a queue, and takes them.
type load struct {
	t           *testing.T
	p           *clitest.Process
	sent, acked atomic.Int64 // puts: the next numbers
	asked, took atomic.Int64 // gets
	stop        chan struct{}
	work        sync.WaitGroup
}

func startLoad(t *testing.T, p *clitest.Process, first int64) *load {
	l := &load{t: t, p: p, stop: make(chan struct{})}
	producer, consumer := p.Dial(), p.Dial()
	for l.acked.Load() < first {
		l.put(producer)
	}
	l.work.Go(func() {
		for !l.ended() {
			l.put(producer)
		}
	})
	l.work.Go(func() {
		for n := int64(0); !l.ended() && n < l.acked.Load()-first/2; n++ {
			l.asked.Store(n + 1)
			consumer.Ask("get q\n", fmt.Sprintf("VALUE q 0 %d\n%s\nEND\n", itemSize, body(n)))
			l.took.Store(n + 1)
		}
	})
	t.Cleanup(l.end)
	return l
}

func (l *load) put(c *clitest.Client) {
	n := l.sent.Add(1) - 1
	c.Ask(fmt.Sprintf("set q 0 0 %d\n%s\n", itemSize, body(n)), "STORED\n")
	l.acked.Store(n + 1)
}

func (l *load) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (l *load) end() {
	if !l.ended() {
		close(l.stop)
	}
	l.work.Wait()
}

// checkRestored tests that a restored directory has the numbers of some moment between two. These are the numbers that
// had been acknowledged and not taken, in order and without gaps.
func checkRestored(t *testing.T, data string, acked, sent, took, asked int64) {
	t.Helper()
	s := clitest.SnapshotOf(t, data)
	defer s.Close()
	var all []int64
	if err := s.Each("q", func(it engine.Item) bool {
		all = append(all, number(t, string(it.Data)))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for i, n := range all {
		if n != all[0]+int64(i) {
			t.Fatalf("behind number %d comes %d", all[i-1], n)
		}
	}
	first, next := all[0], all[len(all)-1]+1
	if first < took || first > asked {
		t.Errorf("restored from number %d on; %d were taken before, and %d at the end", first, took, asked)
	}
	if next < acked || next > sent {
		t.Errorf("restored up to number %d; %d were acknowledged before, and %d sent at the end", next, acked, sent)
	}
}

// TestEndToEndBackup backs up a server under load, kills the backup by kill -9 in the middle, tries again, and goes on
// from an earlier backup. Each restored directory has every item of its moment, and a server serves it.
func TestEndToEndBackup(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	p := clitest.Serve(t, "--data-dir", in("data"), "--admin-port", "auto",
		"--config", clitest.WriteConfig(t, "[default]\nmax_memory_size = \"1MiB\"\nsync_journal = \"never\"\n"))
	addr := p.Saw("admin port is open")["address"].(string)
	l := startLoad(t, p, 1500)

	killed := clitest.Command(t, "backup", "--admin", addr, "--output", in("backup"))
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until something has come
		if came, _ := filepath.Glob(in("backup/*/*")); len(came) > 0 {
			break
		}
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.Wait()
	if _, err := os.Stat(in("backup/MANIFEST")); err == nil {
		t.Log("the first backup came to its end before it was killed")
	} else if code, _, errs := clitest.RunToEnd(t, "restore", in("backup"), "--data-dir", in("never")); code != cli.ExitFailed {
		t.Errorf("restore of half a backup = %d: %s", code, errs)
	} else {
		clitest.WantText(t, errs, "no MANIFEST")
	}
	for round := range 3 {
		acked, took := l.acked.Load(), l.took.Load()
		code, out, errs := clitest.RunToEnd(t, "backup", "--admin", addr, "--output", in("backup"))
		if code != cli.ExitOK {
			t.Fatalf("backup = %d: %s", code, errs)
		}
		t.Log(strings.TrimSpace(out))
		sent, asked := l.sent.Load(), l.asked.Load()
		data := in(fmt.Sprint("restored", round))
		if code, _, errs := clitest.RunToEnd(t, "restore", in("backup"), "--data-dir", data); code != cli.ExitOK {
			t.Fatalf("restore = %d: %s", code, errs)
		}
		checkRestored(t, data, acked, sent, took, asked)
	}
	if code, out, errs := clitest.RunToEnd(t, "restore", in("backup"), "--check"); code != cli.ExitOK {
		t.Errorf("restore --check = %d: %s", code, errs)
	} else {
		clitest.WantText(t, out, "sound: ")
	}
	code, archive, errs := clitest.RunToEnd(t, "backup", "--admin", addr, "--output", "-", "--full-speed")
	if code != cli.ExitOK {
		t.Fatalf("backup to standard output = %d: %s", code, errs)
	}
	if err := os.WriteFile(in("archive"), []byte(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	l.end()
	restored := clitest.Command(t, "restore", in("archive"), "--data-dir", in("server"))
	if out, err := restored.CombinedOutput(); err != nil {
		t.Fatalf("restore of an archive: %v: %s", err, out)
	}
	again := clitest.Serve(t, "--data-dir", in("server"))
	c := again.Dial()
	c.Send("get q\n")
	if head := c.Read(1); head != fmt.Sprintf("VALUE q 0 %d\n", itemSize) {
		t.Errorf("a server on what was restored answers %q", head)
	}
}

// TestStopped backs up the files of a server that does not run.
func TestStopped(t *testing.T) {
	root := t.TempDir()
	in := func(name string) string { return filepath.Join(root, name) }
	p := clitest.Serve(t, "--data-dir", in("data"))
	p.Dial().Ask("set q 0 0 5\nhello\n", "STORED\n")
	if code, _, errs := clitest.RunToEnd(t, "backup", "--stopped", "--data-dir", in("data"), "--output", in("backup")); code == cli.ExitOK {
		t.Errorf("a backup of files in use = %d: %s", code, errs)
	}
	p.Signal(os.Interrupt)
	p.ExitCode()
	for _, args := range [][]string{
		{"backup", "--stopped", "--data-dir", in("data"), "--output", in("backup")},
		{"restore", in("backup"), "--data-dir", in("again")},
	} {
		if code, _, errs := clitest.RunToEnd(t, args...); code != cli.ExitOK {
			t.Fatalf("kestrel %q = %d: %s", args, code, errs)
		}
	}
	clitest.Serve(t, "--data-dir", in("again")).Dial().Ask("get q\n", "VALUE q 0 5\nhello\nEND\n")
}

// TestUnfinishedRestore tests that no server starts on what a restore has left.
func TestUnfinishedRestore(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "restoring"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := clitest.RunToEnd(t, clitest.ServeArgs("--data-dir", data)...)
	if code != cli.ExitFailed {
		t.Errorf("serve = %d", code)
	}
	clitest.WantText(t, errs, "was interrupted", "kestrel restore")
}

// TestUsage tests what the commands refuse.
func TestUsage(t *testing.T) {
	for _, tt := range []struct {
		code int
		args string
		want string
	}{
		{cli.ExitUsage, "backup", "where to?"},
		{cli.ExitUsage, "backup --output x --data-dir y", "say --stopped"},
		{cli.ExitUsage, "backup --output x --rate -1", "--rate is a number"},
		{cli.ExitUsage, "backup --output x --rate 1 --full-speed", "choose one"},
		{cli.ExitUsage, "backup --output x --stopped", "which data directory?"},
		{cli.ExitFailed, "backup --output - --admin 127.0.0.1:1", "the admin port 127.0.0.1:1 cannot be asked: dial"},
		{cli.ExitUsage, "backup --output - --admin 1", `--admin: "1" is not HOST:PORT`},
		{cli.ExitUsage, "backup --output - --server 127.0.0.1:1", "use --admin HOST:PORT"},
		{cli.ExitFailed, "backup --output x --stopped --data-dir y", "no journal in y"},
		{cli.ExitUsage, "restore", "which backup?"},
		{cli.ExitUsage, "restore x", "where to?"},
		{cli.ExitUsage, "restore x --check --data-dir y", "needs no --data-dir"},
		{cli.ExitFailed, "restore missing --data-dir y", "no such file"},
	} {
		code, _, errs := clitest.RunToEnd(t, strings.Fields(tt.args)...)
		if code != tt.code {
			t.Errorf("kestrel %s = %d, want %d: %s", tt.args, code, tt.code, errs)
		}
		clitest.WantText(t, errs, tt.want)
	}
}

// TestSpeed tests that a backup of next to nothing says nothing of its speed.
func TestSpeed(t *testing.T) {
	for _, tt := range []struct {
		bytes int64
		took  time.Duration
		want  string
	}{{0, time.Second, ""}, {1 << 20, time.Millisecond, ""}, {3e9, 10 * time.Second, " (300 MB/s)"}} {
		if got := speed(tt.bytes, tt.took); got != tt.want {
			t.Errorf("%d bytes in %v: %q, want %q", tt.bytes, tt.took, got, tt.want)
		}
	}
}
