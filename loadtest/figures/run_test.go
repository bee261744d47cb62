package figures

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// testRun returns a run of one phase, with so many intervals of the given rate and latency.
func testRun(t *testing.T, label string, intervals int, rate, latency int64) *Run {
	t.Helper()
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	p := &Phase{Name: "load", Wall: int64(intervals) * 1e9}
	for i := range intervals {
		jitter := int64(i%3) - 1 // each interval differs a little
		q := latency + jitter*latency/100
		if err := h.RecordValues(q, rate+jitter*rate/100); err != nil {
			t.Fatal(err)
		}
		p.Intervals = append(p.Intervals, Interval{Start: int64(i) * 1e9, Wall: 1e9, Ops: []IntervalOp{
			{"put", rate + jitter*rate/100, Quantiles{q, q, q, q}}}})
	}
	l, err := NewLatency(h)
	if err != nil {
		t.Fatal(err)
	}
	n := h.TotalCount()
	p.Ops = []Op{{Name: "put", Requests: n, Items: n, Rate: float64(n) / float64(intervals),
		Latency: l}}
	p.Delivery = l
	p.Server = &Usage{CPU: n * 2000, Resident: 5 << 20, Peak: 6 << 20, PerOpCPU: 2000, Processor: 1}
	p.Generator = Generator{Threads: 1, ThreadCPU: n * 500, Busy: 0.25}
	return &Run{Format: Format, Label: label, Scenario: "open-loop", Started: time.Unix(1e9, 0).UTC(),
		Options: map[string]string{"rate": "1000"}, Phases: []*Phase{p}}
}

func TestReadWrite(t *testing.T) {
	r := testRun(t, "a", 4, 1000, 50_000)
	dir := t.TempDir()
	names, err := r.SaveFiles(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"run.json", "run-load-put.hgrm", "run-load-delivery.hgrm"} {
		if i >= len(names) || names[i] != filepath.Join(dir, want) {
			t.Fatalf("SaveFiles = %q, want %s", names, want)
		}
	}
	got, err := Read(names[0])
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := json.Marshal(r)
	b, err2 := json.Marshal(got)
	if err1 != nil || err2 != nil || !bytes.Equal(a, b) {
		t.Errorf("Read = %s, want %s", b, a)
	}
	h, err := got.Phases[0].Ops[0].Latency.Decode()
	if err != nil || h.TotalCount() != r.Phases[0].Ops[0].Requests || h.ValueAtQuantile(50) < 49_000 {
		t.Errorf("Decode = %v, %v", h, err)
	}
	for text, want := range map[string]string{
		"":                               "is not the figures of",
		"[]":                             "is not the figures of",
		`{"format":2}`:                   "format 2",
		`{"format":1,"phases":[null]}`:   "empty phase",
		`{"format":1,"phases":"string"}`: "is not the figures of",
	} {
		name := filepath.Join(dir, "bad.json")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Read of %q = %v, want %q", text, err, want)
		}
	}
	if _, err := Read(filepath.Join(dir, "absent.json")); !os.IsNotExist(err) {
		t.Errorf("Read of no file = %v", err)
	}
}

// FuzzRead checks that no file makes Read, and what uses a run, crash.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"format":1,"label":"a","phases":[{"name":"x","wall_ns":5,"ops":[{"name":"put",` +
		`"requests":3,"latency":{"count":3,"histogram":"AAAA"}}],"intervals":[{"wall_ns":0}]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		name := filepath.Join(t.TempDir(), "r.json")
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := Read(name)
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := r.WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		other := *r
		other.Label += "x"
		if err := Compare(&out, []*Run{r, &other}); err != nil {
			t.Fatal(err)
		}
		for _, p := range r.Phases {
			for _, l := range p.Latencies() {
				l.Decode() // may fail, must not crash
			}
		}
	})
}

// TestReadEndless reads what never ends, and what is cut off.
func TestReadEndless(t *testing.T) {
	cut := filepath.Join(t.TempDir(), "cut.json")
	if err := os.WriteFile(cut, []byte(`{"format":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"/dev/zero", "/dev/null", cut} {
		if r, err := Read(file); err == nil || !strings.HasPrefix(err.Error(), file+" is not the figures of a load test: ") {
			t.Errorf("Read(%s) = %v, %v", file, r, err)
		}
	}
}

