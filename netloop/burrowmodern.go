package netloop

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// Version 1.1 of Burrow's protocol: JSON in and out. What a request sends is small, as a rule, and the loop reads it; a
// job reads what is large.

// modernFields are header lines of every reply of version 1.1: nobody keeps it, on the way or at the client.
const modernFields = "Cache-Control: no-store\r\n"

const (
	// largeForm is how many bytes of a form the loop reads itself.
	largeForm = 64 << 10
	// formCost is how many times its size a form takes at most while it is read. It counts the copy, the decoder's
	// buffer, and what the form becomes.
	formCost = 6
)

// burrowForm reads the form of the request by decode, and calls done with the error: now, or when a job has read it.
func (s *session) burrowForm(decode func(form []byte) error, done func(*session, error)) {
	form := s.burrow.answer.body
	s.burrow.answer.body = nil // what comes may outlive the input, and does not need it
	if len(form) <= largeForm {
		done(s, decode(form))
		return
	}
	e, cost := s.loop.engine, formCost*int64(len(form))
	if e.MemoryLeft() < cost {
		done(s, engine.ErrOutOfMemory)
		return
	}
	s.ownAnswer()
	copied := append([]byte(nil), form...)
	e.Account(cost)
	s.startJobIfAllowed(func() error {
		defer e.Account(-cost)
		return decode(copied)
	}, done)
}

// wordValue returns a value, which is one of our own structs, as JSON.
func wordValue(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return text
}

// burrowValue answers with a small value as JSON.
func (s *session) burrowValue(status int, value any) {
	text := wordValue(value)
	r := s.burrow.frame
	r.Status, r.Type, r.Length = status, burrow.JSON, len(text)
	s.out = append(burrow.AppendReply(s.out, r), text...)
	s.endBurrow()
}

func burrowOpenAPI(s *session) { s.burrowBody(burrow.JSON, burrow.OpenAPI) }

func burrowAccounts(s *session) {
	s.modernNames(func(e *engine.Engine) []string { return e.Accounts(engine.Now()) }, func(names []string, next string) any {
		return struct {
			Accounts []string `json:"accounts"`
			Next     string   `json:"next,omitempty"`
		}{names, next}
	})
}

func burrowQueues(s *session) {
	s.modernNames(s.accountQueues(), func(names []string, next string) any {
		return struct {
			Queues []string `json:"queues"`
			Next   string   `json:"next,omitempty"`
		}{names, next}
	})
}

// modernNames answers with the names that match among all, worded by word.
func (s *session) modernNames(all func(*engine.Engine) []string, word func(names []string, next string) any) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	a := s.ownAnswer()
	req, e := s.burrow.req, s.loop.engine
	if req.Limit == 0 {
		req.Limit = burrow.MostMessages
	}
	s.startJobIfAllowed(func() error {
		names, next := matching(all(e), &burrow.Request{Marker: req.Marker}), ""
		if int64(len(names)) > req.Limit {
			names = names[:req.Limit]
			next = names[len(names)-1]
		}
		a.text = wordValue(word(append([]string{}, names...), next))
		return nil
	}, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.burrowLong(a)
	})
}

// burrowStats is the reply to a request for a queue.
type burrowStats struct {
	Queue        string `json:"queue"`
	Messages     int64  `json:"messages"` // in line or delayed
	Bytes        int64  `json:"bytes"`
	Delayed      int64  `json:"delayed"`
	Leased       int64  `json:"leased"`
	Waiters      int64  `json:"waiters"`
	Age          int64  `json:"age_ms"`
	Puts         int64  `json:"puts"`
	PutBytes     int64  `json:"put_bytes"`
	Expired      int64  `json:"expired"`
	Redelivered  int64  `json:"redelivered"`
	DeadLettered int64  `json:"dead_lettered"`
}

func burrowQueueStats(s *session) {
	b, l := s.burrow, s.loop
	q, ok := l.engine.QueueStats(l.now, b.name)
	if !ok {
		s.burrowText(404, burrow.NoQueue)
		return
	}
	s.burrowValue(200, burrowStats{
		Queue: string(b.req.Queue), Messages: q.Items, Bytes: q.Bytes, Delayed: q.Delayed, Leased: q.Leased,
		Waiters: q.Waiters, Age: q.Age, Puts: q.Puts, PutBytes: q.PutBytes, Expired: q.Expired,
		Redelivered: q.Redelivered, DeadLettered: q.DeadLettered,
	})
}

func burrowDeleteQueue(s *session) {
	s.delete(s.burrow.name, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.burrowEmpty(204)
	})
}

