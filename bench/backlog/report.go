package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// report prints the header, the goals and the figures.
func (t *table) report() string {
	var b strings.Builder
	t.writeHeader(&b)
	t.writeGoals(&b)
	if t.o.backup {
		t.writeBackups(&b)
		return b.String()
	}
	fmt.Fprintf(&b, "\n## Figures\n\n| | put k/s | ratio | CPU µs/put | get k/s | ratio | CPU µs/get |"+
		" get p99 µs | RSS MiB, puts | RSS MiB, gets | disk MiB | first item ms | CPU ms | lost |"+
		" generator µs |\n|---|%s\n", strings.Repeat("--:|", 14))
	for i, r := range t.rows {
		if r.kind != neighbour {
			t.writeRow(&b, i == 0, r.name)
		}
	}
	if t.has(rowNeighbour) {
		t.writeSpans(&b)
	}
	b.WriteString(legend)
	return b.String()
}

const legend = `
Values are medians over the rounds, with (least–greatest). A ratio is the median of the rounds' own
ratios to the first row. CPU is the server's user and system time. RSS is the highest of its resident
set while items were put and while they were got, as the kernel counts it. disk is what its directory
takes when all is filled. The time to the first item begins with exec after kill -9, and CPU is what the
new process had used by then. generator is the load generator's CPU for a put and a get. Latencies of
gets are of a closed loop with 128 requests in flight.
`

func (t *table) writeHeader(b *strings.Builder) {
	o := t.o
	fmt.Fprintf(b, "# Backlogs, %s\n\n", t.began.Format("2 January 2006 15:04 MST"))
	fmt.Fprintf(b, "- machine: %s; load generator built with %s\n", figures.ThisMachine(),
		runtime.Version())
	fmt.Fprintf(b, "- options: %v of items of %d bytes, max_memory_size %v, %d connections, %d requests"+
		" in flight each, %d rounds, server on processor %d, generator on %d\n", o.size, itemSize,
		o.memory, connections, pipeline, o.rounds, o.serverCPU, o.loadCPU)
	listed := make(map[string]bool)
	for _, r := range t.rows {
		if name := r.server.Name; !listed[name] {
			listed[name] = true
			fmt.Fprintf(b, "- %s: %s; `%s`\n", name, r.server.Version(), o.setup.CommandLine(r.server))
		}
	}
}

// writeRow prints the figures of a row.
func (t *table) writeRow(b *strings.Builder, first bool, name string) {
	cells := []string{name}
	for _, f := range []struct {
		of    func(*sample) float64
		ratio bool
	}{
		{(*sample).putRate, true}, {(*sample).putCPU, false},
		{(*sample).getRate, true}, {(*sample).getCPU, false},
		{(*sample).getP99, false}, {(*sample).putPeak, false}, {(*sample).getPeak, false},
		{(*sample).diskMiB, false}, {(*sample).firstMillis, false}, {(*sample).firstCPUMillis, false},
		{(*sample).lostItems, false},
		{func(s *sample) float64 { return s.putGenerator() + s.getGenerator() }, false},
	} {
		cells = append(cells, figures.Summarize(t.over(name, f.of)).String())
		if f.ratio && first {
			cells = append(cells, "1")
		} else if f.ratio {
			cells = append(cells, figures.Summarize(t.ratios(name, t.rows[0].name, f.of)).String())
		}
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// writeSpans prints how the neighbour fared.
func (t *table) writeSpans(b *strings.Builder) {
	fmt.Fprintf(b, "\n## A neighbour's puts, %v a second\n\nµs from when a put was due. Late is the"+
		" part of it for which the generator itself is to blame.%s\n\n"+
		"| the other queue | p50 | p99 | to quiet | p99.9 | late, p99 |\n|---|%s\n", t.o.rate,
		t.sharing(), strings.Repeat("--:|", 5))
	for k := range numSpans {
		of := func(f func(*span) float64) func(*sample) float64 {
			return func(s *sample) float64 { return f(&s.beside[k]) }
		}
		value := func(f func(*span) float64) string {
			return figures.Summarize(t.over(rowNeighbour, of(f))).String()
		}
		ratio := "1"
		if k != quiet {
			ratio = figures.Summarize(t.toQuiet(k)).String()
		}
		fmt.Fprintf(b, "| %v | %s | %s | %s | %s | %s |\n", k, value((*span).p50), value((*span).p99),
			ratio, value((*span).p999), value((*span).lag99))
	}
}

// sharing says so if the neighbour waited for the load's generator, which takes a right to priority to
// avoid.
func (t *table) sharing() string {
	for _, r := range t.rows {
		for _, s := range t.samples[r.name] {
			if s != nil && s.shared() {
				return " **The neighbour had no priority over the load, and waited for its generator too.**"
			}
		}
	}
	return ""
}

// toQuiet returns the p99 of the neighbour in a span over that in the quiet between its steps, by
// round.
func (t *table) toQuiet(k spanKind) []float64 {
	return t.over(rowNeighbour, func(s *sample) float64 {
		return s.beside[k].p99() / s.quiet[k].p99()
	})
}

// has reports whether a row is measured.
func (t *table) has(name string) bool {
	for _, r := range t.rows {
		if r.name == name {
			return true
		}
	}
	return false
}

// over applies f to a row's sample of each round; a failed round is not a number.
func (t *table) over(name string, f func(*sample) float64) []float64 {
	values := make([]float64, len(t.samples[name]))
	for i, s := range t.samples[name] {
		values[i] = math.NaN()
		if s != nil {
			values[i] = f(s)
		}
	}
	return values
}

func (t *table) ratios(name, to string, f func(*sample) float64) []float64 {
	return figures.Ratios(t.over(name, f), t.over(to, f))
}

// quantile returns a percentile in µs of a histogram of nanoseconds.
func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	if h == nil || h.TotalCount() == 0 {
		return math.NaN()
	}
	return float64(h.ValueAtQuantile(percent)) / 1e3
}

// save writes the report to a file of dir, and returns its name.
func (t *table) save(dir, report string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	suffix := "backlog"
	switch {
	case t.o.peers:
		suffix = "backlog-peers"
	case t.o.backup:
		suffix = "backup"
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.md", t.began.Format("2006-01-02"),
		figures.ThisMachine().FileName(), suffix))
	return name, os.WriteFile(name, []byte(report), 0o644)
}
