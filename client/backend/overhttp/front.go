package overhttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// Front is a handler that serves a back end. Make it with [Handler].
type Front struct {
	back  backend.Backend
	drain sync.Once
	over  chan struct{} // closed when waits are to end
}

// Handler returns a handler that serves b. It does not close b.
func Handler(b backend.Backend) *Front { return &Front{back: b, over: make(chan struct{})} }

// Drain ends every wait, also those to come: a request that nothing matches is answered at once. Call it
// before http.Server.Shutdown, which waits for what is being answered.
func (f *Front) Drain() { f.drain.Do(func() { close(f.over) }) }

// exchange is one request and its reply.
type exchange struct {
	front *Front
	w     http.ResponseWriter
	r     *http.Request
	req   burrow.Request
	body  []byte

	modern bool // the request is one of /v1.1

	waited func() // says that no wait goes on
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := burrow.Head{Method: burrow.LookupMethod([]byte(r.Method)), Target: []byte(target(r.RequestURI))}
	x := &exchange{front: f, w: w, r: r, modern: head.IsModern()}
	if reason := ofWebPage(r); reason != "" {
		x.text(http.StatusForbidden, reason)
		return
	}
	if x.modern {
		x.text(http.StatusNotImplemented, textModern)
		return
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	head.Form = strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
	form := head.Form && head.Method == burrow.Post
	if head.Method == burrow.Put || form {
		most := int64(burrow.DefaultMaxBody)
		if form {
			most = burrow.MaxForm
		}
		if !x.read(most) {
			return
		}
	}
	err := head.Parse(&x.req)
	if err == nil && form {
		err = x.req.ParseForm(x.body)
	}
	if err != nil {
		x.refuse(err.(*burrow.ProtocolError))
		return
	}
	x.do()
}

// textModern refuses a request of /v1.1, whose receipts and deliveries back ends do not have.
const textModern = "This proxy speaks /v1.0. Send requests of /v1.1 to a kestrel server."

// target returns the path and query of a request target. Proxies send it with scheme and host before it.
func target(uri string) string {
	if _, rest, ok := strings.Cut(uri, "://"); ok && uri[0] != '/' {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			return "/"
		}
		return rest[slash:]
	}
	return uri
}

// ofWebPage returns why the request is refused, or an empty text. The server refuses one that a web page may have made
// in a browser that reaches the server.
func ofWebPage(r *http.Request) string {
	if r.Header.Get("Origin") != "" {
		return burrow.TextOrigin
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if local := err == nil && peer.Addr().Unmap().IsLoopback(); local && !isAddress(r.Host) {
		return burrow.TextHost
	}
	return ""
}

// isAddress reports whether a Host header has an IP address or localhost, perhaps with a port, or nothing.
func isAddress(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if name == "" || name == "localhost" {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return err == nil
}

// read reads the body. It reports false if it has answered: the body is too large, or broke off.
func (x *exchange) read(most int64) bool {
	var err error
	if x.r.ContentLength > most {
		err = &http.MaxBytesError{Limit: most}
	} else {
		x.body, err = readAll(http.MaxBytesReader(x.w, x.r.Body, most), x.r.ContentLength)
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		x.w.Header().Set("Connection", "close")
		x.text(http.StatusRequestEntityTooLarge, "The body is too large.")
	case err != nil:
		x.w.Header().Set("Connection", "close")
		x.text(http.StatusBadRequest, "The body breaks off, or is not framed as its head says.")
	}
	return err == nil
}

// refuse answers a request that cannot be understood.
func (x *exchange) refuse(e *burrow.ProtocolError) {
	switch {
	case e.Status == http.StatusMethodNotAllowed:
		x.w.Header().Set("Allow", x.req.Allow())
		x.reply(e.Status, burrow.Empty, nil)
	case e.Status == http.StatusNotFound:
		x.reply(e.Status, burrow.Empty, nil)
	case x.req.Word != nil:
		x.reply(e.Status, burrow.Octets, x.req.Word)
	default:
		x.text(e.Status, e.Reason)
	}
}

// reply answers.
func (x *exchange) reply(status int, kind burrow.ContentType, body []byte) {
	h := x.w.Header()
	h.Set("Content-Type", kind.String())
	if status == http.StatusNoContent {
		// The clients of 2011 read nothing without a length. Net/http takes it away by its usual spelling.
		h["content-length"] = []string{"0"}
	} else {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.w.WriteHeader(status)
	if len(body) > 0 {
		x.w.Write(body) // the client has gone, or it has not
	}
}

// text answers with a text for people, in the form that the version of the request has for it.
func (x *exchange) text(status int, text string) {
	if !x.modern {
		x.reply(status, burrow.Octets, []byte(text))
		return
	}
	x.w.Header().Set("Cache-Control", "no-store")
	x.reply(status, burrow.Problem, burrow.AppendProblem(nil, status, text))
}

// statuses are what errors of back ends are to clients.
var statuses = []struct {
	err    error
	status int
}{
	{backend.ErrNotFound, http.StatusNotFound},
	{backend.ErrInvalid, http.StatusBadRequest},
	{backend.ErrDenied, http.StatusForbidden},
	{backend.ErrHeld, http.StatusConflict},
	{backend.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{backend.ErrBusy, http.StatusTooManyRequests},
	{backend.ErrFull, http.StatusInsufficientStorage},
	{backend.ErrUnknownOutcome, http.StatusGatewayTimeout},
	{backend.ErrUnavailable, http.StatusServiceUnavailable},
	{backend.ErrClosed, http.StatusServiceUnavailable},
}

// fail answers with an error of the back end. Retry-After says that a 503 has changed nothing.
func (x *exchange) fail(err error) {
	if x.r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // nobody is there to read it
	}
	status, text := http.StatusInternalServerError, err.Error()
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			status = s.status
			break
		}
	}
	var e *backend.Error
	if errors.As(err, &e) {
		text = e.Text
		if e.Code >= 400 && !errors.Is(err, backend.ErrUnavailable) { // of which a 404 is no empty queue
			status = e.Code
		}
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable && !errors.Is(err, backend.ErrUnknownOutcome) {
		x.w.Header().Set("Retry-After", "1")
	}
	x.text(status, text)
}

// errDrained is why a wait has ended that Drain ended.
var errDrained = errors.New("the server stops")

// waiting calls do with what the request matches. If Drain ends its wait, do is called again without one, unless the
// back end does not know whether it has done something. Do calls x.waited when the wait is over by itself.
func (x *exchange) waiting(m backend.Match, do func(context.Context, backend.Match) error) error {
	x.waited = func() {}
	ctx := x.r.Context()
	if m.Wait > 0 {
		waits, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		ended := make(chan struct{})
		x.waited = sync.OnceFunc(func() { close(ended) })
		defer func() { x.waited() }()
		go func() {
			select {
			case <-x.front.over:
				cancel(errDrained)
			case <-ended:
			}
		}()
		err := do(waits, m)
		if !errors.Is(err, errDrained) || errors.Is(err, backend.ErrUnknownOutcome) {
			return err
		}
		m.Wait = 0
		x.waited()
	}
	return do(ctx, m)
}
