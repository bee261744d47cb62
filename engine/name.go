package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// ValidateName reports why name cannot be the name of a queue: the error wraps ErrBadName. A name
// is 1 to MaxNameSize bytes of UTF-8 without NUL, '.', '/' and '~', and does not consist of '+'
// only.
func ValidateName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "is empty"
	case len(name) > MaxNameSize:
		reason = fmt.Sprintf("is longer than %d bytes", MaxNameSize)
	case strings.ContainsAny(name, "./~\x00"):
		reason = "contains illegal characters (one of: ~ . / NUL)"
	case strings.Trim(name, "+") == "":
		reason = "consists of + only"
	case !utf8.ValidString(name):
		reason = "is not UTF-8"
	default:
		return nil
	}
	return &NameError{Name: name, Reason: reason}
}

// A NameError says why a queue name is refused. It unwraps to ErrBadName.
type NameError struct {
	Name   string
	Reason string
}

func (e *NameError) Error() string { return fmt.Sprintf("queue name %.300q %s", e.Name, e.Reason) }

// Unwrap returns ErrBadName.
func (e *NameError) Unwrap() error { return ErrBadName }

// parentOf returns the name of the queue that name is a fanout child of: what stands before the
// first '+'. It returns false if name is not a child's.
func parentOf(name string) (string, bool) {
	parent, _, ok := strings.Cut(name, "+")
	return parent, ok
}
