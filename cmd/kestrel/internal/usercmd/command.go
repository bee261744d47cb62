package usercmd

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

const userPage = `Usage:
    kestrel user hash     make the hash of a password
    kestrel user token    make a token, and its hash

A server knows its users by the tables [users.NAME] of its configuration:

    [users.alice]
    password = "$argon2id$v=19$..."     # what 'kestrel user hash' prints
    tokens = ["sha256:..."]             # what 'kestrel user token' prints
    allow = ["put work*", "get work*", "stats *"]

The verbs are put, get, peek, manage, stats and operate. In a pattern, * stands
for any part of a name. A reload takes changes in.
`

const hashPage = `Usage:
    kestrel user hash

Asks for a password, twice, or reads it from the first line of standard input if
that is no terminal. Prints its argon2id hash, for 'password' of [users.NAME].
A password has up to 1024 bytes, and no blank, line end or NUL: the protocols
that are lines of text could not send it.

Example:
    $ echo correct-horse-battery | kestrel user hash
    $argon2id$v=19$…

Exit status: 0; 1 if the password cannot be used; 2 if the command line is
wrong.
`

const tokenPage = `Usage:
    kestrel user token

Makes a random token. Prints it on the first line, for the HTTP client that
sends "Authorization: Bearer TOKEN", and its hash on the second, for 'tokens' of
[users.NAME]. Keep the token: nobody can make it from its hash.

Example:
    $ kestrel user token
    kestrel_…
    sha256:…

Exit status: 0; 2 if the command line is wrong.
`

// New returns `kestrel user` and what belongs to it.
func New() *cobra.Command {
	cmd := cli.Group("user", "make hashes of passwords and tokens", userPage)
	hash := &cobra.Command{Use: "hash", Short: "make the hash of a password", Long: hashPage, Args: cli.NoArguments}
	hash.RunE = func(cmd *cobra.Command, _ []string) error {
		password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr())
		if err != nil {
			return cli.Failed("%s", err)
		}
		h, err := access.HashPassword(password)
		if err != nil {
			return cli.Failed("%s", err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), h)
		return nil
	}
	token := &cobra.Command{Use: "token", Short: "make a token, and its hash", Long: tokenPage, Args: cli.NoArguments}
	token.RunE = func(cmd *cobra.Command, _ []string) error {
		made := access.NewToken()
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n%s\n", made, access.HashToken(made))
		return nil
	}
	cmd.AddCommand(hash, token)
	return cmd
}

// echoAgain has signals end the process with the terminal as it is now, until its result is called. While a password is
// typed, the terminal has no echo, and the shell behind would have none.
func echoAgain(terminal int) (stop func()) {
	before, err := term.GetState(terminal)
	if err != nil {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	done := make(chan struct{})
	go func() {
		select {
		case <-done:
		case s := <-signals:
			term.Restore(terminal, before)
			signal.Reset(s)
			syscall.Kill(os.Getpid(), s.(syscall.Signal))
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}

// readPassword reads a password from in: without showing it, and twice, if that is a terminal.
func readPassword(in io.Reader, prompts io.Writer) ([]byte, error) {
	f, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(in, 2*access.MaxPassword)).ReadBytes('\n')
		if err != nil && err != io.EOF {
			return nil, err
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
	}
	defer echoAgain(int(f.Fd()))()
	ask := func(prompt string) ([]byte, error) {
		fmt.Fprint(prompts, prompt)
		defer fmt.Fprintln(prompts)
		return term.ReadPassword(int(f.Fd()))
	}
	first, err := ask("Password: ")
	if err != nil {
		return nil, err
	}
	second, err := ask("Again: ")
	if err == nil && !bytes.Equal(first, second) {
		err = errors.New("the two passwords differ; nothing was made")
	}
	return first, err
}
