package overhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
)

// Accounts implements [backend.Backend].
func (r *Remote) Accounts(ctx context.Context, m backend.Names) ([]string, error) {
	return r.names(ctx, http.MethodGet, pathOf(), m)
}

// DeleteAccounts implements [backend.Backend].
func (r *Remote) DeleteAccounts(ctx context.Context, m backend.Names) ([]string, error) {
	return r.names(ctx, http.MethodDelete, pathOf(), m)
}

// Queues implements [backend.Backend].
func (r *Remote) Queues(ctx context.Context, account string, m backend.Names) ([]string, error) {
	if err := backend.CheckAccount(account); err != nil {
		return nil, err
	}
	return r.names(ctx, http.MethodGet, pathOf(account), m)
}

// DeleteQueues implements [backend.Backend].
func (r *Remote) DeleteQueues(ctx context.Context, account string, m backend.Names) ([]string, error) {
	if err := backend.CheckAccount(account); err != nil {
		return nil, err
	}
	return r.names(ctx, http.MethodDelete, pathOf(account), m)
}

// names asks about accounts or queues.
func (r *Remote) names(ctx context.Context, method, path string, m backend.Names) (names []string, err error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	query := url.Values{"detail": {"id"}}
	setNames(query, m)
	p, err := r.ask(ctx, call{method: method, path: path, query: query})
	if err != nil {
		return nil, err
	}
	defer p.end()
	err = p.decoder().next(&names)
	if err == nil && len(names) == 0 {
		err = errNoBurrow
	}
	if err != nil {
		return nil, p.failure(err, true)
	}
	return names, nil
}

// Messages implements [backend.Backend].
func (r *Remote) Messages(ctx context.Context, q backend.Queue, m backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		p, err := r.askMatch(ctx, http.MethodGet, q, backend.Attributes{}, m)
		if err != nil {
			yield(backend.Message{}, err)
			return
		}
		defer p.end()
		if p.StatusCode == http.StatusNoContent && m.Detail == backend.None {
			yield(backend.Message{}, nil)
			return
		}
		p.each(m)(yield)
	}
}

// askMatch sends a request about the messages that match.
func (r *Remote) askMatch(
	ctx context.Context, method string, q backend.Queue, to backend.Attributes, m backend.Match,
) (*reply, error) {
	for _, err := range []error{q.Check(), m.Check(), to.Check()} {
		if err != nil {
			return nil, err
		}
	}
	query := queryOf(m)
	set(query, to)
	return r.ask(ctx, call{method: method, path: pathOf(q.Account, q.Name), query: query, wait: min(m.Wait, backend.LongestWait)})
}

// each yields the messages of the list that m asked for as they come, and then, if it broke off, an error.
func (p *reply) each(m backend.Match) iter.Seq2[backend.Message, error] {
	return func(yield func(backend.Message, error) bool) {
		d := p.decoder()
		err := d.expect('[')
		if err == nil && !d.more() {
			err = errNoBurrow // which says what is missing, and shows no empty list
		}
		for count := 1; err == nil && d.more(); count++ {
			if m.Limit > 0 && count > m.Limit {
				err = fmt.Errorf("%w: more than %d messages, as was asked for", backend.ErrReplyTooLarge, m.Limit)
				break
			}
			var one shown
			if err = d.next(&one); err == nil && !yield(one.message(), nil) {
				return
			}
		}
		if err == nil {
			err = d.expect(']')
		}
		if err != nil {
			yield(backend.Message{}, p.failure(err, true))
		}
	}
}

// maxMessage bounds what a decoder gathers before it has a whole message, or a list of names, in bytes. A message of 32
// MiB takes six times as much if all of it is control characters.
const maxMessage = 256 << 20

// decoder reads the values of an answer, and none that is too long.
type decoder struct {
	*json.Decoder
	in   io.Reader
	read int64 // bytes of the answer
	till int64 // the offset in it that the value at hand does not reach
	most int64 // bytes of one value
}

func (p *reply) decoder() *decoder {
	d := &decoder{in: p.Body, most: p.remote.most}
	d.Decoder = json.NewDecoder(d)
	return d
}

// Read implements io.Reader, for the json.Decoder.
func (d *decoder) Read(into []byte) (int, error) {
	if d.read >= d.till {
		return 0, fmt.Errorf("%w: a value of more than %d bytes", backend.ErrReplyTooLarge, d.most)
	}
	n, err := d.in.Read(into[:min(int64(len(into)), d.till-d.read)])
	d.read += int64(n)
	return n, err
}

// begin lets the next value, or bracket, be read.
func (d *decoder) begin() { d.till = d.InputOffset() + d.most }

// next reads one value.
func (d *decoder) next(into any) error {
	d.begin()
	return d.Decode(into)
}

// more reports whether a list goes on.
func (d *decoder) more() bool {
	d.begin()
	return d.More()
}

// expect reads one bracket.
func (d *decoder) expect(want json.Delim) error {
	d.begin()
	switch got, err := d.Token(); {
	case err != nil:
		return err
	case got != want:
		return fmt.Errorf("the answer is no list of messages: %v stands where %v should", got, want)
	}
	return nil
}

