package admin

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sample is one value of a scrape. Those of a queue share their labels; prometheus.NewConstMetric would make a sorted
// copy for each. A scrape of ten thousand queues has a quarter of a million samples.
type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair // sorted by name; nobody changes them
	value  float64
	gauge  bool // else a counter
}

var _ prometheus.Metric = (*sample)(nil)

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.labels
	if s.gauge {
		out.Gauge = &dto.Gauge{Value: &s.value}
	} else {
		out.Counter = &dto.Counter{Value: &s.value}
	}
	return nil
}

// labelPairs are labels, given as names and values in turn, as a sample has them. They are UTF-8,
// as names of queues are. The caller leaves labels alone.
func labelPairs(labels []string) []*dto.LabelPair {
	pairs := make([]*dto.LabelPair, 0, len(labels)/2)
	for i := 0; i < len(labels); i += 2 {
		pairs = append(pairs, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	slices.SortFunc(pairs, func(a, b *dto.LabelPair) int {
		return strings.Compare(*a.Name, *b.Name)
	})
	return pairs
}
