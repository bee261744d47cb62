package loadcmd

import (
	"fmt"
	"io"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
	"github.com/kestrelmq/kestrel/loadtest/scenario"
)

// progressLine is a line of a terminal that says how far a run is. It is used by one goroutine.
type progressLine struct{ w io.Writer }

// newProgressLine returns the line, or nil if w is not a terminal, or none is wanted.
func newProgressLine(w io.Writer, quiet bool) *progressLine {
	if quiet || !cli.IsTerminal(w) {
		return nil
	}
	return &progressLine{w}
}

const clearLine = "\r\x1b[K"

// show replaces the line.
func (l *progressLine) show(p scenario.Progress) {
	io.WriteString(l.w, clearLine+cli.FitProgress(progressText(p), cli.Width(l.w)))
}

// clear removes the line.
func (l *progressLine) clear() { io.WriteString(l.w, clearLine) }

// progressText says how far a phase is.
func progressText(p scenario.Progress) string {
	text := fmt.Sprintf("%.16s  %v  %s/s  p99 %s", p.Phase, p.Elapsed.Round(time.Second),
		figures.Thousands(int64(p.Rate)), figures.Duration(int64(p.P99)))
	if p.Depth >= 0 {
		text += fmt.Sprintf("  %s items", figures.Thousands(p.Depth))
	}
	if p.Remaining >= 0 {
		text += fmt.Sprintf("  %v left", p.Remaining.Round(time.Second))
	}
	return text
}
