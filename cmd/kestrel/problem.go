package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
)

// problem is one thing that is wrong with the configuration.
type problem struct {
	file string // "" for the command line
	line int    // from 1; 0 if it is not known
	key  string // path, as TOML writes it, or flag; "" for none
	text string
}

func (p problem) String() string {
	s := p.file
	if p.line > 0 {
		s = fmt.Sprintf("%s:%d", s, p.line)
	}
	for _, part := range []string{p.key, p.text} {
		if s != "" && part != "" {
			s += ": "
		}
		s += part
	}
	return oneLine(s)
}

// maxProblems is how many problems are reported; further ones are counted.
const maxProblems = 100

// configError is everything that is wrong with the configuration.
type configError struct {
	problems []problem
	more     int // that are not among problems
}

// add notes a problem.
func (e *configError) add(p problem) {
	if e.full() {
		e.more++
		return
	}
	e.problems = append(e.problems, p)
}

// full reports whether further problems are only counted.
func (e *configError) full() bool { return len(e.problems) == maxProblems }

// orNil returns e with its problems in the order of the file, or nil if there are none.
func (e *configError) orNil() error {
	if len(e.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(e.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line),
			cmp.Compare(a.key, b.key))
	})
	return e
}

// Error is all problems in one line.
func (e *configError) Error() string {
	var lines []string
	for _, p := range e.problems {
		lines = append(lines, p.String())
	}
	if e.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", e.more))
	}
	return strings.Join(lines, "; ")
}

// print writes a line for each problem, and one that says what follows.
func (e *configError) print(w io.Writer) {
	for _, p := range e.problems {
		fmt.Fprintln(w, p)
	}
	count, noun := len(e.problems)+e.more, "problems"
	if count == 1 {
		noun = "problem"
	}
	fmt.Fprintf(w, "kestrel: %d %s with the configuration; nothing was started."+
		" 'kestrel help config' lists what can be said.\n", count, noun)
}

// oneLine is s with spaces for line ends and whatever else a terminal would not print.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
}
