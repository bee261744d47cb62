package journalcmd

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
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

// withholding is an engine that does not serve a queue.
type withholding struct {
	*engine.Engine
	queue string
}

func (w withholding) Withheld() []engine.WithheldQueue {
	return []engine.WithheldQueue{{Name: w.queue, Reason: engine.ErrWithheld}}
}

// TestImportWithheld: an import into a queue that takes nothing begins nothing that it could not end.
func TestImportWithheld(t *testing.T) {
	for _, queue := range []string{"work", "other"} {
		old, data := clitest.WriteOld(t, oldFiles()), t.TempDir()
		im, e, dir := openImport(t, old, data)
		_, err := im.mark(withholding{e, queue}, dir)
		if closed := e.Close(); closed != nil {
			t.Fatal(closed)
		}
		if refused := err != nil && strings.Contains(err.Error(), "is damaged, and takes nothing"); refused != (queue == "work") {
			t.Errorf("%s is withheld: %v", queue, err)
		}
		if begun := fileExists(importMarkPath(data)); begun != (queue == "other") {
			t.Errorf("%s is withheld: there is a mark: %v", queue, begun)
		}
	}
}
