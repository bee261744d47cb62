package netloop

import (
	"bytes"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
)

// memcacheNeeds is what a user needs to run a command, by its Op. See memcacheNeed for those that depend on more.
var memcacheNeeds = [len(memcacheCommands)]need{
	memcache.OpGet:             {access.Get, onQueue},
	memcache.OpSet:             {access.Put, onQueue},
	memcache.OpMonitor:         {access.Get, onQueue},
	memcache.OpConfirm:         {access.Get, onQueue},
	memcache.OpDelete:          {access.Manage, onQueue},
	memcache.OpFlush:           {access.Manage, onQueue},
	memcache.OpFlushAll:        {access.Manage, everywhere},
	memcache.OpFlushExpired:    {access.Manage, onQueue},
	memcache.OpFlushAllExpired: {access.Manage, everywhere},
	memcache.OpStats:           {access.Stats, somewhere},
	memcache.OpDumpStats:       {access.Stats, somewhere},
	memcache.OpDumpConfig:      {access.Stats, somewhere},
	memcache.OpStatus:          {access.Operate, onNothing},
	memcache.OpVersion:         {0, onNothing},
	memcache.OpReload:          {access.Operate, everywhere},
	memcache.OpShutdown:        {access.Operate, everywhere},
	memcache.OpQuit:            {0, onNothing},
	memcache.OpTouch:           {access.Get, onQueue},
}

// memcacheNeed is what a user needs to run req.
func memcacheNeed(req *memcache.Request) need {
	switch n := memcacheNeeds[req.Op]; {
	case req.Op == memcache.OpGet && (req.Peek || req.Browses()):
		return need{access.Peek, onQueue}
	case req.Op == memcache.OpDelete && (req.Receipt != 0 || req.ID != 0 || len(req.ItemKey) > 0): // it is about one item
		return need{access.Get, onQueue}
	case req.Op == memcache.OpStatus && len(req.Args) > 0:
		return need{access.Operate, everywhere}
	default:
		return n
	}
}

// memcacheDenied refuses req, of size bytes, if the user may not run it, and reports whether it did.
func (s *session) memcacheDenied(req *memcache.Request, size int) bool {
	n := memcacheNeed(req)
	if s.id.usage == nil && n.scope == onQueue &&
		(s.id.user.Everywhere(n.right) || s.id.may(n.right, s.requestName(req))) {
		return false
	}
	err := s.admit(n, s.requestName(req), size)
	if err == nil {
		return false
	}
	if s.putGathered(); s.state != idle {
		return true
	}
	s.finish(req.NoReply, err, "")
	if req.BadEnd { // what comes next may be part of the item
		s.out = append(s.out, memcache.ReplyClientError...)
		s.quit()
	}
	return true
}

// maxCredentials is how many bytes a user, a space and a password have at most.
const maxCredentials = 2 * access.MaxPassword

// memcacheIdentify is next for a client that has not said yet who it is. It does so as memcached wants it: by a SET
// of any key, whose data are the user, a space and the password. Until then it may only quit. By version it learns
// whether it is to say so, which is no request refused.
func (s *session) memcacheIdentify(in []byte) int {
	req := &s.loop.request
	n, err := memcache.Decoder{MaxLine: s.loop.server.opts.MaxLine, MaxItem: maxCredentials}.Decode(in, req)
	refusal, _ := err.(*memcache.ProtocolError)
	switch {
	case err == memcache.ErrIncomplete:
		s.need = req.Need
		return 0
	case refusal != nil && refusal.Fatal:
		s.noteRefused(err)
		s.out = append(s.out, refusal.Reply...)
		s.quitMisled()
		return 0
	case err == nil && req.Op == memcache.OpQuit:
		s.quit()
		return n
	case err == nil && req.Op == memcache.OpSet && !req.BadEnd:
		name, password, _ := bytes.Cut(req.Data, []byte{' '})
		s.identify(name, password, func(s *session, err error) { s.finish(false, err, memcache.ReplyStored) })
		return n
	}
	if err != nil || req.Op != memcache.OpVersion {
		s.noteRefused(errUnidentified)
	}
	s.out = memcache.AppendClientError(s.out, errUnidentified.Error())
	if s.strike(); err == memcache.ErrTooLarge || req.BadEnd {
		s.quit()
	}
	return n
}
