package cli

import (
	"fmt"
	"testing"
)

func TestWrap(t *testing.T) {
	got := Wrap("one two three\n\nfour", "  ", 9)
	if want := "  one two\n  three\n\n  four"; got != want {
		t.Errorf("wrap = %q, want %q", got, want)
	}
	if got := fmt.Sprint(Wrap("", "", 9)); got != "" {
		t.Errorf("wrap of nothing = %q", got)
	}
}
