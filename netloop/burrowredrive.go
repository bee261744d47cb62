package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// burrowRedrive moves messages of a queue back to where they were given up, or to the queue that the form names.
func burrowRedrive(s *session) {
	b := s.burrow
	form, err := burrow.DecodeRedrive(b.answer.body)
	switch {
	case err != nil:
		s.refuse(err)
		return
	case s.writesBlocked():
		s.refuse(errSetUnavailable)
		return
	}
	var to []byte
	if form.To != "" {
		to = engine.AppendAccountQueue(nil, b.req.Account, []byte(form.To))
		if err := s.denied(need{access.Put, onQueue}, to); err != nil {
			s.refuse(err)
			return
		}
	}
	s.ownAnswer()
	d := &redrive{
		server: s.loop.server, engine: s.loop.engine, standing: s.standing(b.need()), client: s.clientID, quota: b.account,
		from: append([]byte(nil), b.name...), to: to, account: append([]byte(nil), b.req.Account...),
	}
	s.startJob(func() error { return d.run(form.Limit) }, func(s *session, err error) {
		s.claim(d.ticket)
		s.chargeItems(int(d.moved), int(d.bytes))
		s.noteJobDenied(err)
		s.redriven(d.moved, err)
	})
}

// redriven answers a redrive that has moved so many messages; err is why not more.
func (s *session) redriven(moved int64, err error) {
	if err != nil && moved == 0 {
		s.refuse(err)
		return
	}
	reply := struct {
		Moved  int64  `json:"moved"`
		Status int    `json:"status,omitempty"` // why not more
		Detail string `json:"detail,omitempty"`
	}{Moved: moved}
	status := 200
	if err != nil {
		s.noteRefused(err)
		var over *overAccountError
		if errors.As(err, &over) {
			s.noteOverAccount(over)
		}
		status = 207
		reply.Status, reply.Detail = burrowRefusal(err)
	}
	s.burrowValue(status, reply)
}

// redrive moves messages, in a job. Each is held while its copy is put. So a stop in between leaves every message in at
// least one of the queues.
type redrive struct {
	server   *Server
	engine   *engine.Engine
	standing *standing
	user     *access.User // of now; see run
	client   string
	quota    *accountUse // of the account; nil if it has none
	from, to []byte      // to is empty: the origin of each message
	account  []byte

	put    engine.PutRequest // of the message that was held last
	extra  engine.PutExtra
	origin []byte

	ticket       engine.Ticket
	moved, bytes int64
}

// Receive implements engine.Receiver.
func (d *redrive) Receive(it engine.Item) bool {
	d.extra = engine.PutExtra{OnDuplicate: engine.OnlyNew}
	if key := it.Key(); key != nil {
		d.extra.Key = append([]byte(nil), key...)
	}
	d.origin = append(d.origin[:0], it.Origin()...)
	d.put = engine.PutRequest{
		Data: append([]byte(nil), it.Data...), Flags: it.Flags, Expiry: it.Expiry, Extra: &d.extra, ClientID: d.client,
	}
	if d.extra.Key == nil {
		d.put.Extra = nil
	}
	return true
}

// run moves up to limit messages. It asks for the rights to each: a reload may take them meanwhile.
func (d *redrive) run(limit int64) error {
	for d.moved < limit && !d.server.cutOff.Load() {
		if err := d.standing.denied(); err != nil {
			return err
		}
		d.user = d.standing.user()
		ref, err := d.hold()
		if err == engine.ErrEmpty || errors.Is(err, engine.ErrDeleted) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := d.move(ref); err != nil {
			release := engine.Return{How: engine.Release}
			d.engine.Return(engine.Now(), []engine.ReadRef{ref}, release)
			return err
		}
	}
	return nil
}

// jobWaiter hears that a wait of a job has ended.
type jobWaiter chan struct{}

// WaitEnded implements engine.Notifier.
func (j jobWaiter) WaitEnded(*engine.Waiter) { j <- struct{}{} }

// hold fetches the next message and holds it. If it is on its way from the disk, hold waits for it.
func (d *redrive) hold() (engine.ReadRef, error) {
	for {
		came := make(jobWaiter, 1)
		w := &engine.Waiter{Notify: came}
		request := engine.FetchRequest{Access: engine.Hold, ClientID: d.client, Waiter: w, Immediate: true}
		got, err := d.engine.Fetch(engine.Now(), d.from, request, d)
		if !got.Waiting {
			return got.Read, err
		}
		select {
		case <-came:
		case <-d.server.ending.Done():
			if d.engine.CancelWait(w) {
				return engine.ReadRef{}, engine.ErrClosed
			}
			<-came
		}
		if w.Read.IsZero() {
			return w.Read, w.Err
		}
		if _, ok := d.engine.Collect(engine.Now(), w.Read, request, d); ok {
			return w.Read, nil
		} // somebody has removed or overwritten it meanwhile
	}
}

// move puts the message that ref holds where it belongs, and removes it here. If another message has its id there, it
// goes without: none replaces another.
func (d *redrive) move(ref engine.ReadRef) error {
	to, err := d.target()
	if err != nil {
		return err
	}
	if err := d.reserve(to); err != nil {
		return err
	}
	put, err := d.engine.PutAll(engine.Now(), to, []engine.PutRequest{d.put})
	if errors.Is(err, engine.ErrKeyExists) {
		d.put.Extra = nil
		put, err = d.engine.PutAll(engine.Now(), to, []engine.PutRequest{d.put})
	}
	d.ticket = d.ticket.Merge(put.Ticket)
	if err != nil {
		return d.unnamed(to, err)
	}
	t, _ := d.engine.Confirm(engine.Now(), ref)
	d.ticket = d.ticket.Merge(t)
	d.moved++
	d.bytes += int64(len(d.put.Data))
	return nil
}

// target returns where the message that is held belongs, or why it cannot go there. An error does not tell an origin
// that the user may not see from one that there is not.
func (d *redrive) target() ([]byte, error) {
	to := d.to
	if len(to) == 0 {
		to = d.origin
	}
	if len(to) == 0 {
		return nil, errNoOrigin
	}
	err := error(nil)
	account, _ := engine.CutAccount(string(to))
	switch {
	case account != string(d.account), string(to) == string(d.from):
		err = errBadOrigin
	case !d.user.May(access.Put, to):
		err = &access.Denied{Right: access.Put, Queue: string(to)}
	}
	if err != nil && d.hides(to) {
		err = errNoOrigin
	}
	return to, err
}

// hides reports whether the user must not learn that a message goes to the queue called to.
func (d *redrive) hides(to []byte) bool { return len(d.to) == 0 && !d.user.Sees(string(to)) }

// reserve takes room for the queue called to in the quota of the account, if the put makes it.
func (d *redrive) reserve(to []byte) error {
	if d.quota == nil {
		return nil
	}
	if _, exists := d.engine.QueueNumber(to); exists {
		return nil
	}
	return d.quota.reserveInJob(d.engine, engine.AccountUse{Queues: 1})
}

// unnamed returns err, the refusal of a put to the queue called to, without names that the user may not see.
func (d *redrive) unnamed(to []byte, err error) error {
	if d.hides(to) && errors.Is(err, engine.ErrNotAdmitted) {
		return errNoOrigin
	}
	return unnamed(d.user, to, err)
}
