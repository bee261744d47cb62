package alias

import "testing"

// TestTable counts for aliases that come and go.
func TestTable(t *testing.T) {
	var table Table
	table.Put("a", 1) // nobody knows it
	table.Know(map[string][]string{"a": nil, "b": nil}, 5)
	table.Put("a", 3)
	table.Put("a", 4)
	table.Know(map[string][]string{"a": nil, "c": nil}, 9)
	table.Put("b", 1)
	for name, want := range map[string]Count{"a": {5, 2, 7}, "b": {}, "c": {9, 0, 0}} {
		if c, ok := table.Of(name); c != want || ok != (want != Count{}) {
			t.Errorf("%s: %+v, %t, want %+v", name, c, ok, want)
		}
	}
}
