package netloop

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// This file finds the user who sends a request of Burrow's protocol, and checks the user's rights. HTTP names the
// user with each request: a proxy may send those of many clients over one connection. The session remembers the last
// Authorization that was right, so that the next request with the same one costs a comparison.

// burrowNeeds is what a user needs to run a request, by its Op.
var burrowNeeds = [burrow.OpRedrive + 1]need{
	burrow.OpVersions:       {0, onNothing},
	burrow.OpListAccounts:   {access.Stats, everywhere},
	burrow.OpDeleteAccounts: {access.Manage, everywhere},
	burrow.OpListQueues:     {access.Stats, somewhere},
	burrow.OpDeleteQueues:   {access.Manage, onAccount},
	burrow.OpGetMessages:    {access.Peek, onQueue},
	burrow.OpUpdateMessages: {access.Get, onQueue},
	burrow.OpDeleteMessages: {access.Get, onQueue},
	burrow.OpGetMessage:     {access.Peek, onQueue},
	burrow.OpPutMessage:     {access.Put, onQueue},
	burrow.OpUpdateMessage:  {access.Get, onQueue},
	burrow.OpDeleteMessage:  {access.Get, onQueue},
	burrow.OpOpenAPI:        {0, counted},
	burrow.OpAccounts:       {access.Stats, everywhere},
	burrow.OpQueues:         {access.Stats, somewhere},
	burrow.OpStats:          {access.Stats, onQueue},
	burrow.OpDeleteQueue:    {access.Manage, onQueue},
	burrow.OpBrowse:         {access.Peek, onQueue},
	burrow.OpPutBatch:       {access.Put, onQueue},
	burrow.OpLook:           {access.Peek, onQueue},
	burrow.OpRemove:         {access.Get, onQueue},
	burrow.OpReceive:        {access.Get, onQueue},
	burrow.OpSettle:         {access.Get, onQueue},
	burrow.OpExtend:         {access.Get, onQueue},
	burrow.OpAcknowledge:    {access.Get, onQueue},
	burrow.OpRedrive:        {access.Get, onQueue}, // and put where the messages go; see redrive
}

// wrongAccountError refuses a request about another account than that of its port.
type wrongAccountError string

func (e wrongAccountError) Error() string {
	return fmt.Sprintf("This port serves account %q alone.", string(e))
}

// burrowDenied returns why the client may not run the request that was parsed, or nil if it may.
func (s *session) burrowDenied() error {
	b := s.burrow
	n, name := b.need()
	if port := s.id.port; port != nil && port.account != "" && n.scope != onNothing && n.scope != counted &&
		string(b.req.Account) != port.account {
		return wrongAccountError(port.account)
	}
	if s.id.user == nil {
		return nil
	}
	return s.admit(n, name, b.at+int(s.skip))
}

// need returns what the request needs, and on which queue or account.
func (b *burrowState) need() (n need, name []byte) {
	n, name = burrowNeeds[b.req.Op], b.name
	if n.scope == onAccount {
		if name = bytes.TrimSuffix(name, []byte{'/'}); len(name) == 0 {
			name = b.req.Account
		}
	}
	return n, name
}

// stillDenied returns why the client may not go on with the request: a reload may have come since it began.
func (s *session) stillDenied() error { return s.denied(s.burrow.need()) }

// startJobIfAllowed is startJob for a job behind which the request goes on only if the client still may.
func (s *session) startJobIfAllowed(f func() error, done func(*session, error)) {
	s.startJob(f, func(s *session, err error) {
		if err == nil {
			err = s.stillDenied()
		}
		done(s, err)
	})
}

// admitBurrow reports whether the request whose head has n bytes may be read on. If not, it was answered, and taken
// are its bytes. Or a job finds out who the client is, and the session reads the head again then.
func (s *session) admitBurrow(n int) (taken int, admitted bool) {
	b := s.burrow
	port := s.id.port
	if len(b.head.Origin) > 0 && port != nil {
		b.frame.Origin = allowsOrigin(port.origins, b.head.Origin)
		if b.frame.Origin != "" && b.head.Method == burrow.Options {
			s.answerPreflight()
			return s.passBody(n), false
		}
	}
	if reason := s.ofWebPage(); reason != "" {
		s.burrowText(403, reason)
		return s.passBody(n), false
	}
	if port == nil || !port.auth.Asks() || s.knowsCredential() {
		if s.id.unknown { // another request was wrong; this one leaves it to the certificate
			s.id.become(s.id.user)
			s.loop.deadlines.remove(s)
		}
		return 0, true
	}
	return s.identifyBurrow(n)
}

