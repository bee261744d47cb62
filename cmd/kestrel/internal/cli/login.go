package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
)

// Variables of the environment that say who a command is. Flags and arguments would show secrets to every user of the
// machine.
const (
	UserVariable     = "KESTREL_USER"
	PasswordVariable = "KESTREL_PASSWORD"
	TokenVariable    = "KESTREL_TOKEN"
)

// AdminVariable names the admin port of the server, and DefaultAdmin is where it is if nothing says so.
const (
	AdminVariable = "KESTREL_ADMIN"
	DefaultAdmin  = "127.0.0.1:2223"
)

// Reason is why a request failed, without its method and address, which somebody did not type.
func Reason(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the server did not answer in time")
	}
	return err
}

// SayWho is what to do when a server asks who the command is.
const SayWho = "say --user NAME, with the password in $" + PasswordVariable

// TLSAdvice is what to do about an error of TLS, and "" if there is nothing.
func TLSAdvice(err error) string {
	var unknown *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &unknown):
		return "--tls-ca names the authority that signs the server's certificate"
	case errors.As(err, &plain), errors.Is(err, http.ErrSchemeMismatch):
		return "the port does not encrypt: leave out --tls, and the files that go with it"
	}
	return ""
}

// StatusAdvice is what to do when an admin port answers with a status and a text. It is to stand behind the text; "" if
// there is nothing.
func StatusAdvice(status int, text string) string {
	switch {
	case status == http.StatusUnauthorized:
		return "; " + SayWho
	case status == http.StatusBadRequest && strings.HasSuffix(text, "HTTP request to an HTTPS server."): // as net/http says it
		return " The port encrypts: say --tls"
	case status == http.StatusNotFound && text == "":
		return "nothing is there; is it the admin port?"
	}
	return ""
}

// Login is how a command says who it is to an admin port. The zero Login says nothing.
type Login struct {
	User, Password string
	Token          string      // in place of the two
	TLS            *tls.Config // nil: the port does not encrypt
}

// Sign has r, whose URL is http, say who sends it, and over TLS if the login has it.
func (l Login) Sign(r *http.Request) {
	if l.TLS != nil {
		r.URL.Scheme = "https"
	}
	switch {
	case l.Token != "":
		r.Header.Set("Authorization", "Bearer "+l.Token)
	case l.User != "":
		r.SetBasicAuth(l.User, l.Password)
	}
}

// Credentials are the files of a connection over TLS.
type Credentials struct {
	CA               string // of the authority that signs the server's certificate; "" for those of the system
	Certificate, Key string // that say who the command is; "" for none
}

// Define adds the flags --tls-ca, --tls-cert and --tls-key. The names of the latter begin with prefix.
func (c *Credentials) Define(f *pflag.FlagSet, prefix, of, otherwise string) {
	f.StringVar(&c.CA, "tls-ca", "", "`FILE` of the authority that signs "+of+" (default "+otherwise+"the system's)")
	f.StringVar(&c.Certificate, prefix+"tls-cert", "", "`FILE` with the certificate that says who the command is, in PEM")
	f.StringVar(&c.Key, prefix+"tls-key", "", "`FILE` with its key, in PEM")
}

// Or returns the files of c, and for those that it does not name the ones of other.
func (c Credentials) Or(other Credentials) Credentials {
	c.CA = cmp.Or(c.CA, other.CA)
	if c.Certificate == "" && c.Key == "" {
		c.Certificate, c.Key = other.Certificate, other.Key
	}
	return c
}

// Named reports whether any file is named: then there is TLS.
func (c Credentials) Named() bool { return c != Credentials{} }

// Config returns a configuration of TLS with what the files hold.
func (c Credentials) Config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		pem, err := ReadSmallFile(c.CA)
		if err != nil {
			return nil, Failed("read the authority of servers: %v", err)
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Failed("%s has no certificate in PEM", c.CA)
		}
	}
	switch {
	case c.Certificate == "" && c.Key == "":
		return config, nil
	case c.Certificate == "" || c.Key == "":
		return nil, &Failure{Code: ExitUsage, Text: "a certificate and its key go together: name the file of each"}
	}
	own, err := ReadKeyPair(c.Certificate, c.Key)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{own}
	return config, nil
}
