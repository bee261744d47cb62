package netloop

import (
	"errors"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// reply appends a reply, unless the client asked for none.
func (s *session) reply(req *memcache.Request, reply string) {
	if !req.NoReply {
		s.out = append(s.out, reply...)
	}
}

func (memcacheProtocol) item(s *session, it engine.Item) bool {
	if s.terms != (terms{}) {
		return s.describeItem(it)
	}
	if it.HasOwnMemory() {
		if !s.startBody(it, memcache.ValueTrailer) {
			return false
		}
		s.out = memcache.AppendValueHeader(s.out, s.name, it.Flags, len(it.Data))
		return true
	}
	if !s.room(len(it.Data)) {
		return false
	}
	s.out = memcache.AppendValue(s.out, s.name, it.Flags, it.Data)
	return true
}

func (memcacheProtocol) none(s *session) { s.out = append(s.out, memcache.ReplyEnd...) }

func (memcacheProtocol) refuse(s *session, err error) {
	reply, fatal := memcacheRefusal(s.out, err)
	s.out = reply
	if fatal {
		s.quit()
	}
}

func (memcacheProtocol) retract(dst, _ []byte, err error) []byte {
	dst, _ = memcacheRefusal(dst, err)
	return dst
}

// memcacheRefusal appends the reply for err, and reports whether the connection ends.
func memcacheRefusal(dst []byte, err error) (reply []byte, fatal bool) {
	var unavailable unavailableError
	var over *access.OverQuota
	switch {
	case errors.As(err, &over):
		return memcache.AppendServerError(dst, err.Error()), false
	case errors.Is(err, engine.ErrQueueFull), errors.Is(err, engine.ErrItemTooLarge),
		errors.Is(err, engine.ErrKeyExists), errors.Is(err, engine.ErrNoSuchItem):
		return append(dst, memcache.ReplyNotStored...), false
	case errors.Is(err, errNotThatMany):
		return append(dst, memcache.ReplyError...), false
	case errors.Is(err, errReadOpen), errors.Is(err, errTooManyReads):
		return append(dst, memcache.ReplyError...), true
	case errors.As(err, &unavailable), errors.Is(err, engine.ErrNotAdmitted),
		errors.Is(err, engine.ErrClosed):
		return append(dst, memcache.ReplyServerError...), true
	case errors.Is(err, engine.ErrBadName), errors.Is(err, ErrUnknownStatus),
		errors.Is(err, ErrForbiddenStatus):
		return append(dst, memcache.ReplyClientError...), true
	case errors.Is(err, engine.ErrOutOfDisk), errors.Is(err, engine.ErrOutOfMemory),
		errors.Is(err, engine.ErrTooManyQueues), errors.Is(err, engine.ErrTooManyChildren),
		errors.Is(err, engine.ErrJournal), errors.Is(err, engine.ErrWithheld), errors.Is(err, engine.ErrBacklog),
		errors.Is(err, engine.ErrTooManyKeys):
		return memcache.AppendServerError(dst, reason(err)), false
	case errors.Is(err, errNotLocal), errors.Is(err, errSameQueue), isLeaseRefusal(err), isIdentityRefusal(err):
		return memcache.AppendClientError(dst, reason(err)), false
	}
	return memcache.AppendServerError(dst, reason(err)), true
}

// finish words the outcome of a command whose reply does not depend on what it found. A client that
// wants no reply gets none, unless it is cut off.
func (s *session) finish(noReply bool, err error, reply string) {
	before := len(s.out)
	if err == nil {
		s.out = append(s.out, reply...)
	} else {
		s.refuse(err)
	}
	if noReply && s.state != closing {
		s.out = s.out[:before]
	}
}

// finishing is finish for when the command has ended: req is not valid any more then.
func finishing(req *memcache.Request, reply string) func(*session, error) {
	noReply := req.NoReply
	return func(s *session, err error) { s.finish(noReply, err, reply) }
}

// memcacheCount words how many items were removed.
func memcacheCount(s *session, n int64, err error) {
	if err != nil {
		s.refuse(err)
		return
	}
	s.out = memcache.AppendCount(s.out, n)
}

// describeItem words an item that was fetched on terms.
func (s *session) describeItem(it engine.Item) bool {
	own := it.HasOwnMemory()
	switch {
	case own:
		if !s.startBody(it, memcache.ValueTrailer) {
			return false
		}
	case !s.room(len(it.Data) + memcache.MaxMeta):
		return false
	}
	d := &s.delivery
	if s.terms.meta {
		m := metaOf(s.id.user, it, d)
		s.out = memcache.AppendMeta(s.out, s.name, &m)
	}
	switch {
	case own && d.Receipt != 0:
		s.out = memcache.AppendLeasedHeader(s.out, s.name, it.Flags, len(it.Data), d.Receipt)
	case own:
		s.out = memcache.AppendValueHeader(s.out, s.name, it.Flags, len(it.Data))
	case d.Receipt != 0:
		s.out = memcache.AppendLeased(s.out, s.name, it.Flags, it.Data, d.Receipt)
	default:
		s.out = memcache.AppendValue(s.out, s.name, it.Flags, it.Data)
	}
	return true
}

// metaOf is what there is to know of an item, and user may know.
func metaOf(user *access.User, it engine.Item, d *engine.Delivery) memcache.Meta {
	m := memcache.Meta{
		ID: it.ID, Key: it.Key(), Deliveries: d.Deliveries, Added: int64(it.Added), Expires: int64(it.Expiry),
		Due: int64(d.Due), Receipt: d.Receipt, Origin: it.Origin(), Why: "deliveries",
	}
	if it.Why() == engine.Rejected {
		m.Why = "rejected"
	}
	if len(m.Origin) > 0 && !user.Sees(string(m.Origin)) {
		m.Origin = nil
	}
	return m
}

// finishFound is finish for a command that names a lease or an item, which there may not be.
func (s *session) finishFound(noReply bool, err error, reply string) {
	if errors.Is(err, engine.ErrNotHeld) || errors.Is(err, engine.ErrNoSuchItem) || errors.Is(err, engine.ErrHeld) {
		err, reply = nil, memcache.ReplyNotFound
	}
	s.finish(noReply, err, reply)
}
