package clientcmd

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

const (
	barWidth = 20
	// repaint is how often the line of a terminal is drawn again.
	repaint = 100 * time.Millisecond
	// retell is how often a log has a line.
	retell = 10 * time.Second
)

// progress says on standard error how far long work is: on a terminal in a line that is drawn again
// and again, else in a line now and then.
type progress struct {
	w        io.Writer
	terminal bool
	verb     string // "moved"
	total    int64
	done     int64
	began    time.Time
	shown    time.Time
}

func (s *session) progress(verb string, total int64) *progress {
	now := time.Now()
	return &progress{w: s.err, terminal: isTerminal(s.err), verb: verb, total: total, began: now, shown: now}
}

// add counts n more items.
func (p *progress) add(n int) {
	p.done += int64(n)
	p.total = max(p.total, p.done)
	every := retell
	if p.terminal {
		every = repaint
	}
	if now := time.Now(); now.Sub(p.shown) >= every {
		p.shown = now
		p.show(now)
	}
}

func (p *progress) show(now time.Time) {
	text := progressText(p.verb, p.done, p.total, now.Sub(p.began))
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+text)
	} else {
		fmt.Fprintln(p.w, text)
	}
}

// end removes the line of a terminal.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// progressText says how far work is, in less than 80 columns.
func progressText(verb string, done, total int64, since time.Duration) string {
	share := 1.0
	if total > 0 {
		share = float64(done) / float64(total)
	}
	full := int(share * barWidth)
	text := fmt.Sprintf("[%s%s] %3.0f%%  %s %s of %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
		share*100, verb, figures.Thousands(done), sample.Items(total))
	if since >= time.Second && done > 0 {
		rate := float64(done) / since.Seconds()
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		text += fmt.Sprintf("  %s/s  %v left", figures.Thousands(int64(rate)), left.Round(time.Second))
	}
	return text
}
