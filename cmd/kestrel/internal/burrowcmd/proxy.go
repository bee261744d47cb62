package burrowcmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kestrelmq/kestrel/client/backend/overhttp"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

const proxyPage = `Usage:
    kestrel proxy --backend URL [--listen HOST:PORT] [flags]

Serves Burrow's protocol, /v1.0, in front of other servers, a directory or a
file. With it, clients that know one address use many servers, or a file of
SQLite's. The answers are those of the back end, word by word.

The proxy does not ask clients for a user. It refuses requests of web pages, and
listens on this machine only unless --listen says otherwise.

SIGTERM or SIGINT ends it. It takes no more connections, answers requests that
wait with "nothing matches", and finishes the others. A second one ends it at
once.

Flags:
%s
Each queue is at one of two places, and the first place has a stand-in:

Example:
    $ kestrel proxy --backend 'hash://10.0.0.5:8080|10.0.0.6:8080,10.0.0.7:8080'

Exit status: 0 after a clean stop; 1 if it could not start, or not stop cleanly;
2 if the command line is wrong.
`

// Limits of the proxy's connections.
const (
	headWithin = 10 * time.Second // that a request head may take
	idleWithin = 5 * time.Minute  // that a connection may say nothing
)

// proxyFlags are those of `kestrel proxy`.
type proxyFlags struct {
	place
	listen, certificate, key string
	grace                    time.Duration
}

// NewProxy returns `kestrel proxy`.
func NewProxy() *cobra.Command {
	cmd := &cobra.Command{Use: "proxy", Short: "serve Burrow's protocol in front of any back end", Args: cli.NoArguments}
	p := new(proxyFlags)
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	f.StringVar(&p.listen, "listen", "127.0.0.1:8080", "`HOST:PORT` to listen on; port 0 is any free one")
	p.define(f, "backend")
	f.StringVar(&p.certificate, "tls-cert", "", "`FILE` with the certificate of the proxy: it then speaks https")
	f.StringVar(&p.key, "tls-key", "", "`FILE` with its key")
	f.DurationVar(&p.grace, "grace", 10*time.Second, "how long what has begun may take at the end")
	cmd.Flags().AddFlagSet(f)
	cmd.Flags().Bool("help", false, "print this")
	cmd.Long = fmt.Sprintf(proxyPage, flagged(f))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.ErrOrStderr()) }
	return cmd
}

// serve runs the proxy until a signal ends it.
func (p *proxyFlags) serve(stderr io.Writer) error {
	switch {
	case p.server == "":
		return misused("which back end? Say --backend URL")
	case (p.certificate == "") != (p.key == ""):
		return misused("--tls-cert and --tls-key go together")
	case p.grace < 0:
		return misused("--grace is a time, and not " + p.grace.String())
	}
	signal.Ignore(syscall.SIGPIPE) // a proxy outlives the program that reads its log
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	b, err := p.open("")
	if err != nil {
		return err
	}
	defer b.Close()
	front := overhttp.Handler(b)
	server := &http.Server{
		Handler: front, ReadHeaderTimeout: headWithin, IdleTimeout: idleWithin, MaxHeaderBytes: burrow.DefaultMaxHead,
		ErrorLog: log.New(stderr, "kestrel: ", 0),
	}
	listener, err := p.listener()
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "kestrel: the proxy listens on %s\n", listener.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return cli.Failed("serve: %v", err)
	case <-ctx.Done():
	}
	stop() // a second signal ends the process
	front.Drain()
	within, cancel := context.WithTimeout(context.Background(), p.grace)
	defer cancel()
	err = server.Shutdown(within)
	if errors.Is(err, context.DeadlineExceeded) {
		server.Close()
		err = fmt.Errorf("requests took longer than %v", p.grace)
	}
	<-served
	if err != nil {
		return cli.Failed("stop: %v", err)
	}
	return nil
}

// listener listens, with TLS if there is a certificate.
func (p *proxyFlags) listener() (net.Listener, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if p.certificate != "" {
		pair, err := cli.ReadKeyPair(p.certificate, p.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	listener, err := net.Listen("tcp", p.listen)
	var op *net.OpError
	var bad *net.AddrError
	switch {
	case errors.As(err, &bad):
		return nil, cli.Failed("cannot listen on %s: %s", p.listen, bad.Err)
	case errors.As(err, &op) && errors.Is(err, syscall.EADDRINUSE):
		return nil, cli.Failed("address %s is in use: stop the program that listens there, or choose another port with --listen", p.listen)
	case errors.As(err, &op):
		return nil, cli.Failed("cannot listen on %s: %v", p.listen, op.Err)
	case err != nil:
		return nil, cli.Failed("cannot listen on %s: %v", p.listen, err)
	case p.certificate != "":
		listener = tls.NewListener(listener, config)
	}
	return listener, nil
}
