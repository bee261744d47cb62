package admin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
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
	// methods are those that the command takes; nil takes any, as the original did.
	methods []string
	// kind is the type that is meant when the path says none.
	kind string
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

// commands returns what can be asked for.
func commands() map[string]command {
	return map[string]command{
		// Those of the original.
		"ping":        {run: ping},
		"stats":       {run: statistics, costly: true},
		"server_info": {run: serverInfo},
		"shutdown":    {run: shutdown, local: true, changes: always},
		"quiesce":     {run: shutdown, local: true, changes: always},
		"reload":      {run: reload, local: true, changes: always},
		"threads":     {run: threads, local: true, costly: true},
		"gc":          {run: collectGarbage, local: true, changes: always, costly: true},
		"logging":     {run: logging, local: true, changes: setsLevel},
		// Ours.
		"histograms":  {run: histograms, costly: true, methods: readOnly()},
		"metrics":     {run: prometheusMetrics, costly: true, methods: readOnly()},
		"backup":      {run: takeBackup, local: true, changes: always, methods: []string{http.MethodPost}},
		"status":      {run: status, changes: isPost, methods: append(readOnly(), http.MethodPost)},
		"connections": {run: connections, costly: true, changes: isPost, methods: append(readOnly(), http.MethodPost)},
		"healthz":     {run: health, methods: readOnly(), kind: kindText},
		"readyz":      {run: readiness, methods: readOnly(), kind: kindText},
	}
}

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
	if !s.mayRead(r.Host) {
		plain(w, http.StatusForbidden, hostError(r.Host).Error())
		return
	}
	if r.URL.Path == "/" {
		s.index(w)
		return
	}
	name, kind := split(r.URL.Path)
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
	if changes || c.local {
		if err := s.refusal(r); err != nil {
			s.log.Warn("admin command refused", "command", name, "peer", r.RemoteAddr, "err", err)
			plain(w, http.StatusForbidden, err.Error())
			return
		}
	}
	if changes && !s.mayChange(r.Method) {
		notAllowed(w, []string{http.MethodPost}, "method not allowed: a request that changes something must be a POST, "+
			"as in curl -X POST "+shellQuote("http://"+r.Host+r.URL.RequestURI())+
			"; admin_get_controls = true in the configuration allows GET")
		return
	}
	if c.costly {
		select {
		case s.costly <- struct{}{}:
			defer func() { <-s.costly }()
		case <-r.Context().Done():
			return
		}
	}
	result, err := c.run(s, r)
	s.limitAnswer(w) // making it may have taken a while
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

// badRequest is an error of the one who asks.
type badRequest struct{ error }

func badRequestf(format string, args ...any) error { return badRequest{fmt.Errorf(format, args...)} }

func statusOf(err error) int {
	var bad badRequest
	switch {
	case errors.As(err, &bad):
		return http.StatusBadRequest
	case errors.Is(err, errNotReady):
		return http.StatusServiceUnavailable
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
