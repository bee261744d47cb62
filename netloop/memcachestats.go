package netloop

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheStats answers STATS CONNECTIONS, or STATS: the server's entries in a fixed order, then those of every queue
// and alias.
func memcacheStats(s *session, req *memcache.Request) {
	for word := range memcache.Words(req.Args) {
		if bytes.EqualFold(word, []byte("connections")) {
			memcacheConnections(s)
			return
		}
		break
	}
	s.loop.copyCounters() // what this connection has just done is to be seen
	server, user := s.loop.server, s.id.user
	s.startReport(memcacheReport(server, func(out []byte) []byte {
		return appendServerStats(out, server, user)
	}, appendQueueStats, appendAliasStats))
}

// memcacheReport is a report that begins with what head appends, nothing if it is nil. Then come the queues, the
// aliases, unless alias is nil, and the line that ends it. It says nothing of what the user may not see.
func memcacheReport(
	server *Server, head func([]byte) []byte, queue func([]byte, *engine.QueueStats) []byte,
	alias func([]byte, *engine.AliasStats) []byte,
) report {
	var walk *engine.Walk
	return func(user *access.User, out []byte) (piece []byte, more bool) {
		if walk == nil {
			if head != nil {
				out = head(out)
			}
			walk = server.Engine().Walk()
		}
		now := engine.Now()
		for len(out) < pieceSize {
			q, ok := walk.Next(now)
			if !ok {
				break
			}
			if user.Sees(q.Name) {
				q.Children = seenBy(user, q.Children)
				q.Options = optionsSeenBy(user, q.Options)
				out = queue(out, &q)
			}
		}
		if walk.Left() > 0 {
			return out, true
		}
		if alias != nil {
			for _, a := range aliasesSeenBy(user, server.Engine().Aliases()) {
				out = alias(out, &a)
			}
		}
		return append(out, memcache.ReplyEnd...), false
	}
}

// appendServerStats appends the entries of the server, which takes a look at every queue. For a user with rights on
// some queues, sums are over the queues that the user sees. What counts all clients is left out.
func appendServerStats(out []byte, server *Server, user *access.User) []byte {
	st := server.summary(engine.Now())
	walk := server.Engine().Walk()
	for q, ok := walk.Next(st.At); ok; q, ok = walk.Next(st.At) {
		if user.Sees(q.Name) {
			st.add(&q)
		}
	}
	e, c := &st.Engine, &st.Counters
	stat := func(name string, value int64) { out = memcache.AppendStatInt(out, name, value) }
	stat("uptime", int64(time.Since(st.Started)/time.Second))
	stat("time", int64(st.At)/1000)
	out = memcache.AppendStat(out, "version", Version)
	stat("curr_items", st.Items)
	if !user.Everywhere(access.Stats) {
		stat("bytes", st.Bytes)
		return out
	}
	stat("total_items", e.TotalItems)
	stat("bytes", st.Bytes)
	ratio := strconv.FormatFloat(st.ReservedMemory, 'f', 3, 64)
	out = memcache.AppendStat(out, "reserved_memory_ratio", ratio)
	stat("curr_connections", st.Connections)
	stat("total_connections", c.Connections)
	stat("cmd_get", c.CmdGet)
	stat("cmd_set", c.CmdSet)
	stat("cmd_peek", c.CmdPeek)
	stat("get_hits", c.GetHits)
	stat("get_misses", c.GetMisses)
	stat("bytes_read", c.BytesRead)
	stat("bytes_written", c.BytesWritten)
	stat("queue_creates", e.Created)
	stat("queue_deletes", e.Deleted)
	stat("queue_expires", e.Expired)
	stat("requests_denied", c.Denied)
	c.OverQuota.Each(func(reason string, refused int64) { stat("over_quota_"+reason, refused) })
	st.Refusals.EachReason(func(reason string, refused int64) { stat("refused_"+reason, refused) })
	stat("long_turns", c.LongTurns)
	stat("longest_turn_usec", c.LongestTurn)
	stat("longest_turn_work_usec", c.LongestTurnWork)
	out = memcache.AppendStat(out, "longest_turn_part", cmp.Or(strings.ReplaceAll(c.LongestTurnPart, " ", "_"), "none"))
	return out
}

