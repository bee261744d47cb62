package netloop

import (
	"cmp"
	"slices"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Requests about accounts and queues. They look at every queue, so a job does them.

func burrowVersions(s *session) { s.burrowBody(burrow.JSON, []byte(`["v1.0"]`)) }

func burrowListAccounts(s *session) {
	s.listNames(burrow.NoAccount, func(e *engine.Engine) []string { return e.Accounts(engine.Now()) })
}

func burrowListQueues(s *session) {
	s.listNames(burrow.NoQueue, s.accountQueues())
}

// accountQueues returns a function, for a job, that returns the queues of the request's account that the client sees.
func (s *session) accountQueues() func(*engine.Engine) []string {
	s.ownAnswer()
	account, client := s.burrow.req.Account, s.standing(s.burrow.need())
	return func(e *engine.Engine) []string {
		user := client.user()
		return slices.DeleteFunc(e.AccountQueues(engine.Now(), account), func(queue string) bool {
			return !user.Sees(string(engine.AppendAccountQueue(nil, account, []byte(queue))))
		})
	}
}

// listNames answers with the names that match among all.
func (s *session) listNames(missing string, all func(*engine.Engine) []string) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	s.ownAnswer()
	req, e := s.burrow.req, s.loop.engine
	var names []string
	var text []byte
	existed := false
	s.startJobIfAllowed(func() error {
		found := all(e)
		existed = len(found) > 0
		names = matching(found, &req)
		text = wordNames(names, req.Detail)
		return nil
	}, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.namesDone(names, text, existed, missing)
	})
}

// matching returns the names that match: those behind the marker, up to the limit.
func matching(names []string, req *burrow.Request) []string {
	if len(req.Marker) > 0 {
		names = names[slices.Index(names, string(req.Marker))+1:] // an unknown marker is none
	}
	if req.Limit > 0 && int64(len(names)) > req.Limit {
		names = names[:req.Limit]
	}
	return names
}

// wordNames returns names as JSON.
func wordNames(names []string, detail burrow.Detail) []byte {
	text := []byte{'['}
	for i, name := range names {
		if i > 0 {
			text = append(text, ',')
		}
		text = burrow.AppendName(text, []byte(name), detail)
	}
	return append(text, ']')
}

// namesDone answers with the names that matched. Missing is what there is none of.
func (s *session) namesDone(names []string, text []byte, existed bool, missing string) {
	switch {
	case len(names) == 0 && !existed:
		s.burrowText(404, burrow.NoAccount)
	case len(names) == 0:
		s.burrowText(404, missing)
	case s.burrow.req.Detail == burrow.DetailNone:
		s.burrowEmpty(204)
	default:
		a := s.burrow.answer
		a.text = text
		s.burrowLong(a)
	}
}

func burrowDeleteQueues(s *session) {
	s.ownAnswer()
	account := s.burrow.req.Account
	s.deleteNames(burrow.NoQueue,
		func(e *engine.Engine) []string { return e.AccountQueues(engine.Now(), account) },
		func(_ *engine.Engine, name string) [][]byte {
			return [][]byte{engine.AppendAccountQueue(nil, account, []byte(name))}
		})
}

func burrowDeleteAccounts(s *session) {
	s.deleteNames(burrow.NoAccount,
		func(e *engine.Engine) []string { return e.Accounts(engine.Now()) },
		func(e *engine.Engine, name string) (queues [][]byte) {
			for _, queue := range e.AccountQueues(engine.Now(), []byte(name)) {
				queues = append(queues, engine.AppendAccountQueue(nil, []byte(name), []byte(queue)))
			}
			return queues
		})
}

// deleteNames removes everything from the queues of the names that match among all, and answers with the names that the
// client may see. The queues stay, empty: nobody sees them.
func (s *session) deleteNames(
	missing string, all func(*engine.Engine) []string, queues func(e *engine.Engine, name string) [][]byte,
) {
	if s.writesBlocked() {
		s.refuse(errDeleteUnavailable)
		return
	}
	s.ownAnswer()
	req, e, srv, client, user := s.burrow.req, s.loop.engine, s.loop.server, s.clientID, s.id.user
	var names, seen []string
	var text []byte
	var ticket engine.Ticket
	existed := false
	standing := s.standing(s.burrow.need())
	s.startJob(func() error {
		found := all(e)
		existed = len(found) > 0
		sees := func(name string) bool {
			return slices.ContainsFunc(queues(e, name), func(queue []byte) bool { return user.Sees(string(queue)) })
		}
		if len(req.Marker) > 0 && !sees(string(req.Marker)) {
			req.Marker = nil // as one that is unknown
		}
		names = matching(found, &req)
		for _, name := range names {
			if sees(name) {
				seen = append(seen, name)
			}
			for _, queue := range queues(e, name) {
				t, err := srv.removeAll(e.Removing(queue, client, engine.Match{Hidden: true}), standing)
				ticket = ticket.Merge(t)
				if err != nil {
					return err
				}
			}
		}
		text = wordNames(seen, req.Detail)
		return nil
	}, func(s *session, err error) {
		s.claim(ticket)
		if s.noteJobDenied(err); err != nil {
			s.refuse(err)
			return
		}
		s.namesDone(names, text, existed, missing)
	})
}

// removeAll does a whole walk that removes items, as long as the client may.
func (srv *Server) removeAll(w *engine.Scan, client *standing) (engine.Ticket, error) {
	refusal := client.denied()
	for refusal == nil && w.Do(engine.Now(), nil, pieceSize) {
		w.Wait()
		if refusal = client.denied(); srv.cutOff.Load() {
			return engine.Ticket{}, engine.ErrClosed
		}
	}
	_, t, err := w.Result()
	if err == engine.ErrNoSuchItem {
		err = nil
	}
	return t, cmp.Or(refusal, err)
}
