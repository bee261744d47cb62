package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kestrelmq/kestrel/access"
)

// command is one thing that can be asked for: /NAME, /NAME.json, /NAME.txt.
type command struct {
	// run returns the answer: a string, an object, a verdict, a page or an http.Handler.
	run func(*Server, *http.Request) (any, error)
	// local says that the command is for this machine only, whatever the method.
	local bool
	// changes reports whether a request changes something: it must then be a POST, and is for this
	// machine only. Nil changes nothing.
	changes func(*http.Request) bool
	// costly says that an answer describes every queue.
	costly bool
	// listens says that an answer takes as long as it was asked to.
	listens bool
	// methods are those that the command takes; nil takes any, as the original did.
	methods []string
	// kind is the type that is meant when the path says none.
	kind string
	// needs are the rights that a user needs; for Stats alone, on some queue, of which the answer then speaks. A
	// change needs Operate as well. A command without needs is for users only if it is free.
	needs access.Right
	free  bool
}

// page is an answer in a form of its own.
type page struct {
	contentType string
	write       func(io.Writer) error
}

// verdict is an answer that probes look at the status code of.
type verdict struct {
	good    bool
	word    string // first line of the text
	details object
}

const (
	kindJSON = "json"
	kindText = "txt"

	typeJSON = "application/json"
	typeText = "text/plain; charset=utf-8"
	typeHTML = "text/html; charset=utf-8"
)

// readOnly are the methods of commands that the original did not have and that change nothing.
func readOnly() []string { return []string{http.MethodGet, http.MethodHead} }

// split takes the command and the type out of a path: the last component is COMMAND[.TYPE], and
// what comes before it does not matter.
func split(path string) (name, kind string) {
	last := path[strings.LastIndexByte(path, '/')+1:]
	name, _, dotted := strings.Cut(last, ".")
	if dotted {
		kind = last[strings.LastIndexByte(last, '.')+1:]
	}
	return name, kind
}

// answer runs the command that the path names.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	s.limitAnswer(w)
	if userOf(r) == nil && !s.mayRead(r.Host) {
		plain(w, http.StatusForbidden, hostError(r.Host).Error())
		return
	}
	if r.URL.Path == "/" {
		s.index(w)
		return
	}
	name, _ := split(r.URL.Path)
	c, ok := s.commands[name]
	if !ok {
		plain(w, http.StatusNotFound, "no such command")
		return
	}
	if c.methods != nil && !slices.Contains(c.methods, r.Method) {
		notAllowed(w, c.methods, "method not allowed")
		return
	}
	changes := c.changes != nil && c.changes(r)
	if err := c.mayRun(r, changes); err != nil {
		s.forbid(w, r, name, err)
		return
	}
	if err := s.admit(r, c); err != nil {
		w.Header().Set("Retry-After", strconv.FormatInt((err.Wait+999)/1000, 10))
		plain(w, http.StatusTooManyRequests, err.Error())
		return
	}
	if changes || c.local {
		if err := s.refusal(r); err != nil {
			s.forbid(w, r, name, err)
			return
		}
	}
	if changes && !s.mayChange(r.Method) {
		notAllowed(w, []string{http.MethodPost}, "method not allowed: a request that changes something must be a POST, "+
			"as in curl -X POST "+shellQuote("http://"+r.Host+r.URL.RequestURI())+
			"; admin_get_controls = true in the configuration allows GET")
		return
	}
	if !c.costly {
		s.run(w, r, c, changes)
		return
	}
	select {
	case s.costly <- struct{}{}:
	case <-r.Context().Done():
		return
	}
	a := &worded{ResponseWriter: w, account: s.account()}
	defer a.drop()
	func() {
		defer func() { <-s.costly }()
		s.run(a, r, c, changes)
	}()
	s.limitAnswer(w)
	if err := s.unread.send(a); err != nil {
		s.log.Debug("admin answer not delivered", "command", name, "peer", r.RemoteAddr, "err", err)
	}
}

// run answers with what a command returns, or with why it does not run.
func (s *Server) run(w http.ResponseWriter, r *http.Request, c command, changes bool) {
	name, kind := split(r.URL.Path)
	if c.listens { // the end of a time limit would look like the end of the client
		http.NewResponseController(w).SetReadDeadline(time.Time{})
	}
	r, leave := s.watch(r, func(u *access.User) error { return c.allows(u, changes) })
	defer leave()
	result, err := c.run(s, r)
	s.limitAnswer(w) // making it may have taken a while
	if denied := revoked(r); denied != nil {
		s.forbid(w, r, name, denied)
		return
	}
	if err != nil {
		plain(w, statusOf(err), "error processing command: "+err.Error())
		return
	}
	if h, ok := result.(http.Handler); ok {
		h.ServeHTTP(w, r)
		return
	}
	if kind == "" {
		kind = c.kind
	}
	if err := s.write(w, r, kind, result); err != nil {
		s.log.Debug("admin answer not delivered", "command", name, "peer", r.RemoteAddr, "err", err)
	}
}

// challenge asks for a password or a token.
const challenge = `Basic realm="kestrel", charset="UTF-8"`

