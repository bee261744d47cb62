package cli

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
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

// Trust returns a configuration of TLS that trusts the authorities in a file, or those of the system if file is "".
func Trust(file string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return c, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, Failed("read the authority of servers: %v", err)
	}
	if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(pem) {
		return nil, Failed("%s has no certificate in PEM", file)
	}
	return c, nil
}