// appendQueueStats appends the entries of a queue.
func appendQueueStats(out []byte, q *engine.QueueStats) []byte {
	name := latin1(q.Name)
	eachQueueStat(q, func(key string, value int64) {
		out = memcache.AppendQueueStatInt(out, name, key, value)
	})
	if len(q.Children) > 0 {
		out = memcache.AppendQueueStat(out, name, "children", joinLatin1(q.Children))
	}
	return out
}

// appendAliasStats appends the entries of an alias.
func appendAliasStats(out []byte, a *engine.AliasStats) []byte {
	name := latin1(a.Name)
	out = memcache.AppendQueueStatInt(out, name, "put_items", a.PutItems)
	out = memcache.AppendQueueStatInt(out, name, "put_bytes", a.PutBytes)
	return memcache.AppendQueueStat(out, name, "children", joinLatin1(a.Destinations))
}

// eachQueueStat calls f for the entries of a queue in the order of STATS and DUMP_STATS, but for
// children.
func eachQueueStat(q *engine.QueueStats, f func(name string, value int64)) {
	f("items", q.Items)
	f("bytes", q.Bytes)
	f("total_items", q.TotalItems())
	f("logsize", q.LogSize())
	f("expired_items", q.Expired)
	f("mem_items", q.MemItems)
	f("mem_bytes", q.MemBytes)
	f("age", q.Age)
	f("discarded", q.Discarded)
	f("waiters", q.Waiters)
	f("open_transactions", q.OpenReads)
	f("transactions", q.Opens)
	f("canceled_transactions", q.Returns)
	f("total_flushes", q.Flushes)
	f("journal_rewrites", 0)
	f("journal_rotations", 0)
	f("delayed", q.Delayed)
	f("leased", q.Leased)
	f("dead_lettered", q.DeadLettered)
	f("redelivered", q.Redelivered)
}

func joinLatin1(names []string) string {
	return latin1(strings.Join(names, ","))
}

// memcacheDumpStats answers DUMP_STATS for the queues named, or for all.
func memcacheDumpStats(s *session, req *memcache.Request) {
	if len(req.Args) == 0 {
		s.startReport(memcacheReport(s.loop.server, nil, appendDumpStats, appendDumpAlias))
		return
	}
	e := s.loop.engine
	aliases := e.Aliases()
	s.startReport(namesReport(req.Args, func(user *access.User, out, name []byte) []byte {
		return appendDumpNamed(out, e, user, name, aliases)
	}))
}

// namesReport is a report on the queues that are named in args, which it copies. It has what one appends for each,
// and the line that ends it.
func namesReport(args []byte, one func(user *access.User, out, name []byte) []byte) report {
	rest := bytes.Clone(args)
	return func(user *access.User, out []byte) (piece []byte, more bool) {
		for name := range memcache.Words(rest) {
			if len(out) >= pieceSize {
				return out, true
			}
			out, rest = one(user, out, name), rest[min(len(name)+1, len(rest)):] // and the space behind it
		}
		return append(out, memcache.ReplyEnd...), false
	}
}

// appendDumpNamed appends the block of the queue or alias called name, which may not exist, or not for the user.
func appendDumpNamed(out []byte, e *engine.Engine, user *access.User, name []byte, aliases []engine.AliasStats) []byte {
	internal := appendLatin1AsUTF8(nil, name)
	for _, a := range aliases {
		if a.Name == string(internal) && user.Sees(a.Name) {
			a.Destinations = seenBy(user, a.Destinations)
			return appendDumpAlias(out, &a)
		}
	}
	if q, ok := e.QueueStats(engine.Now(), internal); ok && user.Sees(q.Name) {
		q.Children = seenBy(user, q.Children)
		return appendDumpStats(out, &q)
	}
	out = memcache.AppendDumpQueue(out, string(name))
	return append(out, memcache.DumpNothing+memcache.DumpQueueEnd...)
}

