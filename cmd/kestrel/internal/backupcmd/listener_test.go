package backupcmd

import (
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestBackupFindsListener tests that --config finds an admin port that is a [[listener]]. Without any, the command says
// what to set.
func TestBackupFindsListener(t *testing.T) {
	memcache := "[[listener]]\nprotocol = \"memcache\"\naddress = \"127.0.0.1:1\"\n"
	for src, want := range map[string]string{
		memcache + "[[listener]]\nprotocol = \"admin\"\naddress = \"127.0.0.1:2\"\n": "the admin port 127.0.0.1:2 cannot be asked: ",
		memcache + "[[listener]]\nprotocol = \"admin\"\naddress = \"unix:/a\"\n":     "has neither admin_port nor a [[listener]] of protocol admin that is TCP",
		memcache: "has neither admin_port nor a [[listener]] of protocol admin that is TCP",
	} {
		root := cli.NewRoot()
		root.AddCommand(NewBackup())
		_, errs := clitest.Run(t, root, cli.ExitFailed, "backup", "--output", t.TempDir()+"/b", "--config", clitest.WriteConfig(t, src))
		if !strings.Contains(errs, want) {
			t.Errorf("with\n%sthe command says %s, want %q", src, errs, want)
		}
	}
}
