package overhttp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/client/backend"
	"github.com/kestrelmq/kestrel/codec/burrow"
)

const (
	wholeList = 4 << 20  // bytes of a list that is sent with its length; a longer one comes in chunks
	listPiece = 64 << 10 // bytes of a longer one that are sent at a time, about
)

// do does what the request asks for, and answers it.
func (x *exchange) do() {
	ctx, back := x.r.Context(), x.front.back
	account, queue := string(x.req.Account), backend.Queue{Account: string(x.req.Account), Name: string(x.req.Queue)}
	switch x.req.Op {
	case burrow.OpVersions:
		x.reply(http.StatusOK, burrow.JSON, []byte(`["v1.0"]`))
	case burrow.OpListAccounts:
		x.names(back.Accounts(ctx, x.ofNames()))
	case burrow.OpDeleteAccounts:
		x.names(back.DeleteAccounts(ctx, x.ofNames()))
	case burrow.OpListQueues:
		x.names(back.Queues(ctx, account, x.ofNames()))
	case burrow.OpDeleteQueues:
		x.names(back.DeleteQueues(ctx, account, x.ofNames()))
	case burrow.OpGetMessages:
		x.list(queue)
	case burrow.OpUpdateMessages:
		x.changed(func(ctx context.Context, m backend.Match) ([]backend.Message, error) {
			return back.UpdateMessages(ctx, queue, x.attributes(), m)
		})
	case burrow.OpDeleteMessages:
		x.changed(func(ctx context.Context, m backend.Match) ([]backend.Message, error) {
			return back.DeleteMessages(ctx, queue, m)
		})
	default:
		x.doOne(backend.Key{Queue: queue, ID: string(x.req.ID)})
	}
}

// doOne is do for requests about one message.
func (x *exchange) doOne(k backend.Key) {
	ctx, back := x.r.Context(), x.front.back
	switch x.req.Op {
	case burrow.OpGetMessage:
		x.message(back.Message(ctx, k, x.detail()))
	case burrow.OpUpdateMessage:
		x.message(back.UpdateMessage(ctx, k, x.attributes(), x.detail()))
	case burrow.OpDeleteMessage:
		x.message(back.DeleteMessage(ctx, k, x.detail()))
	case burrow.OpPutMessage:
		created, err := back.Put(ctx, k, x.body, x.attributes())
		switch {
		case err != nil:
			x.fail(err)
		case created:
			x.reply(http.StatusCreated, burrow.Empty, nil)
		default:
			x.reply(http.StatusNoContent, burrow.Empty, nil)
		}
	default:
		x.text(http.StatusInternalServerError, "This server does not know how to do "+x.req.Op.String()+".")
	}
}

// ofNames, match, attributes and detail return what the request says, in the words of back ends.
func (x *exchange) ofNames() backend.Names {
	return backend.Names{Marker: string(x.req.Marker), Limit: int(x.req.Limit)}
}

func (x *exchange) match() backend.Match {
	return backend.Match{
		Marker: string(x.req.Marker), Limit: int(x.req.Limit), Hidden: x.req.MatchHidden, Detail: x.detail(),
		Wait: time.Duration(min(x.req.Wait, burrow.LongestWait)) * time.Second,
	}
}

func (x *exchange) attributes() (a backend.Attributes) {
	if x.req.HasTTL {
		a.TTL = secondsOr(x.req.TTL, backend.Forever)
	}
	if x.req.HasHide {
		a.Hide = secondsOr(x.req.Hide, backend.Visible)
	}
	return a
}

// secondsOr returns n seconds, or zero if there are none.
func secondsOr(n int64, zero time.Duration) time.Duration {
	if n == 0 {
		return zero
	}
	return time.Duration(n) * time.Second
}

// details are the details of requests, by those of the codec.
var details = [...]backend.Detail{
	burrow.DetailNone: backend.None, burrow.DetailID: backend.IDs, burrow.DetailAttributes: backend.Times,
	burrow.DetailBody: backend.Bodies, burrow.DetailAll: backend.All,
}

func (x *exchange) detail() backend.Detail { return details[x.req.Detail] }

// worded returns m as the codec has it.
func worded(m backend.Message) burrow.Message {
	return burrow.Message{ID: []byte(m.ID), TTL: backend.Seconds(m.TTL), Hide: backend.Seconds(m.Hide), Body: m.Body}
}

