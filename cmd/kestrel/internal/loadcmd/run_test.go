package loadcmd

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// withLoad is a root that has the command.
func withLoad() *cobra.Command {
	root := cli.NewRoot()
	root.AddCommand(New())
	return root
}

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }
