package clientcmd

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 64 << 20

// adminPort is a server's admin port, and who asks it.
type adminPort struct {
	address string // host:port
	place   *place
}

// adminPort returns the admin port at an address, for the user of the session.
func (s *session) adminPort(address string) adminPort {
	return adminPort{address, s.place}
}

// ask sends a request and returns the body of the answer.
func (a adminPort) ask(
	ctx context.Context, within time.Duration, method, command string, query url.Values,
) ([]byte, error) {
	login, err := a.place.login()
	if err != nil {
		return nil, err
	}
	signalled := ctx
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, port, err := net.SplitHostPort(a.address); err != nil || port == "" {
		return nil, misused("--admin: %q is not HOST:PORT", a.address)
	}
	address := url.URL{Scheme: "http", Host: a.address, Path: "/" + command, RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, method, address.String(), nil)
	if err != nil {
		return nil, misused("--admin: %q is not HOST:PORT", a.address)
	}
	login.Sign(request)
	web := http.Client{Transport: &http.Transport{TLSClientConfig: login.TLS}}
	defer web.CloseIdleConnections()
	reply, err := web.Do(request)
	if err != nil && signalled.Err() != nil {
		return nil, context.Cause(signalled)
	}
	if err != nil {
		advice := cli.TLSAdvice(err)
		if errors.Is(err, context.DeadlineExceeded) {
			advice = "is that an admin port? --admin says where to ask, and --timeout for how long"
		}
		advice = cmp.Or(advice, "the server needs admin_port in its configuration, and this command --admin HOST:PORT if it"+
			" is another")
		return nil, cli.Failed("the admin port %s cannot be asked: %v; %s", a.address, cli.Reason(err), advice)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer))
	if err != nil && signalled.Err() != nil {
		return nil, context.Cause(signalled)
	}
	if err != nil {
		return nil, cli.Failed("the admin port %s: %v", a.address, cli.Reason(err))
	}
	if reply.StatusCode != http.StatusOK {
		text := strings.TrimPrefix(strings.TrimSpace(string(body)), "error processing command: ")
		text += cli.StatusAdvice(reply.StatusCode, text)
		return nil, cli.Failed("the admin port %s answers %d: %s", a.address, reply.StatusCode, text)
	}
	return body, nil
}

// inOrder reads the members of a JSON object, in their order. Each, if not nil, gets the name of every member.
func inOrder[T any](data []byte, each func(name string, v *T) error) ([]T, error) {
	list := []T{}
	d := json.NewDecoder(bytes.NewReader(data))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		if each != nil {
			if err := each(fmt.Sprint(key), &v); err != nil {
				return nil, err
			}
		}
		list = append(list, v)
	}
	return list, nil
}
