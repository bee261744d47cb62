package clientcmd

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m)) }

// leaves returns commands that do something: in place of a group, what is in it.
func leaves(commands []*cobra.Command) (all []*cobra.Command) {
	for _, cmd := range commands {
		if cmd.HasSubCommands() {
			all = append(all, leaves(cmd.Commands())...)
		} else {
			all = append(all, cmd)
		}
	}
	return all
}

// TestEndToEndPage runs the examples of docs/CLI.md, one after the other on one server.
func TestEndToEndPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/CLI.md")
	if err != nil {
		t.Fatal(err)
	}
	p := clitest.Serve(t)
	dir := t.TempDir()
	ran := 0
	for _, block := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		if block[1] == "" {
			ran += clitest.Transcript(t, p.Addr, dir, block[2])
		}
	}
	if ran < 20 {
		t.Errorf("only %d commands of docs/CLI.md were run", ran)
	}
}

// TestHelp tests that pages fit a terminal, and name every flag.
func TestHelp(t *testing.T) {
	for _, cmd := range append(leaves(New()), newCluster()) {
		for line := range strings.Lines(cmd.Long) {
			if n := len([]rune(line)); n > 110 || n > 81 && !strings.HasPrefix(line, "    ") {
				t.Errorf("kestrel %s --help: a line of %d columns: %s", cmd.Name(), n, line)
			}
		}
		if !strings.HasPrefix(cmd.Long, "Usage:\n    kestrel "+cmd.CommandPath()) {
			t.Errorf("kestrel %s --help begins with %.40q", cmd.Name(), cmd.Long)
		}
	}
}

// TestClosedOutput tests that commands that take items do not begin if standard output was closed. Go's runtime has then
// opened /dev/null in its place, to read and write.
func TestClosedOutput(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for mode, want := range map[int]string{os.O_RDWR: "standard output is closed, or is /dev/null opened to read as well, so nothing was taken", os.O_WRONLY: "connection refused"} {
		out, err := os.OpenFile(os.DevNull, mode, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		for _, args := range []string{"get work", "get work --all", "get work --output json", "drain work --to - --yes"} {
			root := cli.NewRoot()
			root.AddCommand(New()...)
			var said strings.Builder
			code := cli.Run(root, strings.Fields(args+" --server 127.0.0.1:1"), out, &said)
			if code != cli.ExitFailed || !strings.Contains(said.String(), want) {
				t.Errorf("kestrel %s with mode %d of its output ends with %d and says %q, want 1 and %q", args, mode, code, &said, want)
			}
		}
	}
}

// TestMisuse tests command lines that are wrong: exit code 2, with a reason, and nothing done.
func TestMisuse(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, tt := range []struct{ args, want string }{
		{"put", "needs a queue"},
		{"put work --ttl -1s x", "--ttl is a time above zero"},
		{"put work x --file y", "say one of them"},
		{"put work --null --file y", "reads whole files"},
		{"put a/b x", "no spaces, control characters and slashes"},
		{"get", "needs a queue"},
		{"get work more", `does not know what to do with "more"`},
		{"get work -n -1", "--count is a number above zero"},
		{"get work -n 1 --all", "exclude each other"},
		{"get work --exec=", "--exec needs a command"},
		{"put work x --key=", "--key is not empty"},
		{"put work x --key a/b", "a key has 1 to 250 bytes"},
		{"peek work --key a/b", "a key has 1 to 250 bytes"},
		{"get work -P 2", "about the commands of --exec"},
		{"get work --exec true --null", "say nothing"},
		{"get work --exec true -P 0", "--parallel is a number above zero"},
		{"get work --wait -1s", "--wait is a time"},
		{"ls [", `"[" is no pattern`},
		{"ls --output xml", "text or json"},
		{"ls --timeout -1s", "--timeout is a time above zero"},
		{"ls --server http://x", `the scheme "http" is not known`},
		{"ls --server x:y", `"x:y" is no host:port`},
		{"drain work", "which file?"},
		{"move work work", "cannot move to itself"},
		{"move work", "needs the queue to take from, and the queue to put to"},
		{"move a b --to-server http://x", "--to-server: address"},
		{"watch [", `"[" is no pattern`},
		{"watch --count -1", "--count is a number above zero"},
		{"watch --interval 1us", "--interval is a time of 10ms or more"},
		{"top", "needs a terminal"},
		{"top --interval 1us", "from 100ms to 1m"},
		{"top --output json", "is for people"},
		{"clients --end 1 --return-reads 1", "says nothing more"},
		{"cluster status --set Down", "--set is one of Up, WriteAvoid, ReadOnly, Quiescent"},
		{"cluster status x:y", `"x:y" is no host:port`},
		{"cluster items [", `"[" is no pattern`},
		{"cluster stale --rounds 1", "--rounds is 2 or more"},
		{"cluster flush", "needs a queue"},
		{"cluster drain", "needs a server"},
		{"cluster drain a,b", "one server at a time"},
		{"cluster drain a --for -1s", "--for is a time above zero"},
		{"sniff --for 6m", "--for is a time up to 5m"},
		{"sniff --by size", "--by is queue, client or all"},
		{"sniff --limit 0", "--limit is a number from 1 to 10000"},
		{"clients --admin nonsense", `--admin: "nonsense" is not HOST:PORT`},
		{"clients --admin localhost:", `--admin: "localhost:" is not HOST:PORT`},
		{"clients --limit 0", "--limit is a number above zero"},
		{"shell x", "does not know what to do with"},
	} {
		root := cli.NewRoot()
		root.AddCommand(New()...)
		_, stderr := clitest.Run(t, root, cli.ExitUsage, strings.Fields(tt.args)...)
		if !strings.Contains(stderr, tt.want) {
			t.Errorf("kestrel %s says %q, which lacks %q", tt.args, stderr, tt.want)
		}
	}
}
