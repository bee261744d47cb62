package netloop

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"

	"github.com/kestrelmq/kestrel/netloop/ports"
)

// This file has the options of a port.

// Names of the protocols.
const (
	ProtocolMemcache = "memcache"
	ProtocolText     = "text"
	ProtocolThrift   = "thrift"
	ProtocolBurrow   = "burrow"
)

// Auth is how the peers of a listener say who they are.
type Auth string

// The ways. The zero Auth is AuthNone.
const (
	AuthNone        Auth = "none"        // they do not, and may do everything
	AuthPassword    Auth = "password"    // by a user's name and password, or over HTTP by a token
	AuthCertificate Auth = "certificate" // by a certificate, over TLS
	AuthAny         Auth = "any"         // by a certificate, or else by a password
)

// Asks reports whether peers are asked at all.
func (a Auth) Asks() bool { return a != "" && a != AuthNone }

// Listener is a port that a protocol is spoken on, and who may use it.
type Listener struct {
	Protocol string // ProtocolMemcache, ProtocolText, ProtocolThrift or ProtocolBurrow
	Port     ports.Spec
	Auth     Auth
	TLS      *tls.Config // nil: plain

	// Of Burrow's protocol alone:

	Account string   // the account that is served; "" serves all
	Origins []string // of web pages whose requests are served, as browsers spell them; "*" is every one

	// Of the memcache protocol alone:

	ReplyKey ReplyKey
}

// ReplyKey is what the reply to a GET names. The zero ReplyKey is what Options.ReplyWithKey says.
type ReplyKey string

// What it may name.
const (
	ReplyQueue   ReplyKey = "queue"
	ReplyRequest ReplyKey = "request" // the whole key of the request, options included
)

// orDefault reports whether it is the whole key, as withKey says where nothing is chosen.
func (r ReplyKey) orDefault(withKey bool) bool { return r == ReplyRequest || r == "" && withKey }

// Validate reports what is wrong with l.
func (l *Listener) Validate() error {
	all := []string{ProtocolMemcache, ProtocolText, ProtocolThrift, ProtocolBurrow}
	if !slices.Contains(all, l.Protocol) {
		return fmt.Errorf("unknown protocol %q: want one of %q", l.Protocol, all)
	}
	auths := []Auth{AuthNone, AuthPassword, AuthCertificate, AuthAny}
	if l.Auth != "" && !slices.Contains(auths, l.Auth) {
		return fmt.Errorf("unknown auth %q: want one of %q", l.Auth, auths)
	}
	if l.TLS == nil && (l.Auth == AuthCertificate || l.Auth == AuthAny) {
		return fmt.Errorf("auth %q needs TLS: name a certificate for the listener", l.Auth)
	}
	if l.Protocol != ProtocolBurrow && (l.Account != "" || len(l.Origins) > 0) {
		return fmt.Errorf("account and origins are for protocol burrow, and this listener speaks %s: leave them out", l.Protocol)
	}
	if l.Protocol != ProtocolMemcache && l.ReplyKey != "" {
		return fmt.Errorf("a reply key is for protocol memcache, and this listener speaks %s: leave it out", l.Protocol)
	}
	if !slices.Contains([]ReplyKey{"", ReplyQueue, ReplyRequest}, l.ReplyKey) {
		return fmt.Errorf("unknown reply key %q: want %s or %s", l.ReplyKey, ReplyQueue, ReplyRequest)
	}
	if strings.ContainsAny(l.Account, "/\x00") {
		return fmt.Errorf("account %q: the name of an account may not have a slash or a NUL", l.Account)
	}
	return ports.CheckAddress(l.Port.Address)
}

// all returns the listeners of o: those of the three addresses, and then Options.Listeners.
func (o *Options) all() []Listener {
	var list []Listener
	for _, short := range []struct{ protocol, addr string }{
		{ProtocolMemcache, o.Memcache}, {ProtocolThrift, o.Thrift}, {ProtocolText, o.Text},
		{ProtocolBurrow, o.Burrow},
	} {
		if short.addr != "" {
			list = append(list, Listener{Protocol: short.protocol, Port: ports.Spec{Address: short.addr}, Auth: o.Auth, TLS: o.TLS})
		}
	}
	return append(list, o.Listeners...)
}

// discount takes a connection off the counts of open ones.
func (s *Server) discount(ln *listener) {
	s.connections.Add(-1)
	if ln != nil {
		ln.Leave()
	}
}
