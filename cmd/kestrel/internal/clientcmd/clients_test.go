package clientcmd

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/clitest"
)

// TestEndToEndClients finds who holds the items of a queue, and gives them back by hand.
func TestEndToEndClients(t *testing.T) {
	p := clitest.Serve(t, "--admin-port", "auto")
	admin := p.Saw("admin port is open")["address"].(string)
	t.Setenv(serverVariable, p.Addr)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	run := func(code int, args ...string) (stdout, stderr string) {
		root := cli.NewRoot()
		root.AddCommand(New()...)
		return clitest.Run(t, root, code, append(args, "--admin", admin)...)
	}
	holder := p.Dial()
	holder.Ask("set work 0 0 1\na\nget work/open\n", "STORED\nVALUE work 0 1\na\nEND\n")
	out, _ := run(cli.ExitOK, "clients", "work")
	if !strings.Contains(out, "work:1") || !strings.Contains(out, "memcache") || !strings.HasSuffix(out, "\n1 connection\n") {
		t.Fatalf("kestrel clients work:\n%s", out)
	}
	if !regexp.MustCompile(`(?m) work:1 +\d+ms$`).MatchString(out) {
		t.Errorf("kestrel clients work does not say how long the item has been held:\n%s", out)
	}
	out, _ = run(cli.ExitOK, "clients", "work", "--leases")
	if !strings.HasPrefix(out, "NO  PEER ") || !strings.HasSuffix(out, "\n0 leases\n") {
		t.Errorf("kestrel clients work --leases:\n%s", out)
	}
	out, _ = run(cli.ExitOK, "clients", "work", "--output", "json")
	var list []connection
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 || list[0].ByQueue["work"] != 1 ||
		list[0].Requests != 2 {
		t.Fatalf("kestrel clients --output json: %v\n%s", err, out)
	}
	number, _, _ := strings.Cut(strings.TrimSpace(strings.Split(mustText(run(cli.ExitOK, "clients", "work")), "\n")[1]), " ")
	out, _ = run(cli.ExitOK, "clients", "--return-reads", number)
	if out != "connection "+number+" holds nothing any more\n" {
		t.Errorf("--return-reads says %q", out)
	}
	p.Dial().Ask("get work\n", "VALUE work 0 1\na\nEND\n")
	run(cli.ExitOK, "clients", "--end", number)
	if _, err := holder.In.ReadByte(); err == nil {
		t.Error("a connection that was closed sends something")
	}
	for _, tt := range []struct{ args, want string }{
		{"clients --end 99999", "no connection has the number 99999"},
		{"clients --order size", `order: "size" is none of open, oldest, age`},
	} {
		if _, errs := run(cli.ExitFailed, strings.Fields(tt.args)...); !strings.Contains(errs, tt.want) {
			t.Errorf("kestrel %s says %q, without %q", tt.args, errs, tt.want)
		}
	}
	root := cli.NewRoot()
	root.AddCommand(New()...)
	_, errs := clitest.Run(t, root, cli.ExitFailed, "clients", "--admin", "127.0.0.1:1")
	if !strings.Contains(errs, "the server needs admin_port in its configuration") {
		t.Errorf("without an admin port: %q", errs)
	}
}

func mustText(out, _ string) string { return out }