// burrowPutBatch puts messages, all or those before the first that the queue refuses; the reply says how many.
func burrowPutBatch(s *session) {
	if s.writesBlocked() {
		s.refuse(errSetUnavailable)
		return
	}
	var batch []burrow.NewMessage
	var puts []engine.PutRequest
	s.burrowForm(func(form []byte) (err error) {
		batch, err = burrow.DecodeBatch(form)
		puts = make([]engine.PutRequest, len(batch))
		for i := range batch { // here, because a job copies what is large
			puts[i].Data, batch[i].Body = batch[i].Data(), nil
		}
		return err
	}, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.putBatch(batch, puts)
	})
}

// putBatch puts the messages of a batch; puts have their data.
func (s *session) putBatch(batch []burrow.NewMessage, puts []engine.PutRequest) {
	size := 0
	for i := range batch {
		m, p := &batch[i], &puts[i]
		p.ClientID = s.clientID
		if m.TTL > 0 {
			p.Expiry = s.loop.now.After(time.Duration(m.TTL) * time.Millisecond)
		}
		if m.Delay > 0 || m.ID != "" {
			p.Extra = &engine.PutExtra{Delay: time.Duration(m.Delay) * time.Millisecond}
			if m.ID != "" {
				p.Extra.Key = []byte(m.ID)
			}
		}
		size += len(p.Data)
	}
	if err := s.overItems(len(puts), 0); err != nil {
		s.refuse(err)
		return
	}
	more := engine.AccountUse{Items: int64(len(puts)), Bytes: int64(size)}
	s.reserveAccount(more, func(s *session, err error) {
		if err != nil {
			s.refuse(err)
			return
		}
		s.putReserved(puts, size)
	})
}

// putReserved puts the messages of a batch, of size bytes, which the quotas allow.
func (s *session) putReserved(puts []engine.PutRequest, size int) {
	work := 0
	for i := range puts {
		work += putWork(&puts[i])
	}
	work *= s.loop.engine.Takers(s.burrow.name)
	if size <= largePut && (len(puts) == 1 || work <= maxWork) {
		s.work += work - 1
		before := s.ticket
		n, err := s.putAll(s.burrow.name, puts)
		s.claiming = n > 0 || s.ticket != before
		s.batchStored(n, err)
		return
	}
	s.ownAnswer()
	s.putLater(s.burrow.name, size, true, slices.Values(puts), func(s *session, n int, t engine.Ticket, err error) {
		s.claim(t)
		s.batchStored(n, err)
	})
}

// batchStored answers a batch of which n messages were stored.
func (s *session) batchStored(n int, err error) {
	if err == nil {
		s.burrowValue(201, struct {
			Stored int `json:"stored"`
		}{n})
		return
	}
	if n == 0 {
		s.refuse(err)
		return
	}
	s.noteRefused(err)
	status, text := burrowRefusal(err)
	s.burrowValue(207, struct {
		Stored int    `json:"stored"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{n, status, text})
}

// burrowBrowse lists messages. The list ends at about 4 MiB, and says where the next one begins.
func burrowBrowse(s *session) {
	if s.readsBlocked() {
		s.refuse(errGetUnavailable)
		return
	}
	b, l := s.burrow, s.loop
	l.counters.CmdGet++
	if b.req.Limit == 0 {
		b.req.Limit = 100
	}
	b.req.Detail = burrow.DetailAll
	a := b.answer
	a.gather(s, s.walking())
	a.text = append(a.text[:0], modernList...)
	if !a.step(l.now, matchPiece) {
		a.word(burrow.DetailAll)
		s.browsed(nil)
		return
	}
	s.ownAnswer()
	most, standing := s.roomToMatch(), s.standing(b.need())
	s.startJob(func() error {
		a.word(burrow.DetailAll)
		return l.server.matchRest(a, burrow.DetailAll, most, standing)
	}, func(s *session, err error) {
		s.noteJobDenied(err)
		if err == nil {
			err = s.stillDenied()
		}
		s.browsed(err)
	})
}

const modernList = `{"messages":[`

func (s *session) browsed(err error) {
	b := s.burrow
	a := b.answer
	n, t, failed := a.walk.Result()
	s.after(t)
	if err == nil {
		err = failed
	}
	switch {
	case err != nil && err != engine.ErrNoSuchItem:
		s.refuse(err)
	case n == 0 && s.noRoom:
		s.notTaken()
	default:
		s.loop.counters.GetHits += int64(n)
		a.text = append(a.text, ']')
		if n > 0 && (a.more || int64(n) == b.req.Limit) {
			a.text = append(a.text, `,"next":`...)
			a.text = burrow.AppendString(a.text, a.last)
		}
		a.text = append(a.text, '}')
		s.burrowLong(a)
	}
}

// burrowLook shows one message.
func burrowLook(s *session) {
	s.burrow.req.Detail = burrow.DetailAll
	burrowGet(s)
}

func burrowRemove(s *session) {
	s.burrow.req.Detail = burrow.DetailNone
	burrowDelete(s)
}