// appendDumpStats appends the block of a queue in DUMP_STATS.
func appendDumpStats(out []byte, q *engine.QueueStats) []byte {
	out = memcache.AppendDumpQueue(out, latin1(q.Name))
	eachQueueStat(q, func(name string, value int64) {
		out = memcache.AppendDumpEntryInt(out, name, value)
	})
	if len(q.Children) > 0 {
		out = memcache.AppendDumpEntry(out, "children", joinLatin1(q.Children))
	}
	return append(out, memcache.DumpQueueEnd...)
}

// appendDumpAlias appends the block of an alias in DUMP_STATS.
func appendDumpAlias(out []byte, a *engine.AliasStats) []byte {
	out = memcache.AppendDumpQueue(out, latin1(a.Name))
	out = memcache.AppendDumpEntryInt(out, "put_items", a.PutItems)
	out = memcache.AppendDumpEntryInt(out, "put_bytes", a.PutBytes)
	out = memcache.AppendDumpEntry(out, "children", joinLatin1(a.Destinations))
	return append(out, memcache.DumpQueueEnd...)
}

// memcacheDumpConfig answers DUMP_CONFIG for the queues named, or for all that exist.
func memcacheDumpConfig(s *session, req *memcache.Request) {
	if len(req.Args) == 0 {
		s.startReport(memcacheReport(s.loop.server, nil, func(out []byte, q *engine.QueueStats) []byte {
			return appendDumpOptions(out, q.Name, &q.Options)
		}, nil))
		return
	}
	e := s.loop.engine
	s.startReport(namesReport(req.Args, func(user *access.User, out, word []byte) []byte {
		name := string(appendLatin1AsUTF8(nil, word))
		if !user.Sees(name) {
			out = memcache.AppendDumpQueue(out, latin1(name))
			return append(out, memcache.DumpNothing+memcache.DumpQueueEnd...)
		}
		o := optionsSeenBy(user, e.OptionsFor(name))
		return appendDumpOptions(out, name, &o)
	}))
}

// appendDumpOptions appends the block of a queue in DUMP_CONFIG.
func appendDumpOptions(out []byte, name string, o *engine.QueueOptions) []byte {
	out = memcache.AppendDumpQueue(out, latin1(name))
	number := func(key string, value int64) { out = memcache.AppendDumpEntryInt(out, key, value) }
	text := func(key, value string) { out = memcache.AppendDumpEntry(out, key, value) }
	orNone := func(v string) string {
		if v == "" {
			return "(none)"
		}
		return latin1(v)
	}
	number("max_items", o.MaxItems)
	number("max_size", o.MaxSize)
	number("max_item_size", o.MaxItemSize)
	number("max_age", o.MaxAge.Milliseconds())
	number("max_memory_size", o.MaxMemorySize)
	text("discard_old_when_full", strconv.FormatBool(o.DiscardOldWhenFull))
	text("journal", strconv.FormatBool(o.KeepJournal))
	text("sync_journal", o.Sync.String())
	text("move_expired_to", orNone(o.ExpireTo))
	number("max_expire_sweep", o.MaxExpireSweep)
	text("fanout_only", strconv.FormatBool(o.FanoutOnly))
	number("max_queue_age", o.MaxQueueAge.Milliseconds())
	text("enable_trace", strconv.FormatBool(o.Trace))
	number("open_transaction_timeout", o.OpenReadTimeout.Milliseconds())
	text("white_list_client_id_for_enqueue", orNone(o.EnqueueClientID))
	text("white_list_client_id_for_dequeue", orNone(o.DequeueClientID))
	return append(out, memcache.DumpQueueEnd...)
}

// seenBy returns the names that a user may see, in a new slice unless that is all.
func seenBy(user *access.User, names []string) []string {
	if user.Everywhere(access.Stats) {
		return names
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !user.Sees(name) })
}

