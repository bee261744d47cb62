package cli

import (
	"fmt"
	"strings"
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

func TestCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 items", 1: "1 item", 999: "999 items", 1_234_567: "1,234,567 items"} {
		if got := Counted(n, "item"); got != want {
			t.Errorf("Counted(%d) = %q, want %q", n, got, want)
		}
	}
	names := make([]string, MaxListed+1000)
	if got := ListOf(names); !strings.HasSuffix(got, " and 1,000 more") {
		t.Errorf("a list of %d names = %q", len(names), got)
	}
}
