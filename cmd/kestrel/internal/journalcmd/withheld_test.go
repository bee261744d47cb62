package journalcmd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/engine"
)

// TestExplainWithheld: a directory of which a server would withhold queues is damaged; the text names
// them, why, and what to run.
func TestExplainWithheld(t *testing.T) {
	if err := explainWithheld(&engine.Snapshot{}); err != nil {
		t.Errorf("of a sound directory: %v", err)
	}
	reason := fmt.Errorf("%w: data/backlog/0000000001.run: no such file", engine.ErrWithheld)
	err := explainWithheld(&engine.Snapshot{Withheld: []engine.WithheldQueue{{Name: "a\nb", Number: 7, Reason: reason}}})
	var failure *cli.Failure
	if !errors.As(err, &failure) || failure.Code != cli.ExitDamage {
		t.Fatalf("explainWithheld = %v, want exit status %d", err, cli.ExitDamage)
	}
	for _, want := range []string{"withholds 1 queue;", "0000000001.run", "kestrel journal repair", "--apply"} {
		if !strings.Contains(failure.Text, want) {
			t.Errorf("%q lacks %q", failure.Text, want)
		}
	}
	if n := strings.Count(failure.Text, "\n"); n != 1 {
		t.Errorf("%q has %d line ends, want one for each queue", failure.Text, n)
	}
}
