package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestRunSeveral tests that several errors of a command are one line, and that it shows where each ends.
func TestRunSeveral(t *testing.T) {
	both := errors.Join(errors.New("a is away"), errors.New("b is away"))
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{both, ExitUsage, "kestrel: a is away; b is away\nTry 'kestrel ls --help'.\n"},
		{Failed("%v; is a server running there?", both), ExitFailed, "kestrel: a is away; b is away; is a server running there?\n"},
		{Failed("damaged: 1 queue\n  work: its file is gone"), ExitFailed, "kestrel: damaged: 1 queue; work: its file is gone\n"},
	} {
		root := NewRoot()
		root.AddCommand(&cobra.Command{Use: "ls", RunE: func(*cobra.Command, []string) error { return tt.err }})
		var out, errs strings.Builder
		if code := Run(root, []string{"ls"}, &out, &errs); code != tt.code || errs.String() != tt.want {
			t.Errorf("%q: %d, %q, want %d, %q", tt.err, code, &errs, tt.code, tt.want)
		}
	}
}
