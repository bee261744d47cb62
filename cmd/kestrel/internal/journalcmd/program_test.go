package journalcmd

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// withJournal is a root that has the command.
func withJournal() *cobra.Command {
	root := cli.NewRoot()
	root.AddCommand(New())
	return root
}

// runJournal runs a command line and tests its exit code.
func runJournal(t testing.TB, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, withJournal(), wantCode, args...)
}

// testSegment is the size of a segment of the tests' journals, which need no 32 MiB, the default.
const testSegment = 1 << 20

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }
