package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/netloop/sealed"
)

// This file finds the user who sends a request, and says what that user may see.

type userKey struct{}

// userOf returns the user that sent r; nil if the port does not ask, and then the sender may see everything.
func userOf(r *http.Request) *access.User {
	u, _ := r.Context().Value(userKey{}).(*access.User)
	return u
}

// errUnauthenticated answers a request that does not say who sends it.
var errUnauthenticated = errors.New("unauthenticated: send a user's name and password, or a token")

// errTwoCredentials answers one that says so twice.
var errTwoCredentials = errors.New("there are two Authorization headers")

// errNoCertificate answers a client whose certificate is that of no user.
var errNoCertificate = errors.New("no user has this certificate: add its name to the certificates of a user")

// whoSent returns the user that sent r.
func whoSent(checker *access.Checker, r *http.Request) (*access.User, error) {
	if p := peerOf(r); (p.auth == netloop.AuthCertificate || p.auth == netloop.AuthAny) && r.TLS != nil {
		if len(r.TLS.PeerCertificates) > 0 {
			if u := checker.Users().WithCertificate(sealed.NamesOf(r.TLS.PeerCertificates[0])); u != nil {
				return u, nil
			}
		}
		if p.auth == netloop.AuthCertificate {
			return nil, errNoCertificate
		}
	}
	if len(r.Header["Authorization"]) > 1 { // a proxy may have looked at another one
		return nil, errTwoCredentials
	}
	if scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return checker.Token(strings.TrimLeft(token, " "))
	}
	name, password, ok := r.BasicAuth()
	if !ok {
		return nil, errUnauthenticated
	}
	ctx := r.Context()
	if c := peerOf(r).conn; c != nil && !c.known.Load() {
		bounded, cancel := context.WithDeadline(ctx, c.until)
		defer cancel()
		ctx = bounded
	}
	u, err := checker.Password(ctx, peerOf(r).from, name, []byte(password))
	if errors.Is(err, context.DeadlineExceeded) {
		err = access.ErrBusy
	}
	return u, err
}

// admit charges the user that sent r, and returns why a command is not run now. What needs no right always is.
func (s *Server) admit(r *http.Request, c command) (over *access.OverQuota) {
	if server := s.attached.Load(); server != nil && c.needs != 0 {
		errors.As(server.Admit(userOf(r)), &over)
	}
	return over
}

// seesSeries reports whether a user may see a series of the statistics: without limits, or one of a queue that it
// sees.
func seesSeries(u *access.User, name string) bool {
	if u.Everywhere(access.Stats) {
		return true
	}
	rest, ok := strings.CutPrefix(name, "q/")
	end := strings.LastIndexByte(rest, '/') // the name of a queue of an account has a slash of its own
	return ok && end >= 0 && u.Sees(rest[:end])
}

// seen returns what a user may see of a list.
func seen[T any](u *access.User, list []named[T]) []named[T] {
	if u.Everywhere(access.Stats) {
		return list
	}
	var left []named[T]
	for _, n := range list {
		if seesSeries(u, n.name) {
			left = append(left, n)
		}
	}
	return left
}

// namespaceOf is the name of a window of its own for each user.
func namespaceOf(r *http.Request, name string) string {
	if u := userOf(r); u != nil {
		return u.Name + "\x00" + name
	}
	return name
}
