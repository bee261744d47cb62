package usercmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// run runs `kestrel user` and returns what it prints.
func run(in string, args ...string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	cmd := New()
	root := cli.NewRoot()
	root.AddCommand(cmd)
	root.SetIn(strings.NewReader(in))
	code = cli.Run(root, append([]string{"user"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestHash(t *testing.T) {
	for _, in := range []string{"s3cret\n", "s3cret", "s3cret\r\nmore\n"} {
		code, out, errs := run(in, "hash")
		h, err := access.ParseHash(strings.TrimSuffix(out, "\n"))
		if code != cli.ExitOK || errs != "" || err != nil {
			t.Fatalf("%q: %d, %q, %q, %v", in, code, out, errs, err)
		}
		users, err := access.NewUsers([]*access.User{{Name: "alice", Password: h}})
		if err != nil {
			t.Fatal(err)
		}
		c := access.NewChecker(users, access.Options{})
		if _, err := c.Password(t.Context(), "here", "alice", []byte("s3cret")); err != nil {
			t.Errorf("%q: the hash is not that of the password: %v", in, err)
		}
	}
	for in, want := range map[string]string{"": "the password is empty", "a b\n": "has a space"} {
		if code, out, errs := run(in, "hash"); code != cli.ExitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%q: %d, %q, %q; want %q", in, code, out, errs, want)
		}
	}
	if _, out, _ := run("", "hash", "--help"); !strings.Contains(out, "no blank, line end or NUL") {
		t.Errorf("the help does not say what a password may have: %s", out)
	}
	if code, _, _ := run("", "hash", "s3cret"); code != cli.ExitUsage {
		t.Errorf("a password on the command line: exit code %d", code)
	}
}

func TestToken(t *testing.T) {
	code, out, errs := run("", "token")
	lines := strings.Split(out, "\n")
	if code != cli.ExitOK || errs != "" || len(lines) != 3 || access.HashToken(lines[0]).String() != lines[1] {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}
