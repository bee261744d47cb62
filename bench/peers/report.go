package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/kestrelmq/kestrel/bench/peer"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// writeReport prints the header, the goals, and a table for each class.
func writeReport(w io.Writer, h header, plan []planned, all results) error {
	var b strings.Builder
	h.write(&b)
	writeGoals(&b, plan, all)
	for class := range peer.NumClasses {
		var rows strings.Builder
		for _, p := range plan {
			if p.class == class {
				writeCase(&rows, p, all[p.String()])
			}
		}
		if rows.Len() > 0 {
			fmt.Fprintf(&b, "\n## %v\n\n%s%s", class, tableHead, rows.String())
		}
	}
	b.WriteString(legend)
	_, err := io.WriteString(w, b.String())
	return err
}

const tableHead = "| case | server | CPU µs/op | ratio | k op/s | ratio | p50 µs | p99 µs | ratio |" +
	" p99.9 µs | busy % | RSS MiB | KiB/conn | generator µs/op |\n" +
	"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

const legend = `
Values are medians over the rounds, with (least–greatest). A ratio is the median of the rounds'
own ratios to the first server of the case. Less is better for CPU and percentiles, more for the
rate. c is the number of connections, P the requests each has in flight, Q the number of queues, if
there are several. SET fills a queue and drains it, again and again, and only the fills count. So
every server works in memory that it has used before, as memcached does. GROW is a queue that only
grows. Percentiles are of a request, closed loop; of FLOOD, WAITERS and CROWD they
are the age of an item when its consumer has it. An operation is an item. busy is the server's share
of its core. KiB/conn is what a connection adds to its memory with all that was in the queue.
generator is the load generator's CPU per operation.
`

// writeCase prints the rows of one case.
func writeCase(w io.Writer, p planned, samples map[string][]*sample) {
	reference := samples[p.servers[0].Name]
	for i, s := range p.servers {
		own := samples[s.Name]
		value := func(f func(*sample) float64) string { return figures.Summarize(over(own, f)).String() }
		middle := func(f func(*sample) float64) string {
			m := figures.Summarize(over(own, f))
			if m.N == 0 {
				return "–"
			}
			return figures.Digits(m.Median)
		}
		ratio := func(f func(*sample) float64) string {
			if i == 0 {
				return "1"
			}
			return figures.Summarize(figures.Ratios(over(own, f), over(reference, f))).String()
		}
		perClient := "–"
		if p.kind == crowd || p.kind == waiters {
			perClient = middle((*sample).perClientKiB)
		}
		name := ""
		if i == 0 {
			name = p.name()
		}
		cells := []string{name, s.Name,
			value((*sample).cpuPerOperation), ratio((*sample).cpuPerOperation),
			value(func(s *sample) float64 { return s.rate() / 1e3 }), ratio((*sample).rate),
			middle((*sample).p50Micros), middle((*sample).p99Micros), ratio((*sample).p99Micros),
			middle((*sample).p999Micros), middle((*sample).busy), middle((*sample).residentMiB),
			perClient, value((*sample).generatorPerOperation)}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}
