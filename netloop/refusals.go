package netloop

import (
	"errors"
	"slices"
	"sync/atomic"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/burrow"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/codec/text"
	"github.com/kestrelmq/kestrel/codec/thrift"
	"github.com/kestrelmq/kestrel/engine"
)

// refusing are the protocols, as operators call them. They index Refusals.
var refusing = [...]string{"memcache", "text", "thrift", "burrow"}

// refusalReason is why a request was refused.
type refusalReason uint8

const (
	refusedOther refusalReason = iota
	refusedFull
	refusedTooLarge
	refusedMemory
	refusedDisk
	refusedJournal
	refusedStatus
	refusedQueues
	refusedKeys
	refusedName
	refusedMalformed
	refusedArgument
	refusedReads
	refusedClient
	refusedRight
	refusedLogin
	refusedQuota
	refusedDamaged
	refusalReasons // how many there are
)

// refusalNames are the reasons in STATS, metrics and the log.
var refusalNames = [refusalReasons]string{
	"other", "full", "too_large", "memory", "disk", "journal", "status", "queues", "keys", "name", "malformed",
	"argument", "reads", "client", "right", "login", "quota", "damaged",
}

// Refusals counts requests that were refused, by protocol and reason. A request whose answer is only that there is no
// such item or lease was not refused.
type Refusals [len(refusing)][refusalReasons]int64

// Each calls f for every protocol and reason.
func (r *Refusals) Each(f func(protocol, reason string, refused int64)) {
	for p := range r {
		for why, refused := range r[p] {
			f(refusing[p], refusalNames[why], refused)
		}
	}
}

// EachReason calls f for every reason, with the sum over all protocols.
func (r *Refusals) EachReason(f func(reason string, refused int64)) {
	for why, name := range refusalNames {
		sum := int64(0)
		for p := range r {
			sum += r[p][why]
		}
		f(name, sum)
	}
}

// refusalCounts is what a server counts in. Any goroutine may use it.
type refusalCounts [len(refusing)][refusalReasons]atomic.Int64

// Refusals returns how many requests were refused, by protocol and reason, since the start.
func (s *Server) Refusals() (r Refusals) {
	for p := range r {
		for why := range r[p] {
			r[p][why] = s.refusals[p][why].Load()
		}
	}
	return r
}

// refuse counts a refusal, and has the protocol word it.
func (s *session) refuse(err error) {
	s.noteRefused(err)
	s.proto.refuse(s, err)
}

// noteRefused counts that a request was refused. Of each reason the server logs one line a second at most, unless the
// refusal has a line of its own.
func (s *session) noteRefused(err error) {
	why, ok := reasonOfRefusal(err)
	if !ok || s.unheard {
		return
	}
	l, protocol := s.loop, s.proto.name()
	refused := l.server.refusals[slices.Index(refusing[:], protocol)][why].Add(1)
	if why == refusedRight || why == refusedQuota || why == refusedLogin {
		return // see noteDenied, refusedByQuota, refuseAccount and noteFailed
	}
	if _, ok := l.server.logPaces.other[why].due(l.clock); ok {
		l.log.Warn("request refused", "reason", refusalNames[why], "err", err, "protocol", protocol,
			"peer", s.sink.peer(), "refused", refused)
	}
}

// reasonOfRefusal returns the reason behind err. It is false for an answer about an item or a lease that is not there,
// and for one that others keep.
func reasonOfRefusal(err error) (why refusalReason, refused bool) {
	for _, answer := range [...]error{
		engine.ErrKeyExists, engine.ErrNoSuchItem, engine.ErrNotHeld, engine.ErrHeld, engine.ErrEmpty, engine.ErrDeleted,
	} {
		if errors.Is(err, answer) {
			return 0, false
		}
	}
	var unavailable unavailableError
	var denied *access.Denied
	var over *access.OverQuota
	var account *overAccountError
	switch {
	case errors.As(err, &unavailable):
		return refusedStatus, true
	case errors.As(err, &denied):
		return refusedRight, true
	case errors.As(err, &over), errors.As(err, &account):
		return refusedQuota, true
	case isIdentityRefusal(err):
		return refusedLogin, true
	case isMalformed(err):
		return refusedMalformed, true
	}
	for _, r := range refusalsByError {
		if errors.Is(err, r.err) {
			return r.why, true
		}
	}
	return refusedOther, true
}

// refusalsByError has the reasons that errors say by themselves.
var refusalsByError = [...]struct {
	err error
	why refusalReason
}{
	{engine.ErrQueueFull, refusedFull},
	{engine.ErrItemTooLarge, refusedTooLarge},
	{text.ErrTooLarge, refusedTooLarge},
	{memcache.ErrTooLarge, refusedTooLarge},
	{engine.ErrOutOfMemory, refusedMemory},
	{errNoBuffers, refusedMemory},
	{engine.ErrOutOfDisk, refusedDisk},
	{engine.ErrJournal, refusedJournal},
	{engine.ErrClosed, refusedStatus},
	{engine.ErrTooManyQueues, refusedQueues},
	{engine.ErrTooManyChildren, refusedQueues},
	{engine.ErrTooManyKeys, refusedKeys},
	{engine.ErrBadName, refusedName},
	{errTooMuchInput, refusedMalformed},
	{engine.ErrBadKey, refusedArgument},
	{engine.ErrBadLease, refusedArgument},
	{engine.ErrNoLease, refusedArgument},
	{engine.ErrDelayTooLong, refusedArgument},
	{ErrUnknownStatus, refusedArgument},
	{errKeyCount, refusedArgument},
	{errKeyBlank, refusedArgument},
	{errDuplicate, refusedArgument},
	{errNeedsKeys, refusedArgument},
	{errSameQueue, refusedArgument},
	{errReadAndItem, refusedArgument},
	{errTwoItems, refusedArgument},
	{errNoItem, refusedArgument},
	{errItemID, refusedArgument},
	{errExpiry, refusedArgument},
	{errFromID, refusedArgument},
	{errBrowseLimit, refusedArgument},
	{errQueueCount, refusedArgument},
	{errWeightCount, refusedArgument},
	{errWeightBounds, refusedArgument},
	{errNoOrigin, refusedArgument},
	{errBadOrigin, refusedArgument},
	{errReadOpen, refusedReads},
	{errTooManyReads, refusedReads},
	{errNotThatMany, refusedReads},
	{engine.ErrNotAdmitted, refusedClient},
	{errNotLocal, refusedRight},
	{ErrForbiddenStatus, refusedRight},
	{engine.ErrWithheld, refusedDamaged},
	{engine.ErrBacklog, refusedDamaged},
}

// isMalformed reports whether err is that of a decoder.
func isMalformed(err error) bool {
	switch err.(type) {
	case *memcache.ProtocolError, *text.ProtocolError, *thrift.ProtocolError, *burrow.ProtocolError:
		return true
	}
	return false
}
