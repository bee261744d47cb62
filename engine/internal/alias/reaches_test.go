package alias

import "testing"

// TestReaches follows aliases, some of which go round.
func TestReaches(t *testing.T) {
	aliases := map[string][]string{"a": {"b", "q"}, "b": {"c"}, "c": {"b", "p"}, "d": {"d"}}
	for _, tt := range []struct {
		from, target string
		want         bool
	}{
		{"a", "p", true}, {"a", "q", true}, {"a", "a", false}, {"b", "b", true}, {"b", "q", false}, {"d", "d", true}, {"q", "a", false},
	} {
		if got := Reaches(aliases, tt.from, tt.target); got != tt.want {
			t.Errorf("%s reaches %s: %t", tt.from, tt.target, got)
		}
	}
}