// shown is a message as an answer has it: an object, or its id.
type shown struct {
	ID       string  `json:"id"`
	TTL      int64   `json:"ttl"`
	Hide     int64   `json:"hide"`
	Body     *string `json:"body"`
	Encoding string  `json:"encoding"`

	raw []byte // a body that was sent as base64
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *shown) UnmarshalJSON(b []byte) error {
	switch b[0] {
	case '"':
		return json.Unmarshal(b, &m.ID)
	case 'n': // null
		return errNoBurrow
	}
	type plain shown
	if err := json.Unmarshal(b, (*plain)(m)); err != nil || m.Encoding == "" {
		return err
	}
	if m.Encoding != "base64" {
		return fmt.Errorf("a body is encoded as %q, which is not known", m.Encoding)
	}
	var binary struct{ Body []byte }
	err := json.Unmarshal(b, &binary)
	m.raw = binary.Body
	return err
}

// message returns the message that m shows.
func (m *shown) message() backend.Message {
	got := backend.Message{ID: m.ID, TTL: time.Duration(m.TTL) * time.Second, Hide: time.Duration(m.Hide) * time.Second}
	switch {
	case m.Encoding != "":
		got.Body = m.raw
	case m.Body != nil:
		got.Body = []byte(*m.Body)
	}
	return got
}

// UpdateMessages implements [backend.Backend].
func (r *Remote) UpdateMessages(ctx context.Context, q backend.Queue, to backend.Attributes, m backend.Match) ([]backend.Message, error) {
	return r.change(ctx, http.MethodPost, q, to, m)
}

// DeleteMessages implements [backend.Backend].
func (r *Remote) DeleteMessages(ctx context.Context, q backend.Queue, m backend.Match) ([]backend.Message, error) {
	return r.change(ctx, http.MethodDelete, q, backend.Attributes{}, m)
}

// change changes or removes the messages that match.
func (r *Remote) change(
	ctx context.Context, method string, q backend.Queue, to backend.Attributes, m backend.Match,
) ([]backend.Message, error) {
	p, err := r.askMatch(ctx, method, q, to, m)
	if err != nil {
		return nil, err
	}
	defer p.end()
	if p.StatusCode == http.StatusNoContent && m.Detail == backend.None {
		return nil, nil
	}
	return backend.Collect(p.each(m))
}

// Put implements [backend.Backend].
func (r *Remote) Put(ctx context.Context, k backend.Key, body []byte, a backend.Attributes) (created bool, err error) {
	for _, err := range []error{k.Check(), a.Check()} {
		if err != nil {
			return false, err
		}
	}
	query := url.Values{}
	set(query, a)
	p, err := r.ask(ctx, call{method: http.MethodPut, path: pathOf(k.Account, k.Name, k.ID), query: query, body: body})
	if err != nil {
		return false, err
	}
	defer p.end()
	if p.StatusCode != http.StatusCreated && p.StatusCode != http.StatusNoContent {
		return false, p.failure(errNoBurrow, true)
	}
	return p.StatusCode == http.StatusCreated, nil
}

// Message implements [backend.Backend].
func (r *Remote) Message(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return r.one(ctx, http.MethodGet, k, backend.Attributes{}, d)
}

// UpdateMessage implements [backend.Backend].
func (r *Remote) UpdateMessage(ctx context.Context, k backend.Key, to backend.Attributes, d backend.Detail) (backend.Message, error) {
	return r.one(ctx, http.MethodPost, k, to, d)
}

// DeleteMessage implements [backend.Backend].
func (r *Remote) DeleteMessage(ctx context.Context, k backend.Key, d backend.Detail) (backend.Message, error) {
	return r.one(ctx, http.MethodDelete, k, backend.Attributes{}, d)
}

// one asks about one message.
func (r *Remote) one(
	ctx context.Context, method string, k backend.Key, to backend.Attributes, d backend.Detail,
) (backend.Message, error) {
	for _, err := range []error{k.CheckAny(), to.Check(), backend.Match{Detail: d}.Check()} {
		if err != nil {
			return backend.Message{}, err
		}
	}
	query := url.Values{"detail": {detailNames[d]}}
	set(query, to)
	p, err := r.ask(ctx, call{method: method, path: pathOf(k.Account, k.Name, k.ID), query: query})
	if err != nil {
		return backend.Message{}, err
	}
	defer p.end()
	var m shown
	switch {
	case p.StatusCode == http.StatusNoContent && d == backend.None:
		return backend.Message{}, nil
	case d == backend.IDs:
		var id []byte
		if id, err = io.ReadAll(io.LimitReader(p.Body, maxText)); err == nil && string(id) != k.ID {
			err = errNoBurrow
		}
		m.ID = k.ID
	default:
		err = p.decoder().next(&m)
	}
	if err != nil {
		return backend.Message{}, p.failure(err, true)
	}
	return m.message(), nil
}
