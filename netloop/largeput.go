package netloop

import (
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
)

// A large item is copied, for its queue and the journal together, and then written: that takes tens of
// milliseconds for the largest. A job does it, for every protocol, and the loop goes on with others.

// largePut is how many bytes of items a loop puts itself at most, for one request.
const largePut = 256 << 10

// putJob is a put that a job does. It may be used by the job until that has ended, and then by the loop.
type putJob struct {
	session *session // for what any goroutine may ask it
	may     *standing
	client  string
	began   time.Time // of the turn that began it
	to      []byte
	ticket  engine.Ticket
	ahead   bool
	stored  int // items
	// replaced is how many items the last put has overwritten.
	replaced int
}

func (s *session) newPutJob() *putJob {
	may := s.standing(need{access.Put, onQueue}, nil)
	return &putJob{session: s, may: may, client: s.clientID, began: s.loop.began}
}

// denied returns why the client may not put to the queue called name, or nil. A reload may take the right while do puts.
func (p *putJob) denied(name []byte) error {
	p.may.name = name
	return p.may.denied()
}

// do puts to the queue called name the items that each yields, up to the first that is refused. It asks for the right to
// each.
func (p *putJob) do(name []byte, each func(yield func(engine.PutRequest) bool)) error {
	s := p.session
	e := s.loop.engine
	p.to = append(p.to, name...)
	for r := range each {
		if err := p.denied(name); err != nil {
			return err
		}
		if s.writesBlocked() {
			return errSetUnavailable
		}
		s.wait.jobPuts++
		r.ClientID = p.client
		put, err := e.PutAll(engine.Now(), p.to, []engine.PutRequest{r})
		p.ticket, p.ahead, p.replaced = p.ticket.Merge(put.Ticket), p.ahead || put.Ahead, put.Replaced
		if err != nil {
			return err
		}
		p.stored++
	}
	return nil
}

// end takes what has come of the job in, on the loop.
func (p *putJob) end(err error) {
	s := p.session
	s.noteJobDenied(err)
	s.loop.replaced = p.replaced
	s.loop.latencies.late(CommandPut, p.ticket, p.began)
	s.afterPut(p.to, p.ticket, p.ahead)
}

// putLater puts to the queue called name, in a job, the items that each yields, up to the first that is
// refused. It calls done on the loop with how many items were stored, what the reply must wait for, and
// the error. The items have size bytes together, about, and may alias the input: it stays as it is
// until the job has ended. If the session does not hold it, or they were decoded, they are a copy.
func (s *session) putLater(
	name []byte, size int, decoded bool, each func(yield func(engine.PutRequest) bool),
	done func(s *session, n int, t engine.Ticket, err error),
) {
	if s.writesBlocked() {
		done(s, 0, engine.Ticket{}, errSetUnavailable)
		return
	}
	e := s.loop.engine
	if e.MemoryLeft() < int64(size) {
		done(s, 0, engine.Ticket{}, engine.ErrOutOfMemory)
		return
	}
	copied := int64(0)
	if s.pinned = s.hasInput(); decoded || !s.pinned {
		copied = int64(size)
		e.Account(copied)
	}
	put, to := s.newPutJob(), append([]byte(nil), name...)
	s.startJob(func() error {
		defer e.Account(-copied)
		return put.do(to, each)
	}, func(s *session, err error) {
		put.end(err)
		done(s, put.stored, put.ticket, s.unnamed(to, err))
	})
}

// putOneLater is putLater for one item, which lies in the input.
func (s *session) putOneLater(
	name []byte, p engine.PutRequest, done func(s *session, t engine.Ticket, err error),
) {
	s.puts(len(p.Data))
	if !s.hasInput() {
		p.Data = append([]byte(nil), p.Data...)
	}
	s.putLater(name, len(p.Data), false, func(yield func(engine.PutRequest) bool) { yield(p) },
		func(s *session, _ int, t engine.Ticket, err error) { done(s, t, err) })
}

// hasInput reports whether the request being run lies in the session's own buffer, and not in that of
// the loop.
func (s *session) hasInput() bool { return len(s.in) > 0 }

// unpin has the input be the loop's again: the job that used it has ended.
func (s *session) unpin() {
	if !s.pinned {
		return
	}
	s.pinned = false
	if s.inStart == len(s.in) || s.state == closing || s.state == closed {
		s.dropInput()
	}
}