// aliasesSeenBy returns the aliases that a user may see, each with the destinations that the user may see.
func aliasesSeenBy(user *access.User, all []engine.AliasStats) []engine.AliasStats {
	if user.Everywhere(access.Stats) {
		return all
	}
	var seen []engine.AliasStats
	for _, a := range all {
		if user.Sees(a.Name) {
			a.Destinations = seenBy(user, a.Destinations)
			seen = append(seen, a)
		}
	}
	return seen
}

// optionsSeenBy returns options without names of queues that a user may not see.
func optionsSeenBy(user *access.User, o engine.QueueOptions) engine.QueueOptions {
	if o.ExpireTo != "" && !user.Sees(o.ExpireTo) {
		o.ExpireTo = ""
	}
	if o.DeadLetterQueue != "" && !user.Sees(o.DeadLetterQueue) {
		o.DeadLetterQueue = ""
	}
	return o
}

// connectionsTime bounds how long STATS CONNECTIONS waits for the loops.
const connectionsTime = 5 * time.Second

// errLoopsBusy refuses STATS CONNECTIONS when a loop has not answered in time.
var errLoopsBusy = errors.New("an event loop is busy; ask again")

// lister lists connections. It is the server, which asks every loop: the loop that a request runs on must not wait.
type lister interface {
	ListConnections(context.Context, ConnectionQuery) (list []Connection, matched int, err error)
}

// memcacheConnections answers STATS CONNECTIONS: the connections with most open reads, DefaultConnections at most.
func memcacheConnections(s *session) {
	for _, right := range []access.Right{access.Operate, access.Stats} { // as on the admin port
		if err := s.denied(need{right, everywhere}, nil); err != nil {
			s.refuse(err)
			return
		}
	}
	var all lister = s.loop.server
	ending := s.loop.server.ending
	var reply []byte
	s.startJob(func() error {
		ctx, cancel := context.WithTimeout(ending, connectionsTime)
		defer cancel()
		list, matched, err := all.ListConnections(ctx, ConnectionQuery{})
		if err != nil {
			return err
		}
		reply = memcache.AppendStatInt(nil, "connections", int64(matched))
		now := engine.Now()
		for i := range list {
			reply = appendConnection(reply, &list[i], now)
		}
		reply = append(reply, memcache.ReplyEnd...)
		return nil
	}, func(s *session, err error) {
		if err != nil {
			s.out = memcache.AppendServerError(s.out, errLoopsBusy.Error())
			return
		}
		s.appendReply(reply)
	})
}

// appendConnection appends the entries of a connection. Their names begin with its number, as those of memcached's
// STATS CONNS begin with a descriptor. What it does not have is left out.
func appendConnection(out []byte, c *Connection, now engine.Time) []byte {
	prefix := strconv.FormatUint(c.Number, 10) + ":"
	text := func(name, value string) {
		if value != "" {
			out = memcache.AppendStat(out, prefix+name, latin1(value))
		}
	}
	number := func(name string, value int64) { out = memcache.AppendStatInt(out, prefix+name, value) }
	ago := func(t engine.Time) int64 { return max(now.Std().Sub(t.Std()).Milliseconds(), 0) }
	text("peer", c.Peer)
	text("protocol", c.Protocol)
	text("client_id", c.ClientID)
	text("user", c.User)
	number("age", ago(c.Since))
	number("idle", ago(cmp.Or(c.Last, c.Since)))
	number("requests", c.Requests)
	number("received_bytes", c.Received)
	number("sent_bytes", c.Sent)
	number("unread_bytes", c.Unread)
	text("waiting", c.Waiting)
	number("open_reads", int64(c.Open))
	for _, r := range c.OpenReads {
		number("open_reads:"+latin1(r.Queue), int64(r.Count))
		if r.Oldest > 0 {
			number("oldest_open_read:"+latin1(r.Queue), ago(r.Oldest))
		}
	}
	return out
}
