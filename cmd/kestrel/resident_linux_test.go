//go:build !race

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndResident puts far more than a queue keeps in memory, and fetches it, with backlogs that are read
// in either way. At no time does the server have more resident than the queue's memory and 64 MiB, pages
// of mapped files included.
func TestEndToEndResident(t *testing.T) {
	const memory, beside = 64 << 20, 64 << 20 // bytes
	items := "262144"                         // 256 MiB
	if testing.Short() {
		items = "163840"
	}
	config := clitest.WriteConfig(t, "[default]\nmax_memory_size = \"64MiB\"\n")
	for _, way := range []string{"mmap", "direct"} {
		t.Run(way, func(t *testing.T) {
			p := clitest.Serve(t, "--config", config, "--data-dir", t.TempDir(), "--sync-journal", "never",
				"--backlog-read", way)
			code, _, stderr := clitest.RunToEnd(t, "load", "put-many", "--server", p.Addr, "--get",
				"--clients", "4", "--burst", "32", "--bytes", "1024", "--items", items)
			if code != 0 {
				t.Fatalf("load: status %d: %s", code, stderr)
			}
			peak := peakResident(t, p.Cmd.Process.Pid)
			t.Logf("%d MiB were resident at most", peak>>20)
			if peak > memory+beside {
				t.Errorf("%d MiB were resident, want at most %d", peak>>20, (memory+beside)>>20)
			}
			p.Signal(os.Interrupt)
			p.ExitCode()
		})
	}
}

// peakResident returns the largest resident set that a process has had, in bytes, as the kernel has kept it.
func peakResident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	t.Fatalf("the status of process %d names no VmHWM", pid)
	return 0
}
