package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/kestrelmq/kestrel/access"
)

// watchedRequest is a request of a user that is being answered. A backup takes hours, and a reload may come meanwhile.
type watchedRequest struct {
	user   string
	allows func(*access.User) error // returns why a user may not send it
	end    context.CancelCauseFunc
}

// watch returns r with a context that ends when a reload takes its user, or when allows returns an error for the user of
// now. The caller calls leave when r has been answered.
func (s *Server) watch(r *http.Request, allows func(*access.User) error) (watched *http.Request, leave func()) {
	u := userOf(r)
	if u == nil {
		return r, func() {}
	}
	ctx, end := context.WithCancelCause(r.Context())
	w := &watchedRequest{u.Name, allows, end}
	s.watching.Lock()
	s.watched[w] = struct{}{}
	s.watching.Unlock()
	s.review(w) // a reload may have come since the user was looked up
	return r.WithContext(ctx), func() {
		s.watching.Lock()
		delete(s.watched, w)
		s.watching.Unlock()
		end(nil)
	}
}

// Reidentify ends the requests being answered that the users of now may not send, after Options.Access got others.
func (s *Server) Reidentify() {
	s.watching.Lock()
	defer s.watching.Unlock()
	for w := range s.watched {
		s.review(w)
	}
}

// review ends w if its user is gone, or may not send it any more.
func (s *Server) review(w *watchedRequest) {
	u := s.opts.Access.Users().Named(w.user)
	if u == nil {
		u = new(access.User) // without rights
	}
	if err := w.allows(u); err != nil {
		w.end(err)
	}
}

// revoked returns why r was ended while it was being answered, or nil if it was not.
func revoked(r *http.Request) error {
	var denied *access.Denied
	if errors.As(context.Cause(r.Context()), &denied) {
		return denied
	}
	return nil
}
