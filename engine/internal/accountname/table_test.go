package accountname

import (
	"fmt"
	"slices"
	"testing"
)

// TestAccountsOnce has all accounts go and come back while they are listed. Each is listed once.
func TestAccountsOnce(t *testing.T) {
	const accounts = 2 * tablePiece
	name := func(n int) string { return string(Append(nil, fmt.Append(nil, n), []byte("q"))) }
	var table Table[int]
	for n := range accounts {
		table.Add(name(n), n)
	}
	table.Yield = func() {
		for n := range accounts {
			table.Remove(name(n), n)
		}
		for n := range accounts {
			table.Add(name(n), n)
		}
	}
	all := table.Accounts()
	if once := slices.Compact(slices.Sorted(slices.Values(all))); len(once) != len(all) {
		t.Errorf("%d names are listed, and %d of them are different", len(all), len(once))
	}
}