// passBody has the body of a refused request, whose head has n bytes, read over, and returns n. The connection
// ends if the body is not worth it.
func (s *session) passBody(n int) int {
	h := &s.burrow.head
	if h.Chunked || h.Continue || h.Length > maxUnknown {
		s.quit()
		return n
	}
	s.skip = h.Length
	return n
}

// knowsCredential reports whether the request says nothing new of who its client is, and what it says was right.
func (s *session) knowsCredential() bool {
	b := s.burrow
	if said := b.head.Authorization; len(said) > 0 && s.id.port.auth != AuthCertificate {
		return !s.id.unknown && bytes.Equal(said, b.credential)
	}
	return s.id.names != nil // by its certificate
}

// identifyBurrow finds out who sends the request whose head has n bytes. It reports whether that is known now. If
// not, taken are the bytes of the request that was refused; 0 if a job checks a password.
func (s *session) identifyBurrow(n int) (taken int, known bool) {
	b, l := s.burrow, s.loop
	s.id.unknown = true
	s.awaitIdentity()
	said := b.head.Authorization
	scheme, rest, _ := bytes.Cut(said, []byte{' '})
	rest = bytes.TrimLeft(rest, " ")
	switch {
	case bytes.EqualFold(scheme, []byte("Bearer")):
		user, err := l.server.opts.Access.Token(string(rest))
		if err != nil {
			l.noteFailed(s, "with a token", err)
			return s.unidentified(n, err), false
		}
		if err := s.become(user); err != nil {
			return s.unidentified(n, err), false
		}
		l.deadlines.remove(s)
		s.id.names = nil
		b.credential = append(b.credential[:0], said...)
		return 0, true
	case !bytes.EqualFold(scheme, []byte("Basic")):
		return s.unidentified(n, errUnidentified), false
	}
	decoded, err := base64.StdEncoding.AppendDecode(nil, rest)
	name, password, found := bytes.Cut(decoded, []byte{':'})
	if err != nil || !found {
		return s.unidentified(n, access.ErrFailed), false
	}
	credential, head := bytes.Clone(said), b.head
	s.identify(name, password, func(s *session, err error) {
		if err == nil {
			b.credential = credential // the head is read again
			return
		}
		b.head = head // without what it had in its slices
		s.refuseIdentity(err)
		taken := s.passBody(n)
		s.skip += int64(taken)
	})
	return 0, false
}

// unidentified refuses the request whose head has n bytes, because nobody knows who sends it.
func (s *session) unidentified(n int, err error) int {
	s.refuseIdentity(err)
	taken := s.passBody(n)
	s.strike()
	return taken
}

// Header lines of replies.
const (
	authenticateFields = "WWW-Authenticate: Basic realm=\"kestrel\", charset=\"UTF-8\"\r\nWWW-Authenticate: Bearer\r\n"
	preflightFields    = "Access-Control-Allow-Methods: GET, PUT, POST, DELETE\r\n" +
		"Access-Control-Allow-Headers: Authorization, Content-Type\r\nAccess-Control-Max-Age: 600\r\n"
)

// refuseIdentity says what was wrong with what the client said of who it is.
func (s *session) refuseIdentity(err error) {
	status, _ := burrowRefusal(err)
	if status == 401 {
		s.burrow.frame.Fields += authenticateFields
	}
	s.refuse(err)
}

// answerPreflight answers a browser that asks what a page may send.
func (s *session) answerPreflight() {
	s.burrow.frame.Fields = preflightFields
	s.burrowEmpty(204)
}

// allowsOrigin returns what a reply says of the pages that may read it, if origin is among origins; else "".
func allowsOrigin(origins []string, origin []byte) string {
	for _, o := range origins {
		if o == "*" || o == string(origin) {
			return o
		}
	}
	return ""
}

// ofWebPage returns why the request is refused as that of a web page, in a browser that reaches the server. It is
// empty for other requests. A page of another site sends an Origin. One whose name was made to lead to this machine
// sends that name as Host; it knows no password.
func (s *session) ofWebPage() string {
	h := &s.burrow.head
	asks := s.id.port != nil && s.id.port.auth.Asks()
	switch {
	case len(h.Origin) > 0 && s.burrow.frame.Origin == "":
		return burrow.TextOrigin
	case s.local && !isAddress(h.Host) && !(asks && len(h.Authorization) > 0):
		return burrow.TextHost
	}
	return ""
}

// isAddress reports whether a Host header has an IP address or localhost, perhaps with a port, or nothing.
func isAddress(host []byte) bool {
	name := string(host)
	if name == "" || name == "localhost" || strings.HasPrefix(name, "localhost:") {
		return true
	}
	if _, err := netip.ParseAddrPort(name); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil
}
