package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/certs"
)

// secure reads the certificates, and gives each listener its own. It returns a failure that names what is wrong.
func (d *daemon) secure() error {
	c := d.config
	d.certificates = make(map[string]*certs.Source)
	for name, files := range c.TLS {
		s, err := certs.Open(files)
		if err != nil {
			return cli.Failed("[tls.%s]: %s", name, err)
		}
		d.certificates[name] = s
	}
	var own *certs.Source
	if c.SelfSigned {
		var err error
		if own, err = certs.SelfSigned([]string{c.ListenAddress()}); err != nil {
			return cli.Failed("make a certificate: %s", err)
		}
		d.log.Warn("TLS with a certificate of its own: clients cannot tell this server from another, unless they"+
			" compare the fingerprint", "sha256", own.Fingerprint())
	}
	give := func(l *netloop.Listener, name string) (err error) {
		source := d.certificates[name]
		if name == "" {
			source = own
		}
		if source == nil {
			return nil
		}
		if l.TLS, err = source.Server(clientAuth(l.Auth, source)); err != nil {
			return cli.Failed("listener %s: [tls.%s]: %s", l.Port.Address, name, err)
		}
		return nil
	}
	var errs []error
	for i := range c.Net.Listeners {
		errs = append(errs, give(&c.Net.Listeners[i], c.NetTLS[i]))
	}
	for i := range c.AdminPorts {
		errs = append(errs, give(&c.AdminPorts[i], c.AdminTLS[i]))
	}
	shorthand := netloop.Listener{Auth: c.Net.Auth}
	errs = append(errs, give(&shorthand, ""))
	c.Net.TLS = shorthand.TLS
	if err := errors.Join(errs...); err != nil {
		return cli.Failed("%s", err)
	}
	return nil
}

// clientAuth is how a listener asks for certificates of clients. With client_ca it wants one, whatever else it asks
// for, unless auth is "any".
func clientAuth(auth netloop.Auth, source *certs.Source) tls.ClientAuthType {
	switch {
	case auth == netloop.AuthAny:
		return tls.VerifyClientCertIfGiven
	case auth == netloop.AuthCertificate, source.HasClientCA():
		return tls.RequireAndVerifyClientCert
	}
	return tls.NoClientCert
}

// watchCertificates takes new certificates in when their files change, until ctx is done.
func (d *daemon) watchCertificates(ctx context.Context) {
	if len(d.certificates) > 0 {
		go certs.Watch(ctx, certs.WatchEvery, d.log, d.certificates)
	}
}

// reloadCertificates reads the files again, and takes all of them or none.
func (d *daemon) reloadCertificates() error {
	var errs []error
	changed := make(map[string]func())
	for name, s := range d.certificates {
		take, err := s.Read()
		if err != nil {
			errs = append(errs, fmt.Errorf("[tls.%s]: %w", name, err))
		}
		if take != nil {
			changed[name] = take
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for name, take := range changed {
		take()
		d.log.Info("certificate reloaded", "tls", name, "fingerprint", d.certificates[name].Fingerprint())
	}
	return nil
}
