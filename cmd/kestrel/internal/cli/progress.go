package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// This file shows how far long work is.

const (
	barWidth = 20
	// repaint is how often the line of a terminal is drawn again.
	repaint = 100 * time.Millisecond
	// relog is how often a log has a line.
	relog = 10 * time.Second
)

// IsTerminal reports whether a stream is somebody's terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Unit is what a Progress counts.
type Unit struct {
	amount func(n int64) string // of a number without a noun
	total  func(n int64) string
}

// Items and Bytes are units.
var (
	Items = Unit{figures.Thousands, func(n int64) string { return Counted(n, "item") }}
	Bytes = Unit{figures.Bytes, figures.Bytes}
)

// Progress says on standard error how far long work is. On a terminal it draws one line again and again, else it writes
// a line now and then. A nil Progress says nothing. One goroutine at a time uses it.
type Progress struct {
	w        io.Writer
	terminal bool
	verb     string // "moved"
	unit     Unit
	total    int64 // 0: unknown
	done     int64
	began    time.Time
	shown    time.Time
	sighted  bool // the total has been shown
}

// NewProgress returns the progress of work that has a total, in some unit.
func NewProgress(w io.Writer, verb string, unit Unit, total int64) *Progress {
	now := time.Now()
	return &Progress{w: w, terminal: IsTerminal(w), verb: verb, unit: unit, total: total, began: now, shown: now}
}

// TerminalProgress is NewProgress if w is a terminal. Otherwise it returns nil: a log of the command has no use for it.
func TerminalProgress(w io.Writer, verb string, unit Unit, total int64) *Progress {
	if !IsTerminal(w) {
		return nil
	}
	return NewProgress(w, verb, unit, total)
}

// Add counts n more. A terminal shows the first of which the total is known at once.
func (p *Progress) Add(n int64) {
	if p == nil {
		return
	}
	p.done += n
	every := relog
	if p.terminal {
		every = repaint
	}
	if now := time.Now(); now.Sub(p.shown) >= every || p.terminal && p.total > 0 && !p.sighted {
		p.shown, p.sighted = now, p.total > 0
		p.show(now)
	}
}

// Expect sets the total, unless it is less than what is done or was expected before.
func (p *Progress) Expect(total int64) {
	if p != nil {
		p.total = max(p.total, total)
	}
}

// Total returns how much there is to do, and Done how much is done.
func (p *Progress) Total() int64 { return max(p.total, p.done) }

// Done returns how much is done.
func (p *Progress) Done() int64 { return p.done }

func (p *Progress) show(now time.Time) {
	total := p.total
	if total > 0 {
		total = p.Total()
	}
	text := progressText(p.verb, p.unit, p.done, total, now.Sub(p.began))
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K"+FitProgress(text, Width(p.w)))
	} else {
		fmt.Fprintln(p.w, text)
	}
}

// End removes the line of a terminal.
func (p *Progress) End() {
	if p != nil && p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// Watch shows on a terminal how far the work of another goroutine is, until end is called. look returns how much is done,
// and of how much. It does nothing if w is no terminal.
func Watch(w io.Writer, verb string, unit Unit, look func() (done, total int64)) (end func()) {
	p := TerminalProgress(w, verb, unit, 0)
	if p == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(repaint)
		defer tick.Stop()
		for more := true; more; {
			select {
			case <-tick.C:
			case <-stop:
				more = false
			}
			done, total := look()
			if p.Expect(total); total > 0 {
				p.Add(done - p.done)
			}
		}
		p.End()
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

// Reader returns a reader of r whose bytes the progress counts. Its method Expect is that of p.
func (p *Progress) Reader(r io.Reader) io.Reader { return progressReader{r, p} }

type progressReader struct {
	io.Reader
	*Progress
}

// Read implements io.Reader.
func (r progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.Add(int64(n))
	return n, err
}

// FitProgress is the text of a progress in less than width columns, without its bar if there is no room. A line that wraps
// could not be drawn again. A width of 0 has room for all.
func FitProgress(text string, width int) string {
	if width == 0 || len(text) < width {
		return text
	}
	if _, rest, ok := strings.Cut(text, "] "); ok {
		text = strings.TrimLeft(rest, " ")
	}
	return text[:min(len(text), width-1)]
}

// progressText says how far work is, in less than 80 columns. Without a total it says what is done.
func progressText(verb string, unit Unit, done, total int64, since time.Duration) string {
	text := verb + " " + unit.total(done)
	if total > 0 {
		share := float64(done) / float64(total)
		full := int(share * barWidth)
		text = fmt.Sprintf("[%s%s] %3.0f%%  %s %s of %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full),
			share*100, verb, unit.amount(done), unit.total(total))
	}
	if since < time.Second || done == 0 {
		return text
	}
	rate := float64(done) / since.Seconds()
	text += "  " + unit.amount(int64(rate)) + "/s"
	if total > 0 {
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		text += fmt.Sprintf("  %v left", left.Round(time.Second))
	}
	return text
}
