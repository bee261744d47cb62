package queuename

import (
	"strings"
	"testing"
)

// TestProblem tries names that queues may have, and others.
func TestProblem(t *testing.T) {
	for _, tt := range []struct {
		name string
		ok   bool
	}{
		{"jobs", true}, {"jobs+a", true}, {"+a", true}, {"a b", true}, {"é", true}, {strings.Repeat("x", MaxSize), true},
		{"", false}, {strings.Repeat("x", MaxSize+1), false}, {"a.b", false}, {"a~b", false}, {"a\x00b", false}, {"++", false},
		{"\xff", false}, {"a/b/c", false}, {"/a", false},
	} {
		if got := Problem(tt.name); (got == "") != tt.ok {
			t.Errorf("%q %s", tt.name, got)
		}
	}
}

// TestParentAndDeadLetters reads names of queues, and of fanout children.
func TestParentAndDeadLetters(t *testing.T) {
	for _, tt := range []struct{ name, parent, dead string }{
		{"jobs", "jobs", "jobs_dead"},
		{"jobs+a", "jobs", "jobs_dead+a"},
		{"jobs+a+b", "jobs", "jobs_dead+a+b"},
		{"+b", "", "_dead+b"}, {"a+", "a", "a_dead+"},
		{"jobs_dead", "jobs_dead", ""},
		{"jobs_dead+a", "jobs_dead", ""},
	} {
		parent, child := Parent(tt.name)
		if child != (tt.parent != tt.name) || parent != tt.parent || DeadLetters(tt.name) != tt.dead {
			t.Errorf("%s: parent %q, %t, dead letters %q", tt.name, parent, child, DeadLetters(tt.name))
		}
	}
}
