package admin

import (
	"math"
	"strings"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

// distribution is a metric in an answer.
type distribution struct{ *histogram.Counts }

// summary is what the statistics say of a metric.
func (d distribution) summary() object {
	o := object{{"count", d.Total()}}
	if d.Total() == 0 {
		return o
	}
	o = append(o, object{
		{"sum", d.Sum()},
		{"average", int64(math.Round(d.Mean()))},
		{"minimum", d.Min()},
		{"maximum", d.Max()},
	}...)
	for _, p := range percentiles() {
		o = append(o, member{p.name, d.Quantile(p.q)})
	}
	return o
}

type percentile struct {
	name string
	q    float64
}

// percentiles returns those of the original.
func percentiles() []percentile {
	return []percentile{
		{"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99},
		{"p999", 0.999}, {"p9999", 0.9999},
	}
}

// text is the summary in one line, keys sorted.
func (d distribution) text() string {
	var words []string
	for _, m := range sorted(d.summary()) {
		words = append(words, m.key+"="+number(m.value))
	}
	return "(" + strings.Join(words, ", ") + ")"
}
