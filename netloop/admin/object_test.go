package admin

import (
	"encoding/json"
	"testing"
)

// TestQuoted compares with encoding/json, for every character of one byte and some of more.
func TestQuoted(t *testing.T) {
	check := func(s string) {
		t.Helper()
		if want, err := json.Marshal(s); err != nil || quoted(s) != string(want) {
			t.Errorf("quoted(%q) = %s, want %s, %v", s, quoted(s), want, err)
		}
	}
	for c := range 256 {
		check("a" + string(rune(c)) + "b")
		check("a" + string([]byte{byte(c)}) + "b")
	}
	check("")
	check("work/queue+child")
	check("\u2028\U0001F600")
}
