package figures

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	hgrmTicks = 5      // lines of a percentile file per halving of what remains
	hgrmScale = 1000.0 // its values are microseconds
	tagChars  = "-_."  // besides letters and digits
)

// WritePercentiles writes a histogram's percentile distribution in microseconds, the text that the
// HdrHistogram plotters read (.hgrm).
func (l *Latency) WritePercentiles(w io.Writer) error {
	h, err := l.Decode()
	if err != nil {
		return err
	}
	_, err = h.PercentilesPrint(w, hgrmTicks, hgrmScale)
	return err
}

// WriteFile makes a file of what write writes. If it fails, there is the file that there was before, or none. What is not
// a regular file, like /dev/stdout, is written to as it is.
func WriteFile(name string, write func(io.Writer) error) error {
	err := replaceFile(name, write)
	var cause syscall.Errno // without the name that nobody has said
	if errors.As(err, &cause) {
		err = fmt.Errorf("write %s: %w", name, cause)
	}
	return err
}

func replaceFile(name string, write func(io.Writer) error) error {
	if there, err := os.Stat(name); err == nil && !there.Mode().IsRegular() {
		return writeTo(name, write)
	}
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real // the link stays
	}
	temporary := name + "~"
	err := writeTo(temporary, write)
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		os.Remove(temporary)
	}
	return err
}

func writeTo(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// SaveFiles writes prefix.json, and for every phase and kind of request prefix-PHASE-KIND.hgrm. It
// returns the names.
func (r *Run) SaveFiles(prefix string) (names []string, err error) {
	save := func(name string, write func(io.Writer) error) error {
		names = append(names, name)
		return WriteFile(name, write)
	}
	if err := save(prefix+".json", r.Write); err != nil {
		return names, err
	}
	for _, p := range r.Phases {
		for kind, l := range p.Latencies() {
			name := fmt.Sprintf("%s-%s-%s.hgrm", prefix, tag(p.Name), tag(kind))
			if err := save(name, l.WritePercentiles); err != nil {
				return names, err
			}
		}
	}
	return names, nil
}

// Latencies yields the distributions of a phase by kind of request, and that of deliveries.
func (p *Phase) Latencies() func(yield func(string, *Latency) bool) {
	return func(yield func(string, *Latency) bool) {
		for _, op := range p.Ops {
			if op.Latency != nil && !yield(op.Name, op.Latency) {
				return
			}
		}
		if p.Delivery != nil {
			yield("delivery", p.Delivery)
		}
	}
}

// tag returns a name without what file names and interval logs cannot have.
func tag(name string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.ContainsRune(tagChars, c):
			return c
		}
		return '-'
	}, name)
}

// Log writes an interval log (.hlog): one line per interval and kind of request, tagged
// PHASE-KIND, with values in nanoseconds. It is used by one goroutine.
type Log struct {
	w *hdrhistogram.HistogramLogWriter
}

// NewLog writes the head of an interval log. Start becomes its base, to the second.
func NewLog(w io.Writer, start time.Time, comment string) (*Log, error) {
	l := &Log{w: hdrhistogram.NewHistogramLogWriter(w)}
	base := start.Truncate(time.Second).UnixMilli()
	l.w.SetBaseTime(base)
	for _, err := range []error{
		l.w.OutputComment("[" + comment + "; values in nanoseconds]"),
		l.w.OutputLogFormatVersion(),
		l.w.OutputStartTime(base),
		l.w.OutputBaseTime(base),
		l.w.OutputLegend(),
	} {
		if err != nil {
			return nil, fmt.Errorf("write interval log: %w", err)
		}
	}
	return l, nil
}

// Interval writes one histogram, which it stamps. A nil or empty one is left out.
func (l *Log) Interval(
	phase, kind string, begin time.Time, wall time.Duration, h *hdrhistogram.Histogram,
) error {
	if h == nil || h.TotalCount() == 0 {
		return nil
	}
	h.SetTag(tag(phase) + "-" + tag(kind))
	h.SetStartTimeMs(begin.UnixMilli())
	h.SetEndTimeMs(begin.Add(wall).UnixMilli())
	if err := l.w.OutputIntervalHistogram(h); err != nil {
		return fmt.Errorf("write interval log: %w", err)
	}
	return nil
}
