package figures

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// NewLatency returns the figures of a histogram of nanoseconds, or nil if there is none.
func NewLatency(h *hdrhistogram.Histogram) (*Latency, error) {
	if h == nil || h.TotalCount() == 0 {
		return nil, nil
	}
	encoded, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return &Latency{
		Count:     h.TotalCount(),
		Mean:      h.Mean(),
		Min:       h.Min(),
		P50:       h.ValueAtQuantile(50),
		P90:       h.ValueAtQuantile(90),
		P99:       h.ValueAtQuantile(99),
		P999:      h.ValueAtQuantile(99.9),
		P9999:     h.ValueAtQuantile(99.99),
		Max:       h.Max(),
		Histogram: string(encoded),
	}, nil
}

// Decode returns the histogram, in nanoseconds.
func (l *Latency) Decode() (*hdrhistogram.Histogram, error) {
	if l.Histogram == "" {
		return nil, fmt.Errorf("the file holds no histogram")
	}
	h, err := hdrhistogram.Decode([]byte(l.Histogram))
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return h, nil
}

// NewQuantiles returns the figures kept of an interval.
func NewQuantiles(h *hdrhistogram.Histogram) Quantiles {
	return Quantiles{
		P50:  h.ValueAtQuantile(50),
		P99:  h.ValueAtQuantile(99),
		P999: h.ValueAtQuantile(99.9),
		Max:  h.Max(),
	}
}

// Duration prints nanoseconds to three significant digits, with a unit that suits them.
func Duration(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", ns)
	case d < time.Millisecond:
		return significant(float64(d)/float64(time.Microsecond)) + "µs"
	case d < time.Second:
		return significant(float64(d)/float64(time.Millisecond)) + "ms"
	}
	return significant(d.Seconds()) + "s"
}

// significant prints v, from 1 to below 1000, to three significant digits.
func significant(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