// names answers with accounts or queues.
func (x *exchange) names(names []string, err error) {
	switch {
	case err != nil:
		x.fail(err)
	case x.req.Detail == burrow.DetailNone:
		x.reply(http.StatusNoContent, burrow.Empty, nil)
	default:
		replyList(x, names, func(text []byte, name string) []byte {
			return burrow.AppendName(text, []byte(name), x.req.Detail)
		})
	}
}

// replyList answers with a list of JSON, in which a function writes the elements.
func replyList[T any](x *exchange, all []T, element func(text []byte, one T) []byte) {
	text := []byte{'['}
	for i, one := range all {
		if i > 0 {
			text = append(text, ',')
		}
		text = element(text, one)
	}
	x.reply(http.StatusOK, burrow.JSON, append(text, ']'))
}

// message answers with one message.
func (x *exchange) message(m backend.Message, err error) {
	switch {
	case err != nil:
		x.fail(err)
	case x.req.Detail == burrow.DetailNone:
		x.reply(http.StatusNoContent, burrow.Empty, nil)
	case x.req.Detail == burrow.DetailID:
		x.reply(http.StatusOK, burrow.Octets, []byte(m.ID))
	case x.req.Detail == burrow.DetailBody:
		x.reply(http.StatusOK, burrow.Octets, m.Body)
	default:
		x.reply(http.StatusOK, burrow.JSON, burrow.AppendMessage(nil, worded(m), x.req.Detail))
	}
}

// changed answers with messages that were changed or removed.
func (x *exchange) changed(do func(context.Context, backend.Match) ([]backend.Message, error)) {
	var all []backend.Message
	err := x.waiting(x.match(), func(ctx context.Context, m backend.Match) (err error) {
		all, err = do(ctx, m)
		return err
	})
	switch {
	case err != nil:
		x.fail(err)
	case x.req.Detail == burrow.DetailNone:
		x.reply(http.StatusNoContent, burrow.Empty, nil)
	default:
		replyList(x, all, func(text []byte, m backend.Message) []byte {
			return burrow.AppendMessage(text, worded(m), x.req.Detail)
		})
	}
}

// list answers with the messages that match. A long list is sent as the back end yields it.
func (x *exchange) list(q backend.Queue) {
	text, chunks, count := []byte{'['}, false, 0
	err := x.waiting(x.match(), func(ctx context.Context, match backend.Match) error {
		for m, err := range x.front.back.Messages(ctx, q, match) {
			if err != nil {
				return err
			}
			x.waited()
			if match.Detail == backend.None {
				continue
			}
			if count++; count > 1 {
				text = append(text, ',')
			}
			text = burrow.AppendMessage(text, worded(m), x.req.Detail)
			if len(text) < wholeList && (!chunks || len(text) < listPiece) {
				continue
			}
			if !chunks {
				chunks = true
				x.w.Header().Set("Content-Type", burrow.JSON.String())
				x.w.WriteHeader(http.StatusOK)
			}
			if _, err := x.w.Write(text); err != nil {
				return err
			}
			text = text[:0]
		}
		return nil
	})
	switch {
	case err != nil && chunks:
		panic(http.ErrAbortHandler) // the client sees that the list broke off
	case err != nil:
		x.fail(err)
	case x.req.Detail == burrow.DetailNone:
		x.reply(http.StatusNoContent, burrow.Empty, nil)
	case chunks:
		x.w.Write(append(text, ']'))
	default:
		x.reply(http.StatusOK, burrow.JSON, append(text, ']'))
	}
}

// firstRead is how many bytes there is room for before any of a body has come.
const firstRead = 64 << 10

// readAll reads r to its end, which is announced unless that is below zero.
func readAll(r io.Reader, announced int64) ([]byte, error) {
	if announced < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, 0, min(announced, firstRead))
	for int64(len(body)) < announced {
		if len(body) == cap(body) {
			body = slices.Grow(body, int(min(announced, 2*int64(len(body))))-len(body))
		}
		n, err := io.ReadFull(r, body[len(body):min(int64(cap(body)), announced)])
		if body = body[:len(body)+n]; errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return body, err
		}
	}
	return body, nil
}
