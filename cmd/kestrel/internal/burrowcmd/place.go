package burrowcmd

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/client/backends"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

const (
	serverVariable   = "KESTREL_BURROW"
	userVariable     = "KESTREL_USER"
	passwordVariable = "KESTREL_PASSWORD"

	defaultServer  = "http://127.0.0.1:8080"
	defaultTimeout = 10 * time.Second
)

// place is where the messages are.
type place struct {
	server, user string
	flag         string // that server comes from
	files        cli.Credentials
	timeout      time.Duration
}

// define adds the flags. Name is that of the flag for the URL. The certificate of `kestrel proxy` at its back end has
// flags of another name than the one that its own clients see.
func (p *place) define(f *pflag.FlagSet, name string) {
	p.flag = name
	f.StringVar(&p.server, name, "", "`URL` of the messages: http:// or https://host:port, kestrel:///directory, sqlite:///file, memory://, "+
		"failover://a,b or hash://a,b|c (default $"+serverVariable+", or "+defaultServer+")")
	f.DurationVar(&p.timeout, "timeout", defaultTimeout, "how long a server may take to answer, besides waiting")
	f.StringVar(&p.user, "user", "", "`NAME` of the user (default $"+userVariable+"); the password is in $"+passwordVariable)
	prefix := ""
	if name != "server" {
		prefix = name + "-"
	}
	p.files.Define(f, prefix, "the certificates of https://", "")
}

// open opens the back end.
func (p *place) open(account string) (backend.Backend, error) {
	if p.timeout <= 0 {
		return nil, misused("--timeout is a time above zero, and not " + p.timeout.String())
	}
	o := backends.Options{
		Account: account, User: cmp.Or(p.user, os.Getenv(userVariable)), Password: os.Getenv(passwordVariable),
		DialTimeout: p.timeout, ReplyTimeout: p.timeout,
	}
	if p.files.Named() {
		var err error
		if o.TLS, err = p.files.Config(); err != nil {
			return nil, err
		}
	}
	from, address := "--"+p.flag, cmp.Or(p.server, os.Getenv(serverVariable), defaultServer)
	if p.server == "" {
		from = "$" + serverVariable
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	b, err := backends.Open(address, o)
	if dir, ok := strings.CutPrefix(address, "kestrel://"); ok && errors.Is(err, engine.ErrLocked) {
		return nil, cli.Failed("the directory %s is in use by %s: let that one end, or ask a server by its URL", dir, cli.Holder(dir))
	}
	switch {
	case errors.Is(err, backend.ErrInvalid):
		return nil, misused(from + ": " + err.Error())
	case err != nil:
		return nil, cli.Failed("open the messages: %v", err)
	}
	return b, nil
}

// misused returns a mistake in the command line.
func misused(text string) error { return errors.New(text) }

// explain turns an error of a back end into a failure with its exit code.
func explain(err error) error {
	var done *cli.Failure
	if err == nil || errors.As(err, &done) {
		return err
	}
	code, advice := cli.ExitFailed, ""
	var answer *backend.Error
	var unverified *tls.CertificateVerificationError
	switch {
	case errors.Is(err, backend.ErrUnknownOutcome):
		code, advice = cli.ExitUnknown, "; look before you do it again"
	case errors.Is(err, backend.ErrNotFound):
		code = cli.ExitEmpty
	case errors.Is(err, backend.ErrFull), errors.Is(err, backend.ErrTooLarge), errors.Is(err, backend.ErrHeld),
		errors.Is(err, backend.ErrBusy):
		code = cli.ExitRefused
	case errors.Is(err, backend.ErrInvalid):
		code = cli.ExitUsage
	case errors.Is(err, backend.ErrUnavailable) && strings.HasPrefix(err.Error(), burrow.TextStatus):
		advice = "; 'kestrel cluster status' shows it, and --set Up changes it"
	case errors.Is(err, backend.ErrDenied) && errors.As(err, &answer) && answer.Code == http.StatusUnauthorized:
		advice = "; " + cli.SayWho
	case errors.Is(err, http.ErrSchemeMismatch):
		advice = "; the port does not encrypt: write http:// in --server"
	case errors.As(err, &unverified):
		advice = "; " + cli.TLSAdvice(err)
	case errors.Is(err, io.EOF):
		advice = "; if the port encrypts, write https:// in --server"
	case errors.Is(err, backend.ErrUnavailable):
		advice = "; is a server with a burrow_port running there? --server says where to look"
	}
	text := err.Error()
	if advice != "" {
		text = strings.TrimSuffix(text, ".") + advice
	}
	return &cli.Failure{Code: code, Text: text}
}

// flagged is a help page of flags.
func flagged(f *pflag.FlagSet) string {
	var b strings.Builder
	cli.WriteFlags(&b, f)
	return b.String()
}

// indented is a transcript as help pages have it.
func indented(text string) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		b.WriteString("    " + line)
	}
	return b.String()
}
