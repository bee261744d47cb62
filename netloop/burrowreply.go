package netloop

import (
	"errors"
	"slices"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/engine"
)

// burrowState is what a session of Burrow's protocol has besides. It lives as long as the session: a request
// that is answered at once allocates nothing.
type burrowState struct {
	head burrow.Head
	req  burrow.Request

	// How far the request at the start of the input has been read, while its body is not whole.
	reading   bool
	body      burrow.Body
	at        int    // bytes of the input that were read
	bodySize  int    // bytes of the body, which stand behind the head
	arriving  bool   // it has begun to arrive, and is not whole
	since     moment // then
	continued bool   // the client was asked to send the body

	frame burrow.Reply // what every reply to the request says
	name  []byte       // of the request's queue
	kept  []byte       // holds the slices of req once the input has gone; empty: they lie in the input
	until moment       // when its wait is over

	account    *accountUse   // of the request; nil if the account has no quota
	modern     bool          // the request is one of version 1.1
	lease      time.Duration // of a receive
	credential []byte        // the Authorization that says who the client is; empty: none did

	answer    *burrowAnswer
	gathering int // bytes of it that a job gathers, or a list that goes on in chunks has
	watch     burrowWatch
}

// What requests mean that do not say otherwise, and what they may ask for.
const (
	burrowTTL      = burrow.DefaultTTL  // seconds
	burrowLongest  = burrow.LongestWait // seconds a wait takes at most
	reservedPrefix = burrow.ReservedPrefix
)

// burrowRefusal returns the status and the text of a reply that refuses an operation.
func burrowRefusal(err error) (status int, text string) {
	var unavailable unavailableError
	var notAdmitted *engine.NotAdmittedError
	var denied *access.Denied
	var refused *burrow.ProtocolError
	var elsewhere wrongAccountError
	var over *access.OverQuota
	var account *overAccountError
	switch {
	case errors.As(err, &over):
		return 429, err.Error()
	case errors.As(err, &account):
		return 507, err.Error()
	case errors.As(err, &denied), errors.As(err, &elsewhere):
		return 403, err.Error()
	case errors.Is(err, access.ErrBusy):
		return 429, "Too many attempts to authenticate; try again later."
	case errors.Is(err, access.ErrFailed):
		return 401, "The name and the password, or the token, are wrong."
	case errors.Is(err, errUnidentified):
		return 401, "Say who you are: send Authorization, Basic or Bearer."
	case errors.As(err, &refused):
		return refused.Status, refused.Reason
	case errors.Is(err, engine.ErrNotHeld):
		return 404, "The receipt holds no message: its lease has lapsed, or was ended."
	case errors.Is(err, engine.ErrNoLease):
		return 400, "The queue has no lease of its own: send lease_ms."
	case errors.Is(err, engine.ErrBadLease):
		return 400, "lease_ms: longer than a lease may be."
	case errors.Is(err, errNoOrigin):
		return 409, "No queue has given the next message up: name a queue by \"to\"."
	case errors.Is(err, errBadOrigin):
		return 409, "The next message is of another account, or would go where it is."
	case errors.As(err, &unavailable):
		return 503, burrow.TextStatus
	case errors.Is(err, engine.ErrQueueFull):
		return 507, burrow.TextQueueFull
	case errors.Is(err, engine.ErrItemTooLarge):
		return 413, burrow.TextTooLarge
	case errors.Is(err, engine.ErrBadName):
		return 400, burrow.TextBadName
	case errors.Is(err, engine.ErrBadKey):
		return 400, burrow.TextBadID
	case errors.Is(err, engine.ErrDelayTooLong):
		return 400, burrow.TextHideTooLong
	case errors.Is(err, engine.ErrHeld):
		return 409, burrow.TextHeld
	case errors.Is(err, engine.ErrTooManyKeys), errors.Is(err, engine.ErrTooManyQueues),
		errors.Is(err, engine.ErrOutOfDisk):
		return 507, reason(err)
	case errors.As(err, &notAdmitted):
		return 403, reason(err)
	case errors.Is(err, errTooMuchInput):
		return 413, "Too many bytes were sent ahead of the replies."
	case errors.Is(err, engine.ErrNoSuchItem):
		return 404, burrow.NoMessage
	}
	return 503, reason(err)
}

