package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/bench/peer/peertest"
	"github.com/kestrelmq/kestrel/loadtest/spawn"
)

func TestByteSize(t *testing.T) {
	for _, tt := range []struct {
		text string
		size int64
		back string
	}{
		{"10GiB", 10 << 30, "10GiB"}, {"1536MiB", 1536 << 20, "1536MiB"}, {"1024MiB", 1 << 30, "1GiB"},
		{"2048GiB", 2 << 40, "2048GiB"}, {"1025", 1025, "1025"}, {"0", 0, "0"},
	} {
		var b byteSize
		if err := b.Set(tt.text); err != nil || int64(b) != tt.size || b.String() != tt.back {
			t.Errorf("%s is %d, %v, %v, want %d, %s", tt.text, b, b, err, tt.size, tt.back)
		}
	}
	for _, text := range []string{"", "x", "1 GiB", "-1MiB", "1.5GiB", "9999999999999GiB", "1GB"} {
		var b byteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is a size of %v, want an error", text, b)
		}
	}
}

func TestParseOptions(t *testing.T) {
	o, err := parseOptions([]string{"-size", "10GiB"}, io.Discard)
	if err != nil || o.items() != 10<<20 {
		t.Errorf("-size 10GiB: %d items, %v", o.items(), err)
	}
	for _, tt := range []struct{ args, want string }{
		{"-size 1MiB", "-size 1MiB"},
		{"-size lots", "want a size"},
		{"-size 64MiB", "is no backlog beside -memory 128MiB"},
		{"-rounds 0", "-rounds 0"},
		{"-rate 0", "-rate 0"},
		{"-alone 0s", "-alone 0s"},
		{"-load-cpu 0", "are the same"},
		{"-servers redis", `unknown server "redis"`},
		{"-servers memcached", "memcached keeps no backlog"},
		{"-servers kestrel,nsqd", "nsqd keeps no backlog"},
		{"-servers redis-memory", "redis-memory keeps no backlog"},
		{"extra", "unexpected argument"},
	} {
		_, err := parseOptions(strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("parseOptions(%s) = %v, want %q", tt.args, err, tt.want)
		}
	}
}