// identify returns r with the user that sent it, or answers why nobody knows who did and returns nil. Then the
// connection ends: a stranger keeps none of them open.
func (s *Server) identify(w http.ResponseWriter, r *http.Request) *http.Request {
	p := peerOf(r)
	if !p.auth.Asks() {
		p.conn.admit()
		return r
	}
	u, err := whoSent(s.opts.Access, r)
	if err == nil {
		p.conn.admit()
		return r.WithContext(context.WithValue(r.Context(), userKey{}, u))
	}
	w.Header().Set("Connection", "close")
	if errors.Is(err, access.ErrBusy) {
		w.Header().Set("Retry-After", "5")
		plain(w, http.StatusTooManyRequests, err.Error())
		return nil
	}
	if r.Header.Get("Authorization") != "" {
		s.logFailure(r)
	}
	w.Header().Set("WWW-Authenticate", challenge)
	plain(w, http.StatusUnauthorized, err.Error())
	return nil
}

// logFailure logs that somebody failed to authenticate, once a second at most.
func (s *Server) logFailure(r *http.Request) {
	if due(&s.failedAt) {
		name := "with a token"
		if sent, _, ok := r.BasicAuth(); ok {
			name = s.opts.Access.LogName(sent)
		}
		s.log.Warn("authentication failed", "user", name, "peer", r.RemoteAddr, "failed", s.opts.Access.Counts().Failed)
	}
}

// due reports whether a line may be logged of a kind that was logged last at a time, in Unix ns: one a second may. If so,
// it is taken to be logged.
func due(at *atomic.Int64) bool {
	now, last := time.Now().UnixNano(), at.Load()
	return now-last >= int64(time.Second) && at.CompareAndSwap(last, now)
}

// forbid refuses a command because of err, and logs one a second at most. It counts that a user has no right to it.
func (s *Server) forbid(w http.ResponseWriter, r *http.Request, command string, err error) {
	if due(&s.refusedAt) {
		user := ""
		if u := userOf(r); u != nil {
			user = u.Name
		}
		s.log.Warn("admin command refused", "command", command, "user", user, "peer", r.RemoteAddr, "err", err)
	}
	var denied *access.Denied
	if server := s.attached.Load(); server != nil && errors.As(err, &denied) {
		server.CountDenied()
	}
	plain(w, http.StatusForbidden, err.Error())
}

// mayRun returns why the user that sent r may not run a command.
func (c *command) mayRun(r *http.Request, changes bool) error {
	return c.allows(userOf(r), changes)
}

// allows returns why a user may not run a command; nil is nobody in particular.
func (c *command) allows(u *access.User, changes bool) error {
	needs := c.needs
	if changes {
		needs |= access.Operate
	}
	switch {
	case u == nil, needs == 0 && c.free:
		return nil
	case needs == access.Stats && u.Somewhere(access.Stats):
		return nil // it sees its queues
	case needs != 0 && u.Everywhere(needs):
		return nil
	}
	return &access.Denied{Right: needs}
}

// mayChange reports whether a request with a method may change something.
func (s *Server) mayChange(method string) bool {
	return method == http.MethodPost || method == http.MethodGet && s.opts.GetControls
}

// notAllowed answers a request whose method is none of those given.
func notAllowed(w http.ResponseWriter, methods []string, why string) {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	plain(w, http.StatusMethodNotAllowed, why)
}

// shellQuote returns s as one word of a shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// badRequest is an error of the client.
type badRequest struct{ error }

func badRequestf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.Is(err, errNotReady):
		return http.StatusServiceUnavailable
	case errors.Is(err, errSniffing):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

// plain answers with one line of text.
func plain(w http.ResponseWriter, code int, line string) {
	w.Header().Set("Content-Type", typeText)
	w.WriteHeader(code)
	io.WriteString(w, line+"\n")
}

// write sends an answer in the form that kind asks for: text if it is txt, else JSON.
func (s *Server) write(w http.ResponseWriter, r *http.Request, kind string, result any) error {
	code := http.StatusOK
	if v, ok := result.(verdict); ok && !v.good {
		code = http.StatusServiceUnavailable
	}
	if p, ok := result.(page); ok {
		return send(w, code, p.contentType, p.write)
	}
	if kind == kindText {
		return send(w, code, typeText, func(w io.Writer) error { return writeText(w, result) })
	}
	callback, err := callbackOf(r)
	if err != nil {
		plain(w, http.StatusBadRequest, err.Error())
		return nil
	}
	return send(w, code, typeJSON, func(w io.Writer) error {
		if callback == "" {
			return writeJSON(w, result)
		}
		io.WriteString(w, callback+"(") // an error shows when what follows is written
		if err := writeJSON(w, result); err != nil {
			return err
		}
		_, err := io.WriteString(w, ")")
		return err
	})
}

func send(w http.ResponseWriter, code int, contentType string, write func(io.Writer) error) error {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(code)
	b := bufio.NewWriterSize(w, 32<<10)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// defaultCallback is what is meant by callback=true and by callback= without a name.
const defaultCallback = "ostrichCallback"

// callbackOf returns the function that the JSON is to be an argument of; "" for none.
func callbackOf(r *http.Request) (string, error) {
	query := r.URL.Query()
	if !query.Has("callback") {
		return "", nil
	}
	name := query.Get("callback")
	switch {
	case name == "" || name == "true":
		return defaultCallback, nil
	case !regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$.]{0,63}$`).MatchString(name):
		return "", errors.New("callback is not the name of a function")
	}
	return name, nil
}

// limitAnswer gives the client some time, from now on, to take the answer.
func (s *Server) limitAnswer(w http.ResponseWriter) {
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.answerTime))
}