// burrowEmpty answers with a status and no body.
func (s *session) burrowEmpty(status int) {
	r := s.burrow.frame
	r.Status = status
	s.out = burrow.AppendReply(s.out, r)
	s.endBurrow()
}

// burrowText answers with a status and a text.
func (s *session) burrowText(status int, text string) {
	r := s.burrow.frame
	if s.burrow.modern {
		text = string(burrow.AppendProblem(nil, status, text))
		r.Type = burrow.Problem
	} else {
		r.Type = burrow.Octets
	}
	if r.Status, r.Length = status, len(text); r.NoBody {
		text = "" // the client would take it for the next reply
	}
	s.out = append(burrow.AppendReply(s.out, r), text...)
	s.endBurrow()
}

// burrowBody answers with a body.
func (s *session) burrowBody(kind burrow.ContentType, body []byte) {
	r := s.burrow.frame
	r.Status, r.Type, r.Length = 200, kind, len(body)
	s.out = append(burrow.AppendReply(s.out, r), body...)
	s.endBurrow()
}

// gathers counts so many bytes of an answer that a job makes as owed to the client, instead of those before.
func (s *session) gathers(n int) {
	s.burrow.gathering = n
	s.countOutput()
}

// reserve counts n bytes that wording takes as owed to the client, before it takes them. The jobs of other sessions
// look at what all replies owe at the same moment. It reports whether there is room.
func (a *burrowAnswer) reserve(n int) bool {
	owed := &a.session.loop.server.owed
	if owed.Add(int64(n)) > a.session.share() {
		owed.Add(-int64(n))
		return false
	}
	a.reserved += int64(n)
	return true
}

// release ends what reserve began: the text has gone, or the session counts it.
func (a *burrowAnswer) release() {
	if a.reserved > 0 {
		a.session.loop.server.owed.Add(-a.reserved)
		a.reserved = 0
	}
}

// dropAnswer forgets what the answer of a session that has ended has counted.
func (s *session) dropAnswer() {
	if b := s.burrow; b != nil && b.answer != nil && b.answer.session == s {
		b.answer.release()
	}
}

// endBurrow ends the reply that was made.
func (s *session) endBurrow() {
	if s.burrow.gathering > 0 {
		s.gathers(0)
	}
	if a := s.burrow.answer; a != nil && a.session == s && a.reserved > 0 {
		s.countOutput() // what was worded counts as output now
		a.release()
	}
	if s.waits != nil && s.state != waiting { // it did not come to a wait
		s.endAccountWait()
	}
	if s.burrow.frame.Close {
		s.quit()
	}
}

// copyRequest has the request outlive the input that it lies in.
func (s *session) copyRequest() {
	b := s.burrow
	if len(b.kept) > 0 {
		return
	}
	r := &b.req
	size := len(r.Account) + len(r.Queue) + len(r.ID) + len(r.Marker)
	kept := slices.Grow(b.kept[:0], size)
	for _, p := range []*[]byte{&r.Account, &r.Queue, &r.ID, &r.Marker} {
		start := len(kept)
		kept = append(kept, *p...)
		*p = kept[start:len(kept):len(kept)]
	}
	b.kept = kept
}

// seconds returns milliseconds in whole seconds, rounded up: a deadline that is near is not none.
func seconds(millis int64) int64 { return (millis + 999) / 1000 }

// whatIsMissing returns the text for the outermost thing that is missing.
func (s *session) whatIsMissing() string {
	b, l := s.burrow, s.loop
	if l.engine.HasItems(l.now, b.name) {
		return burrow.NoMessage
	}
	s.lookSoon() // the engine may look at a thousand queues of the account
	if l.engine.AccountHasItems(l.now, b.req.Account) {
		return burrow.NoQueue
	}
	return burrow.NoAccount
}
