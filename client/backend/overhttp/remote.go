package overhttp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

// Defaults of [Options].
const (
	DefaultDialTimeout  = 3 * time.Second
	DefaultReplyTimeout = 30 * time.Second
)

// Options configure a [Remote]. The zero Options are good for most.
type Options struct {
	// TLS is how https:// encrypts; nil checks the server's certificate by the system's authorities.
	TLS *tls.Config
	// User and Password are sent with each request. User "" leaves it to the URL.
	User, Password string
	// DialTimeout bounds the making of one connection.
	DialTimeout time.Duration
	// ReplyTimeout is how long a server may take to begin its answer, on top of the time that it was
	// asked to wait. It is also how long each further piece of the answer may take.
	ReplyTimeout time.Duration
	// Dial makes connections in place of TCP; nil does not.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Remote is a [backend.Backend] over a server. Make it with [Open].
type Remote struct {
	base           string // "http://host:port/v1.0"
	user, password string
	timeout        time.Duration
	most           int64 // bytes of one message of an answer: maxMessage
	http           *http.Client

	ctx    context.Context // ends with Close
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup
	mu     sync.Mutex // held while a call begins, and while Close does
}

// Open returns a back end of the server at a URL. That has http or https, a host, and perhaps a user, a password and a
// port. It connects when it is first asked for something. Close it.
func Open(address string, o Options) (*Remote, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return nil, backend.Refuse(backend.ErrInvalid,
			fmt.Sprintf("address %q: want http://host:port, perhaps with user:password@ before the host", Redacted(address)))
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: cmp.Or(o.DialTimeout, DefaultDialTimeout)}).DialContext
	}
	r := &Remote{base: u.Scheme + "://" + u.Host, user: o.User, password: o.Password, most: maxMessage}
	if r.user == "" && u.User != nil {
		r.user = u.User.Username()
		r.password, _ = u.User.Password()
	}
	r.timeout = cmp.Or(o.ReplyTimeout, DefaultReplyTimeout)
	r.http = &http.Client{
		Transport: &http.Transport{
			DialContext: dial, TLSClientConfig: o.TLS, TLSHandshakeTimeout: cmp.Or(o.DialTimeout, DefaultDialTimeout),
			MaxIdleConns: 256, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	return r, nil
}

// Redacted returns an address without its password, for messages.
func Redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "(an address that is no URL)"
	}
	return u.Redacted()
}

// Close implements [backend.Backend].
func (r *Remote) Close() error {
	r.mu.Lock()
	r.cancel(backend.ErrClosed)
	r.mu.Unlock()
	r.calls.Wait()
	r.http.CloseIdleConnections()
	return nil
}

// Ping implements [backend.Backend]: it asks for the versions.
func (r *Remote) Ping(ctx context.Context) error {
	p, err := r.ask(ctx, call{method: http.MethodGet, path: "/"})
	if err != nil {
		return err
	}
	defer p.end()
	var versions []string
	err = json.NewDecoder(io.LimitReader(p.Body, maxText)).Decode(&versions)
	if err == nil && !slices.Contains(versions, "v1.0") {
		err = errNoBurrow
	}
	if err != nil {
		return p.failure(err, true)
	}
	return nil
}

// call is one request.
type call struct {
	method string
	path   string // escaped
	query  url.Values
	body   []byte // of a PUT
	wait   time.Duration
}

// changes reports whether the request may change something.
func (c *call) changes() bool { return c.method != http.MethodGet }

// reply is one answer. Its owner ends it.
type reply struct {
	*http.Response
	remote *Remote
	ctx    context.Context
	call   call
	timer  *time.Timer // ends the context when the server takes too long
	cancel context.CancelCauseFunc
	stop   func() bool
}

// end lets go of the connection.
func (p *reply) end() {
	io.CopyN(io.Discard, p.Body, 4<<10) // a connection that was read to the end is used again
	p.Body.Close()
	p.release()
}

func (p *reply) release() {
	p.timer.Stop()
	p.stop()
	p.cancel(nil)
	p.remote.calls.Done()
}

// timed is the body of a reply: a server that stalls in it ends the call.
type timed struct {
	io.ReadCloser
	reply *reply
}

// Read implements io.Reader.
func (b timed) Read(into []byte) (int, error) {
	b.reply.timer.Reset(b.reply.remote.timeout)
	defer b.reply.timer.Stop()
	return b.ReadCloser.Read(into)
}

var (
	errSlow     = errors.New("the server did not answer in time")
	errNoBurrow = errors.New("this is no answer of Burrow's protocol")
)

