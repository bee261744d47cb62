package main

import (
	"slices"
	"strings"
	"testing"
)

// Every control that the simulation does not judge exists, and has a sentence that says why. The sentence names the
// experiment or test that must notice the control instead.
func TestNotJudged(t *testing.T) {
	all := simulatedControls()
	for breaks, why := range notJudged {
		if !strings.HasSuffix(why, ".") || len(strings.Fields(why)) > 25 {
			t.Errorf("%q has no sentence: %q", breaks, why)
		}
		if !slices.ContainsFunc(all, func(c control) bool {
			return c.breaks == breaks && (c.test != "" && strings.Contains(why, c.test) ||
				c.experiment != "" && strings.Contains(why, "experiment "+c.experiment))
		}) {
			t.Errorf("%q: no control of that name is noticed by what the reason says: %q", breaks, why)
		}
	}
	for _, c := range messageControls() {
		if !slices.ContainsFunc(all, func(o control) bool { return o.breaks == c.breaks }) {
			t.Errorf("%q is neither simulated nor excused", c.breaks)
		}
	}
	judged := slices.ContainsFunc(all, func(c control) bool { return c.isSimulated() })
	if !judged {
		t.Error("no control is simulated")
	}
}

// The controls that only seeds of the theme keyed notice exist, and are judged.
func TestOfKeys(t *testing.T) {
	all := simulatedControls()
	for _, breaks := range ofKeys {
		if !slices.ContainsFunc(all, func(c control) bool { return c.breaks == breaks && c.isSimulated() }) {
			t.Errorf("no simulated control breaks %q", breaks)
		}
	}
}
