package config

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	File string // "" for the command line
	Line int    // from 1; 0 if it is not known
	Key  string // path, as TOML writes it, or flag; "" for none
	Text string
}

func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, p.Line)
	}
	for _, part := range []string{p.Key, p.Text} {
		if s != "" && part != "" {
			s += ": "
		}
		s += part
	}
	return cli.OneLine(s)
}

// maxProblems is how many problems are reported; further ones are counted.
const maxProblems = 100

// configError is everything that is wrong with the configuration.
type Error struct {
	Problems []Problem
	More     int // that are not among problems
}

// Add notes a problem.
func (e *Error) Add(p Problem) {
	if e.full() {
		e.More++
		return
	}
	e.Problems = append(e.Problems, p)
}

// full reports whether further problems are only counted.
func (e *Error) full() bool { return len(e.Problems) == maxProblems }

// OrNil returns e with its problems in the order of the file, or nil if there are none.
func (e *Error) OrNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	slices.SortStableFunc(e.Problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Key, b.Key))
	})
	return e
}

// Error is all problems in one line.
func (e *Error) Error() string {
	var lines []string
	for _, p := range e.Problems {
		lines = append(lines, p.String())
	}
	if e.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.More))
	}
	return strings.Join(lines, "; ")
}

// Print writes a line for each problem, and one that says what follows.
func (e *Error) Print(w io.Writer) {
	for _, p := range e.Problems {
		fmt.Fprintln(w, p)
	}
	count, noun := len(e.Problems)+e.More, "problems"
	if count == 1 {
		noun = "problem"
	}
	fmt.Fprintf(w, "kestrel: %d %s with the configuration; nothing was started."+
		" 'kestrel help config' lists every key.\n", count, noun)
}
