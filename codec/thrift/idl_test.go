package thrift

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestIDL checks that docs/kestrel.thrift declares the methods that this package knows, and no
// others.
func TestIDL(t *testing.T) {
	idl, err := os.ReadFile("../../docs/kestrel.thrift")
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	declaration := regexp.MustCompile(`(?m)^  [A-Za-z0-9<>]+ (\w+)\(`)
	for _, match := range declaration.FindAllStringSubmatch(string(idl), -1) {
		got = append(got, match[1])
	}
	for m := MethodPut; m < MethodUpgrade; m++ {
		want = append(want, m.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the IDL declares %v, want %v", got, want)
	}
}