// ask sends a request, and returns the answer if it is a good one.
func (r *Remote) ask(ctx context.Context, c call) (*reply, error) {
	r.mu.Lock()
	if r.ctx.Err() != nil {
		r.mu.Unlock()
		return nil, backend.ErrClosed
	}
	r.calls.Add(1)
	r.mu.Unlock()
	p := &reply{remote: r, call: c}
	p.ctx, p.cancel = context.WithCancelCause(ctx)
	p.stop = context.AfterFunc(r.ctx, func() { p.cancel(backend.ErrClosed) })
	p.timer = time.AfterFunc(r.timeout+c.wait, func() { p.cancel(errSlow) })
	sent := false // on the last connection: net/http takes another one only if nothing was written
	traced := httptrace.WithClientTrace(p.ctx, &httptrace.ClientTrace{
		GetConn: func(string) { sent = false },
		GotConn: func(httptrace.GotConnInfo) { sent = true },
	})
	request, err := r.request(traced, c)
	if err == nil {
		if p.Response, err = r.http.Do(request); err == nil {
			p.timer.Stop()
			p.Body = timed{p.Body, p}
			if p.StatusCode < 300 {
				return p, nil
			}
			err = p.refusal()
			p.end()
			return nil, err
		}
	}
	err = p.failure(err, sent)
	p.release()
	return nil, err
}

// request returns c as HTTP has it.
func (r *Remote) request(ctx context.Context, c call) (*http.Request, error) {
	target := r.base + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, c.method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	if c.method == http.MethodPut {
		request.Header.Set("Content-Type", "application/octet-stream")
	}
	if r.user != "" {
		request.SetBasicAuth(r.user, r.password)
	}
	return request, nil
}

// failure returns what an error of the network means: sent says that there was a connection.
func (p *reply) failure(err error, sent bool) error {
	if p.ctx.Err() != nil {
		err = context.Cause(p.ctx)
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	err = fmt.Errorf("%s %s: %w", p.call.method, p.remote.base, err)
	switch {
	case errors.Is(err, backend.ErrClosed), p.ctx.Err() != nil && !errors.Is(err, errSlow) && !p.call.changes():
		return err
	case sent && p.call.changes():
		return backend.Unknown(err)
	case p.ctx.Err() != nil && !errors.Is(err, errSlow):
		return err
	}
	return backend.Unavailable(err)
}

// maxText is how much of the text of a refusal is read.
const maxText = 4 << 10 // bytes

// refusal returns what an answer that is none of the good ones means.
func (p *reply) refusal() error {
	text, err := io.ReadAll(io.LimitReader(p.Body, maxText))
	if err != nil {
		return p.failure(err, true)
	}
	said := strings.TrimSpace(string(text))
	e := &backend.Error{Text: cmp.Or(said, p.Status), Code: p.StatusCode}
	switch p.StatusCode {
	case http.StatusNotFound:
		for _, missing := range []error{backend.ErrNoAccount, backend.ErrNoQueue, backend.ErrNoMessage} {
			if said == missing.Error() {
				return missing
			}
		}
		e.Err, e.Text = backend.ErrUnavailable, "there is no Burrow at "+p.remote.base+": it answers 404 without saying what is missing"
	case http.StatusBadRequest:
		e.Err = backend.ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Err = backend.ErrDenied
	case http.StatusConflict:
		e.Err = backend.ErrHeld
	case http.StatusRequestEntityTooLarge:
		e.Err = backend.ErrTooLarge
	case http.StatusTooManyRequests:
		e.Err = backend.ErrBusy
	case http.StatusInsufficientStorage:
		e.Err = backend.ErrFull
	case http.StatusServiceUnavailable:
		// The server did nothing if it says so; a journal that failed leaves it open.
		if !p.call.changes() || p.Header.Get("Retry-After") != "" || said == burrow.TextStatus || said == "out of memory" {
			e.Err = backend.ErrUnavailable
		} else {
			e.Err = backend.ErrUnknownOutcome
		}
	default:
		e.Err = backend.ErrUnavailable
		if p.call.changes() && p.StatusCode >= 500 {
			e.Err = backend.ErrUnknownOutcome
		}
	}
	return e
}

// pathOf returns the path of what the names name: an account, its queue, its message.
func pathOf(names ...string) string {
	path := "/v1.0"
	for _, name := range names {
		path += "/" + url.PathEscape(name)
	}
	return path
}

// detailNames are the details as requests have them, for lists and for one message. The id of a message is
// always asked for beside its body.
var detailNames = [...]string{
	backend.None: "none", backend.IDs: "id", backend.Times: "attributes", backend.Bodies: "all", backend.All: "all",
}

// set adds the attributes to a query.
func set(q url.Values, a backend.Attributes) {
	if a.TTL != 0 {
		q.Set("ttl", strconv.FormatInt(backend.Seconds(a.TTL), 10))
	}
	if a.Hide != 0 {
		q.Set("hide", strconv.FormatInt(backend.Seconds(a.Hide), 10))
	}
}

// queryOf returns m as a query.
func queryOf(m backend.Match) url.Values {
	q := url.Values{"detail": {detailNames[m.Detail]}}
	setNames(q, backend.Names{Marker: m.Marker, Limit: m.Limit})
	if m.Hidden {
		q.Set("match_hidden", "true")
	}
	if m.Wait > 0 {
		q.Set("wait", strconv.FormatInt(backend.Seconds(min(m.Wait, backend.LongestWait)), 10))
	}
	return q
}

func setNames(q url.Values, m backend.Names) {
	if m.Marker != "" {
		q.Set("marker", m.Marker)
	}
	if m.Limit > 0 {
		q.Set("limit", strconv.Itoa(m.Limit))
	}
}
