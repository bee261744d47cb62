package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

// connections answers who is connected. With POST it ends the connection whose number is in the
// parameter `end`, or gives back the open reads of the one in `return_reads`.
func connections(s *Server, r *http.Request) (any, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), probeTime)
	defer cancel()
	if r.Method == http.MethodPost {
		return changeConnection(ctx, s, server, r)
	}
	q := netloop.ConnectionQuery{Queue: r.FormValue("queue"), Order: r.FormValue("order")}
	if text := r.FormValue("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > netloop.MaxListed {
			return nil, badRequestf("limit: want a number from 1 to %d, have %q", netloop.MaxListed, text)
		}
	}
	list, matched, err := server.ListConnections(ctx, q)
	if errors.Is(err, netloop.ErrOrder) {
		return nil, badRequestf("order: %q is none of open, oldest, age, idle, requests, received, sent, unread", q.Order)
	}
	if err != nil {
		return nil, err
	}
	now := engine.Now()
	shown := make(object, 0, len(list))
	for i := range list {
		c := &list[i]
		shown = append(shown, member{strconv.FormatUint(c.Number, 10), describe(c, now)})
	}
	answer := object{{"matched", int64(matched)}, {"connections", shown}}
	if q.Queue != "" {
		answer = append(answer, member{"leases", leases(server.Engine(), q.Queue, now)})
	}
	return answer, nil
}

// leases returns who has leased items of a queue, by rank: the lease that has lasted longest comes first. The clients
// may have gone.
func leases(e *engine.Engine, queue string, now engine.Time) object {
	held := e.Holders([]byte(queue))
	slices.SortFunc(held, func(a, b engine.Held) int {
		return cmp.Or(cmp.Compare(a.Oldest, b.Oldest), cmp.Compare(a.Connection, b.Connection), cmp.Compare(a.User, b.User))
	})
	shown := make(object, 0, len(held))
	for i, h := range held[:min(len(held), netloop.DefaultConnections)] {
		shown = append(shown, member{strconv.Itoa(i + 1), object{
			{"connection", int64(h.Connection)}, {"peer", h.Peer}, {"protocol", h.Protocol}, {"client_id", h.ClientID},
			{"user", h.User}, {"leases", int64(h.Leases)}, {"oldest", since(h.Oldest, now)},
		}})
	}
	return shown
}

// since returns how many milliseconds ago t was; 0 if there is no t.
func since(t, now engine.Time) int64 {
	if t == 0 {
		return 0
	}
	return max(now.Std().Sub(t.Std()).Milliseconds(), 0)
}

// describe returns a connection as the answer has it. Times are milliseconds.
func describe(c *netloop.Connection, now engine.Time) object {
	reads, oldest := make(object, 0, len(c.OpenReads)), make(object, 0, len(c.OpenReads))
	for _, r := range c.OpenReads {
		reads = append(reads, member{r.Queue, int64(r.Count)})
		oldest = append(oldest, member{r.Queue, since(r.Oldest, now)})
	}
	return object{
		{"peer", c.Peer}, {"protocol", c.Protocol}, {"client_id", c.ClientID}, {"user", c.User},
		{"age", since(c.Since, now)}, {"idle", since(cmp.Or(c.Last, c.Since), now)},
		{"requests", c.Requests}, {"received_bytes", c.Received}, {"sent_bytes", c.Sent},
		{"unread_bytes", c.Unread}, {"waiting", c.Waiting}, {"open_reads", int64(c.Open)}, {"open_reads_by_queue", reads},
		{"oldest_open_read", since(c.Oldest(""), now)}, {"oldest_open_read_by_queue", oldest},
	}
}

// changeConnection ends a connection, or its open reads.
func changeConnection(ctx context.Context, s *Server, server *netloop.Server, r *http.Request) (any, error) {
	for _, change := range []struct {
		parameter, done string
		do              func(context.Context, uint64) (bool, error)
	}{
		{"end", "connection ended by an operator", server.EndConnection},
		{"return_reads", "open reads given back by an operator", server.ReturnReads},
	} {
		text := r.FormValue(change.parameter)
		if text == "" {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, badRequestf("%s: want the number of a connection, have %q", change.parameter, text)
		}
		found, err := change.do(ctx, number)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, badRequestf("%s: no connection has the number %d; it may have ended", change.parameter, number)
		}
		s.log.Warn("connection changed by an operator", "did", change.done, "connection", number, "peer", r.RemoteAddr)
		return done, nil
	}
	return nil, badRequestf("want end=NUMBER or return_reads=NUMBER")
}