// TestRoom checks that a backlog is refused before anything is started, when there is no room.
func TestRoom(t *testing.T) {
	o, err := parseOptions([]string{"-size", "1024GiB", "-dir", t.TempDir()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o.size = 1 << 55
	if err := o.room(); err == nil || !strings.Contains(err.Error(), "choose a smaller -size") {
		t.Errorf("room for %v: %v, want that there is none", o.size, err)
	}
	o.size = 16 << 20
	o.setup.Dir = filepath.Join(o.setup.Dir, "none")
	if err := o.room(); err == nil || !strings.Contains(err.Error(), "-dir") {
		t.Errorf("room in %s: %v, want that there is none", o.setup.Dir, err)
	}
}

// TestTouch checks that memory is used, and given back.
func TestTouch(t *testing.T) {
	const size = 96 << 20
	if err := spawn.ResetPeak(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	before, err1 := spawn.Resident(os.Getpid())
	if err := touch(size); err != nil {
		t.Fatal(err)
	}
	after, err2 := spawn.Resident(os.Getpid())
	peak, err3 := spawn.Peak(os.Getpid())
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	used := int64(size) * 9 / 10 // the kernel counts with a little delay
	if peak < before+used || after > peak-used {
		t.Errorf("resident are %d before, %d at the peak and %d after, want %d more at the peak",
			before, peak, after, used)
	}
}

// testLeg returns what a thousand items took, of which each get took so many µs.
func testLeg(wall, cpu time.Duration, latency int64, peak int64) leg {
	h := hdrhistogram.New(1, 1e9, 3)
	h.RecordValue(latency * 1000)
	return leg{items: 1000, wall: wall, cpu: cpu, generator: time.Millisecond, latency: h,
		peak: peak << 20}
}

// testTable returns a table of two rounds, in which the server in read-behind is by the given
// factor slower, and its neighbour waits longer.
func testTable(factor int64) *table {
	o := &options{size: 1 << 30, memory: 128 << 20, rounds: 2, rate: 1000}
	t := newTable(o, nil)
	own, _ := peer.Find("kestrel")
	own.Program = "true" // is asked for its version
	for _, r := range []struct {
		name string
		kind kind
	}{{rowCycles, cycles}, {rowBehind, whole}, {rowKilled, outage}, {rowNeighbour, neighbour}} {
		t.rows = append(t.rows, row{name: r.name, kind: r.kind, server: own})
		slower := time.Duration(1)
		if r.kind != cycles {
			slower = time.Duration(factor)
		}
		s := &sample{
			put:  testLeg(10*time.Millisecond*slower, time.Millisecond, 50, 60*int64(slower)),
			get:  testLeg(5*time.Millisecond*slower, time.Millisecond, 100*int64(slower), 70),
			disk: 3 << 20,
		}
		if r.kind == outage {
			s.first, s.lost = 100*time.Millisecond*slower, factor-1
		}
		if r.kind == neighbour {
			for k := range s.beside {
				s.beside[k].latency = testLeg(0, 0, 100, 0).latency
				s.quiet[k].latency = s.beside[k].latency
				if spanKind(k) != quiet {
					s.beside[k].latency = testLeg(0, 0, 100*factor, 0).latency
				}
			}
		}
		t.samples[r.name] = []*sample{s, s}
	}
	return t
}

// TestGoals checks every verdict, on the right side of its bound and on the wrong one.
func TestGoals(t *testing.T) {
	for _, tt := range []struct {
		factor int64
		want   string
	}{{1, "| yes |"}, {4, "| **NO** |"}} {
		var b strings.Builder
		testTable(tt.factor).writeGoals(&b)
		rows := strings.Split(strings.TrimSpace(b.String()), "\n")[4:]
		if len(rows) != 10 {
			t.Errorf("%d goals:\n%s\nwant 10", len(rows), b.String())
		}
		for _, row := range rows {
			if !strings.HasSuffix(row, tt.want) {
				t.Errorf("by a factor of %d: %s, want %s", tt.factor, row, tt.want)
			}
		}
	}
	failed := testTable(1)
	failed.samples[rowKilled][1] = nil
	var b strings.Builder
	failed.writeGoals(&b)
	if n := strings.Count(b.String(), "| **NO**, a round failed |"); n != 3 {
		t.Errorf("%d goals say that a round failed, want 3:\n%s", n, b.String())
	}
}

func TestReport(t *testing.T) {
	text := testTable(2).report()
	for _, want := range []string{
		"| in memory, a little at a time | 100 (100–100) | 1 | 1.00 (1.00–1.00) | 200 (200–200) | 1 |",
		"| read-behind, killed | 50.0 (50.0–50.0) | 0.500 (0.500–0.500) |",
		" | 200 (200–200) | – | 1.00 (1.00–1.00) | 2.00 (2.00–2.00) |\n",
		"| drains | 200 (200–200) | 200 (200–200) | 2.00 (2.00–2.00) | 200 (200–200) | – |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("report:\n%s\nwant %q in it", text, want)
		}
	}
}

func TestLeft(t *testing.T) {
	if got := left(0, 0, 8); got != "" {
		t.Errorf("before the first measurement it says %q", got)
	}
	if got, want := left(90*time.Second, 3, 8), ", 2m30s left"; got != want {
		t.Errorf("after 3 of 8 in 90s it says %q, want %q", got, want)
	}
}

func TestSave(t *testing.T) {
	table := testTable(1)
	dir := filepath.Join(t.TempDir(), "results")
	for _, suffix := range []string{"-backlog.md", "-backlog-peers.md"} {
		name, err := table.save(dir, suffix)
		if text, readErr := os.ReadFile(name); err != nil || readErr != nil || string(text) != suffix ||
			!strings.HasSuffix(name, suffix) {
			t.Errorf("save = %s, %v; it holds %q, %v", name, err, text, readErr)
		}
		table.o.peers = true
	}
}

// TestRunPeers takes small backlogs through the kill of whatever servers are there.
func TestRunPeers(t *testing.T) {
	peertest.TwoProcessors(t)
	names := peertest.Installed(t, "redis-everysec", "beanstalkd")
	args := []string{"-peers", "-servers", strings.Join(names, ","), "-size", "4MiB", "-rounds", "1",
		"-dir", t.TempDir()}
	var stdout, stderr strings.Builder
	if err := run(context.Background(), args, &stdout, &stderr); err != nil {
		t.Fatalf("run = %v; progress:\n%s", err, stderr.String())
	}
	for _, name := range names {
		_, row, _ := strings.Cut(stdout.String(), "\n| "+name+" | ")
		row, _, _ = strings.Cut(row, "\n")
		if row == "" || strings.Contains(row, "–") {
			t.Errorf("report:\n%s\nwant a row of figures of %s", stdout.String(), name)
		}
	}
}

// TestEndToEndRunOwn measures kestrel with a queue that keeps 1 MiB in memory.
func TestEndToEndRunOwn(t *testing.T) {
	peertest.TwoProcessors(t)
	args := []string{"-kestrel", peertest.Build(t), "-size", "4MiB", "-memory", "1MiB", "-rounds", "1",
		"-alone", "100ms", "-dir", t.TempDir()}
	var stdout, stderr strings.Builder
	if err := run(context.Background(), args, &stdout, &stderr); err != nil {
		t.Fatalf("run = %v; progress:\n%s", err, stderr.String())
	}
	if n := strings.Count(stdout.String(), "round failed"); n != 0 {
		t.Errorf("report:\n%s\n%d goals have no figure", stdout.String(), n)
	}
}

// TestProgress wants nothing of what a row does not measure: backups have no gets.
func TestProgress(t *testing.T) {
	moved := leg{items: 5000, wall: time.Second, peak: 3 << 20}
	copied := backups{bytes: 200e6, wall: time.Second}
	for _, tt := range []struct {
		s    sample
		want string
	}{
		{sample{put: moved, get: moved}, "put 5 k/s  get 5 k/s  3 MiB"},
		{sample{put: moved, backups: [numBackupKinds]backups{unhindered: copied}}, "put 5 k/s  3 MiB  backup 200 MB/s"},
		{sample{}, ""},
	} {
		if got := tt.s.progress(); got != tt.want {
			t.Errorf("progress = %q, want %q", got, tt.want)
		}
	}
}
