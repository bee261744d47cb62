package queuename

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/kestrelmq/kestrel/engine/internal/accountname"
)

// MaxSize is the longest name, in bytes of UTF-8: a record has the size of a name in one byte.
const MaxSize = 255

// Problem is why name cannot be the name of a queue, said of the name; "" if it can.
func Problem(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > MaxSize:
		return fmt.Sprintf("is longer than %d bytes", MaxSize)
	case strings.ContainsAny(name, ".~\x00") || accountname.Misplaced(name):
		return "contains illegal characters (one of: ~ . / NUL)"
	case strings.Trim(name, "+") == "":
		return "consists of + only"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	}
	return ""
}

// Parent returns the name of the queue that name is a fanout child of: what stands before the first '+'. It returns
// false if name is not a child's.
func Parent(name string) (string, bool) {
	parent, _, ok := strings.Cut(name, "+")
	return parent, ok
}

// deadSuffix is what the name of a dead-letter queue ends with unless options name another one.
const deadSuffix = "_dead"

// DeadLetters is the name of the queue that takes what a queue gives up if no option names one; "" if there is none. The
// one of a fanout child must not be a child of the same queue, which would get what is put to that.
func DeadLetters(name string) string {
	parent, child, isChild := strings.Cut(name, "+")
	switch {
	case strings.HasSuffix(parent, deadSuffix):
		return ""
	case isChild:
		return parent + deadSuffix + "+" + child
	}
	return parent + deadSuffix
}
