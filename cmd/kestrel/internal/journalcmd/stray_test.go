package journalcmd

import (
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
	"github.com/kestrelmq/kestrel/engine"
)

// TestStrayText: files that no record names may be what a repair left that was killed. A list of removed items is not
// called unreadable.
func TestStrayText(t *testing.T) {
	var out strings.Builder
	printDamage(&out, &engine.Damage{Stray: []engine.StrayRun{
		{Path: "1.run", FirstID: 3, LastID: 9, Items: 5, Bytes: 50}, {Path: "2.run", Removed: 7}, {Path: "3.run"},
	}})
	clitest.WantText(t, out.String(),
		"lost unless it was used up, or a killed repair left it: 1.run, whose queue no record names: 5 items of 50 bytes, ids 3 to 9\n",
		"2.run, whose queue no record names: it lists 7 removed items, which may be delivered once more\n",
		"3.run, whose queue no record names: nothing in it can be read\n")
}