// TestPercentileFile checks the text that the plotters read: a head, rows of four columns that rise
// to percentile 1, and three closing lines.
func TestPercentileFile(t *testing.T) {
	var b strings.Builder
	if err := testRun(t, "a", 4, 1000,
		50_000).Phases[0].Ops[0].Latency.WritePercentiles(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if head := strings.Fields(lines[0]); strings.Join(head,
		" ") != "Value Percentile TotalCount 1/(1-Percentile)" {
		t.Errorf("head %q", lines[0])
	}
	rows := 0
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "#[") {
			continue
		}
		rows++
		if n := len(strings.Fields(line)); n != 4 {
			t.Errorf("row %q has %d columns", line, n)
		}
	}
	if rows < 4 || !strings.HasPrefix(lines[len(lines)-1], "#[Buckets") ||
		!strings.Contains(b.String(), " 50.") && !strings.Contains(b.String(), " 49.") {
		t.Errorf("%d rows in\n%s\nwant values around 50 µs", rows, b.String())
	}
}

// TestLog checks an interval log line by line, and that a reader finds the histograms again.
func TestLog(t *testing.T) {
	start := time.UnixMilli(1_700_000_000_500)
	var b bytes.Buffer
	l, err := NewLog(&b, start, "kestrel load put-many")
	if err != nil {
		t.Fatal(err)
	}
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for _, err := range []error{
		h.RecordValue(2_000_000),
		l.Interval("cycle 1", "put", start, time.Second, h),
		l.Interval("cycle 1", "get", start, time.Second, nil),
		l.Interval("cycle 1", "put", start.Add(time.Second), 500*time.Millisecond, h),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	want := []string{
		"#[kestrel load put-many; values in nanoseconds]",
		"#[Histogram log format version 1.3]",
		"#[StartTime: 1700000000 (seconds since epoch), 2023-11-14T22:13:20Z]",
		"#[BaseTime: 1700000000 (seconds since epoch)]",
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`,
		"Tag=cycle-1-put,0.500000,1.000000,2.000",
		"Tag=cycle-1-put,1.500000,0.500000,2.000",
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), b.String())
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d = %q, want %q", i, line, want[i])
		}
	}
	payload := lines[5][strings.LastIndexByte(lines[5], ',')+1:]
	if raw, err := base64.StdEncoding.DecodeString(payload); err != nil || raw[0] != 0x1c ||
		raw[1] != 0x84 {
		t.Errorf("payload %q is not the compressed V2 encoding: %v", payload, err)
	}
	reader := hdrhistogram.NewHistogramLogReader(&b)
	for n := range 2 {
		got, err := reader.NextIntervalHistogram()
		if err != nil || got == nil || got.TotalCount() != 1 || got.Tag() != "cycle-1-put" {
			t.Fatalf("histogram %d = %v, %v", n, got, err)
		}
	}
}

func TestWriteTable(t *testing.T) {
	r := testRun(t, "a", 4, 100_000, 50_000)
	r.Notes = []string{"the generator was busy"}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"phase request count rate/s p50 p90 p99 p99.9 p99.99 max",
		"load put 399,000 99,750 50.0µs 50.5µs",
		"delivery 399,000 99,750 50.0µs 50.5µs",
		"load: generator 500ns CPU per request, busy 25 %; server 2.00µs CPU per request, busy 20 %, " +
			"5.0 MiB resident",
		"note: the generator was busy",
	} {
		if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
			t.Errorf("table:\n%s\nwant %q in it", b.String(), want)
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567",
		-1234: "-1,234", -123: "-123"} {
		if got := Thousands(n); got != want {
			t.Errorf("Thousands(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	for ns, want := range map[int64]string{0: "0ns", 999: "999ns", 1000: "1.00µs", 12_345: "12.3µs",
		123_456_789: "123ms", 2_500_000_000: "2.50s"} {
		if got := Duration(ns); got != want {
			t.Errorf("Duration(%d) = %s, want %s", ns, got, want)
		}
	}
}

func TestCPUModel(t *testing.T) {
	if got := cpuModel("processor\t: 0\nmodel name\t: Some CPU @ 2GHz\n"); got != "Some CPU @ 2GHz" {
		t.Errorf("cpuModel = %q", got)
	}
	m := Machine{CPU: "Some(R) CPU @ 2GHz", Cores: 2, Kernel: "6.1", MemoryBytes: 3 << 30}
	if got := m.FileName(); got != "some-r-cpu-2ghz-2cpu" {
		t.Errorf("FileName = %q", got)
	}
	if got := m.String(); got != "Some(R) CPU @ 2GHz, 2 processors, 3.00 GiB, Linux 6.1" {
		t.Errorf("String = %q", got)
	}
	if m := ThisMachine(); m.Cores < 1 || m.MemoryBytes < 1<<20 || m.Kernel == unknown {
		t.Errorf("ThisMachine = %+v", m)
	}
}
