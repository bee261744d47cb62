package clientcmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// TestZooKeeperAway has a command ask a ZooKeeper that is not there. That is no mistake of the command line, and the
// error says where it asked, without the password.
func TestZooKeeperAway(t *testing.T) {
	root := cli.NewRoot()
	root.AddCommand(New()...)
	var out, errs bytes.Buffer
	code := cli.Run(root, []string{"ls", "--server", "zk://user:secret@127.0.0.1:1/kestrel", "--timeout", "1ms"}, &out, &errs)
	if got := errs.String(); code != cli.ExitFailed || !strings.Contains(got, "ZooKeeper did not say within 1ms") ||
		!strings.Contains(got, "@127.0.0.1:1/kestrel") || strings.Contains(got, "secret") || strings.Contains(got, "--help") {
		t.Errorf("ls exits with %d and says %q", code, got)
	}
}
