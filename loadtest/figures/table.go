package figures

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable prints the percentiles of every phase and kind of request, if there are any.
func (r *Run) WriteTable(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "phase\trequest\tcount\trate/s\tp50\tp90\tp99\tp99.9\tp99.99\tmax\t\n"
	for _, p := range r.Phases {
		name := p.Name
		row := func(kind string, rate float64, l *Latency) {
			if l == nil {
				return
			}
			fmt.Fprintf(t, "%s%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", head, name, kind, Thousands(l.Count),
				Thousands(int64(rate+0.5)), Duration(l.P50), Duration(l.P90), Duration(l.P99),
				Duration(l.P999), Duration(l.P9999), Duration(l.Max))
			name, head = "", ""
		}
		for _, op := range p.Ops {
			row(op.Name, op.Rate, op.Latency)
		}
		if p.Delivery != nil && p.Wall > 0 {
			row("delivery", float64(p.Delivery.Count)/(float64(p.Wall)/1e9), p.Delivery)
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, p := range r.Phases {
		p.writeCost(&b)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeCost prints what a phase cost the generator and the server.
func (p *Phase) writeCost(b *strings.Builder) {
	n := p.Requests()
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "%s: generator %s CPU per request, busy %.0f %%", p.Name,
		Duration(p.Generator.ThreadCPU/n), 100*p.Generator.Busy)
	if s := p.Server; s != nil && p.Wall > 0 {
		fmt.Fprintf(b, "; server %s CPU per request, busy %.0f %%, %s resident", Duration(s.PerOpCPU),
			100*float64(s.CPU)/float64(p.Wall), Bytes(s.Resident))
	}
	b.WriteString("\n")
}

// Thousands prints n with a comma before every three digits.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	digits := strings.TrimPrefix(s, "-")
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return strings.TrimSuffix(s, strings.ReplaceAll(digits, ",", "")) + digits
}

// Bytes prints a size.
func Bytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
