package clientcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// explain turns an error of package client into a failure with its exit code, and says what to do.
func (p *place) explain(err error) error {
	var done *cli.Failure
	if err == nil || errors.As(err, &done) {
		return err
	}
	var usage *usageError
	if errors.As(err, &usage) {
		return err
	}
	code, advice := p.advise(err)
	text := err.Error()
	if advice != "" {
		text += "; " + advice
	}
	return &cli.Failure{Code: code, Text: text}
}

// advise returns the exit code of an error, and what to do; "" if there is nothing.
func (p *place) advise(err error) (code int, advice string) {
	code = cli.ExitFailed
	var dns *net.DNSError
	switch {
	case errors.Is(err, client.ErrUnknownOutcome):
		code, advice = cli.ExitUnknown, "look before you do it again"
		if closed := p.closed(err); closed != "" {
			advice += "; " + closed
		}
	case errors.Is(err, client.ErrEmpty):
		code = cli.ExitEmpty
	case errors.Is(err, cli.ErrItemTooLarge):
		code = cli.ExitRefused
	case errors.Is(err, client.ErrNotStored):
		code, advice = cli.ExitRefused, "'kestrel stat' shows what the queue holds"
	case errors.Is(err, client.ErrBadName), errors.Is(err, client.ErrBadKey):
		code = cli.ExitUsage
	case errors.Is(err, client.ErrProtocol):
		advice = "--server needs a port of the memcache protocol, by default 22133"
	case strings.Contains(err.Error(), "SERVER_ERROR over quota: "):
		advice = "quota of [users." + cmp.Or(p.user, "NAME") + "] in the server's configuration is the bound"
	case errors.Is(err, client.ErrAuthentication):
		advice = "the password is in $" + cli.PasswordVariable + ", or in the profile"
	case isUnknown(err):
		advice = cli.SayWho
	case isForbidden(err):
		advice = "allow of [users." + cmp.Or(p.user, "NAME") + "] in the server's configuration gives rights"
	case errors.Is(err, client.ErrRefused) && strings.HasSuffix(err.Error(), `"CLIENT_ERROR"`):
		advice = "the server's log says why: the name of a queue has at most 255 bytes, and no ~, . and /, for example"
	case errors.Is(err, client.ErrLost):
		advice = "the next to ask gets it"
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "is a server running there? --server says where to look"
	case errors.As(err, &dns):
		advice = "is the name right? --server says where to look"
	case errors.Is(err, context.Canceled):
		advice = "a signal ended this"
	default:
		advice = cmp.Or(cli.TLSAdvice(err), p.closed(err))
	}
	return code, advice
}

// isDenied reports whether a server gives an error because of who the user is, or is not.
func isDenied(err error) bool {
	return errors.Is(err, client.ErrAuthentication) || isUnknown(err) || isForbidden(err)
}

// isUnknown reports whether a server asks who the user is.
func isUnknown(err error) bool {
	return errors.Is(err, client.ErrRefused) && (strings.HasSuffix(err.Error(), `"CLIENT_ERROR authentication failure"`) ||
		strings.HasSuffix(err.Error(), `"CLIENT_ERROR unauthenticated"`))
}

// isForbidden reports whether a user lacks a right.
func isForbidden(err error) bool {
	return errors.Is(err, client.ErrRefused) && strings.Contains(err.Error(), `"CLIENT_ERROR not allowed: `)
}

// closed is what to do when the server has closed the connection, as a port does that encrypts. A server that has
// answered before has ended, or was stopped.
func (p *place) closed(err error) string {
	if errors.Is(err, io.EOF) && !p.tls && !p.answered {
		return "if the port encrypts, say --tls; else, is it of the memcache protocol, as 22133 is by default?"
	}
	return ""
}

// usageError is a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// misused returns a mistake in the command line.
func misused(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }
