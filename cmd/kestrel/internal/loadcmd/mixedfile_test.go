package loadcmd

import (
	"strings"
	"testing"
)

// TestMixedFile takes the file in the help of mixed as it stands there, without the indent.
func TestMixedFile(t *testing.T) {
	_, text, found := strings.Cut(newMixed().Long, "\nA file for it:\n")
	if !found {
		t.Fatalf("the help has no file:\n%s", newMixed().Long)
	}
	s, err := parseMixed(strings.ReplaceAll("\n"+text, "\n    ", "\n"))
	if err != nil || len(s.Flows) != 2 || s.Flows[0].Rate != 500 || s.Flows[1].Pipeline != 32 {
		t.Errorf("the file of the help is %+v, %v", s, err)
	}
}

// TestMixedFileEndless reads what never ends.
func TestMixedFileEndless(t *testing.T) {
	if s, err := readMixed("/dev/zero"); err == nil || err.Error() != "/dev/zero is larger than 1MiB" {
		t.Errorf("readMixed(/dev/zero) = %v, %v", s, err)
	}
}
