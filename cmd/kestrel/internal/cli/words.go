package cli

import (
	"cmp"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// Counted is n of what one is called noun, with commas between thousands. Counts that people read go through it, or
// through figures.Thousands. Ids, offsets, settings and JSON are plain.
func Counted[T int | int64](n T, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return figures.Thousands(int64(n)) + " " + noun + "s"
}

// MaxListed is how many names a line of the log holds.
const MaxListed = 20

// ListOf is names in a line, the first of them if there are many.
func ListOf(names []string) string {
	if more := len(names) - MaxListed; more > 0 {
		return fmt.Sprintf("%s and %s more", strings.Join(names[:MaxListed], ", "), figures.Thousands(int64(more)))
	}
	return strings.Join(names, ", ")
}

// OrNone is s, or "none" if s is empty.
func OrNone(s string) string { return cmp.Or(s, "none") }

// OneLine is s with spaces for line ends and whatever else a terminal would not print.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}

// ErrorLine is an error in one line. Several that are joined have semicolons between them.
func ErrorLine(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			parts = append(parts, line)
		}
	}
	return OneLine(strings.Join(parts, "; "))
}

// Wrap breaks text into lines of at most width columns, each after an indent. Empty lines stay.
func Wrap(text, indent string, width int) string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if len(lines) > 0 {
			lines = append(lines, "")
		}
		line := indent
		for word := range strings.FieldsSeq(paragraph) {
			if len(line) > len(indent) && len([]rune(line))+1+len([]rune(word)) > width {
				lines = append(lines, line)
				line = indent
			}
			if len(line) > len(indent) {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// Age is a time in a few characters, such as 3m07s.
func Age(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
