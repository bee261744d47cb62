package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// writeReport prints the header and a table for each class.
func writeReport(w io.Writer, h header, plan []planned, all results) error {
	var b strings.Builder
	h.write(&b)
	for _, class := range []class{pageCache, syncAlways} {
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

const tableHead = "| case | server | CPU µs/op | ratio | k op/s | ratio | p50 µs | p99 µs |" +
	" busy % | RSS MiB | generator µs/op |\n" +
	"|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"

const legend = `
Values are medians over the rounds, with (least–greatest). A ratio is the median of the rounds'
own ratios to the first server of the case; less is better for CPU, more for the rate. c is the
number of connections, P the requests each has in flight. p50 and p99 are of a batch of P, closed
loop. busy is the server's share of its core, generator the load generator's CPU per operation.
`

// writeCase prints the rows of one case.
func writeCase(w io.Writer, p planned, samples map[string][]*sample) {
	reference := samples[p.servers[0].name]
	for i, s := range p.servers {
		own := samples[s.name]
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
		name := ""
		if i == 0 {
			name = fmt.Sprintf("%v c=%d P=%d", p.operation, p.connections, p.pipeline)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", name, s.name,
			value((*sample).cpuPerOperation), ratio((*sample).cpuPerOperation),
			value(func(s *sample) float64 { return s.rate() / 1e3 }), ratio((*sample).rate),
			middle(func(s *sample) float64 { return microseconds(s.p50) }),
			middle(func(s *sample) float64 { return microseconds(s.p99) }),
			middle((*sample).busy), middle((*sample).residentMiB),
			value((*sample).generatorPerOperation))
	}
}
