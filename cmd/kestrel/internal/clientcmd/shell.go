package clientcmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

const prompt = "kestrel> "

func newShell() *cobra.Command {
	var cmd *cobra.Command
	cmd = command{
		usage: "shell [flags]",
		short: "run these commands one after the other",
		about: `Reads commands, one in each line, and runs them on the same servers: all that are clients, without the word kestrel.
On a terminal lines can be edited and called back, and the tab key completes the first word. Words may stand in quotes, ' or
". Lines that begin with # say nothing. 'help' lists the commands, 'exit' ends the shell.

From a file or a pipe the first command that fails ends the shell, with its exit status.`,
		examples: `$ printf 'put work "hello world"\nget work\n' | kestrel shell
1 item put into "work"
hello world
`,
		args: args{0, 0, ""},
		define: func(*pflag.FlagSet) func(s *session, args []string) error {
			return func(s *session, _ []string) error {
				sh := &shell{session: s, cmd: cmd}
				if cli.IsTerminal(s.in) && cli.IsTerminal(cmd.OutOrStdout()) {
					return sh.converse(s.in.(*os.File))
				}
				return sh.script()
			}
		},
	}.cobra()
	return cmd
}

// shell runs commands for somebody.
type shell struct {
	session *session
	cmd     *cobra.Command // whose flags all commands get
}

// errExit ends a shell.
var errExit = errors.New("exit")

// script runs the lines of standard input, up to the first that fails.
func (sh *shell) script() error {
	ctx := sh.session.ctx
	lines := bufio.NewScanner(cli.Heed(ctx, sh.session.in))
	lines.Buffer(nil, cli.MaxItem)
	for n := 1; lines.Scan(); n++ {
		if ctx.Err() != nil {
			return fmt.Errorf("line %d was not run: %w", n, context.Cause(ctx))
		}
		code, err := sh.do(lines.Text(), strings.NewReader(""))
		switch {
		case err == errExit:
			return nil
		case err != nil:
			return &cli.Failure{Code: cli.ExitUsage, Text: fmt.Sprintf("line %d: %v", n, err)}
		case code != cli.ExitOK:
			return &cli.Failure{Code: code, Text: fmt.Sprintf("line %d failed: %s", n, lines.Text())}
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return cli.Failed("read commands: a line is longer than 32 MiB")
	case err != nil:
		return fmt.Errorf("read commands: %w", err)
	}
	return nil
}

// converse runs the lines that somebody types.
func (sh *shell) converse(in *os.File) error {
	screen := shellScreen{in, sh.cmd.OutOrStdout(), make(chan struct{}, 1)}
	t := term.NewTerminal(screen, prompt)
	t.AutoCompleteCallback = complete
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) // SIGINT ends a command, and not the shell
	defer stop()
	for {
		line, err := sh.readLine(ctx, in, t, screen.written)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if _, err := sh.do(line, in); err == errExit {
			return nil
		} else if err != nil {
			fmt.Fprintf(sh.session.err, "kestrel: %v\n", err)
		}
	}
}

// shellScreen is what a shell reads and writes. It says on written, which has room for one, that something was written.
type shellScreen struct {
	io.Reader
	io.Writer
	written chan struct{}
}

// Write implements io.Writer.
func (s shellScreen) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	select {
	case s.written <- struct{}{}:
	default:
	}
	return n, err
}

// readLine reads a line in raw mode, which commands do not run in. It is the last if ctx ends meanwhile.
func (sh *shell) readLine(ctx context.Context, in *os.File, t *term.Terminal, written chan struct{}) (string, error) {
	fd := int(in.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return "", err
	}
	defer term.Restore(fd, before)
	if width, height, err := term.GetSize(fd); err == nil && width > 0 {
		t.SetSize(width, height)
	}
	type outcome struct {
		line string
		err  error
	}
	select {
	case <-written: // by the line before
	default:
	}
	read := make(chan outcome, 1)
	go func() {
		line, err := t.ReadLine()
		read <- outcome{line, err}
	}()
	select {
	case o := <-read:
		return o.line, o.err
	case <-ctx.Done():
		<-written // the prompt, behind which this must come
		fmt.Fprint(sh.cmd.OutOrStdout(), "\r\n")
		return "", context.Cause(ctx)
	}
}

// do runs one line. It returns the exit code of its command, or an error if there is none.
func (sh *shell) do(line string, in io.Reader) (code int, err error) {
	words, err := split(line)
	if err != nil {
		return 0, err
	}
	if len(words) > 0 && words[0] == "kestrel" {
		words = words[1:]
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return 0, nil
	}
	sh.session.out.Flush()
	out := sh.cmd.OutOrStdout()
	switch words[0] {
	case "exit", "quit":
		return 0, errExit
	case "help":
		if len(words) == 1 {
			fmt.Fprint(out, listOf(withoutShell()))
			return 0, nil
		}
		words = append(words[1:], "--help")
	}
	root := cli.NewRoot()
	root.AddCommand(withoutShell()...)
	root.SetIn(in)
	given := sh.given()
	if i := slices.Index(words, "--"); i >= 0 {
		words = slices.Insert(words, i, given...)
	} else {
		words = append(words, given...)
	}
	return cli.Run(root, words, out, sh.session.err), nil
}

// given returns the flags of the shell, which its commands get.
func (sh *shell) given() (flags []string) {
	sh.cmd.Flags().Visit(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+"="+f.Value.String()) })
	return flags
}

// listOf is commands with what they do, in lines.
func listOf(commands []*cobra.Command) string {
	var b strings.Builder
	for _, cmd := range commands {
		fmt.Fprintf(&b, "    %-10s  %s\n", cmd.Name(), cmd.Short)
	}
	return b.String()
}

// complete completes the first word of a line with the name of a command.
func complete(line string, pos int, key rune) (newLine string, newPos int, ok bool) {
	if key != '\t' || strings.Contains(line, " ") {
		return "", 0, false
	}
	found := ""
	for _, cmd := range withoutShell() {
		if strings.HasPrefix(cmd.Name(), line[:pos]) {
			if found != "" {
				return "", 0, false
			}
			found = cmd.Name()
		}
	}
	if found == "" {
		return "", 0, false
	}
	return found + " ", len(found) + 1, true
}

// split cuts a line into words at blanks. Words may be quoted, whole or in part, and hold any bytes.
func split(line string) (words []string, err error) {
	var word []byte
	begun := false
	quote := byte(0)
	for _, b := range []byte(line) {
		switch {
		case quote != 0 && b == quote:
			quote = 0
		case quote != 0:
			word = append(word, b)
		case b == '\'' || b == '"':
			quote, begun = b, true
		case b == ' ' || b == '\t' || b == '\r':
			if begun {
				words = append(words, string(word))
			}
			word, begun = nil, false
		default:
			word, begun = append(word, b), true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	}
	if begun {
		words = append(words, string(word))
	}
	return words, nil
}
