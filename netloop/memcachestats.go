package netloop

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kestrelmq/kestrel/codec/memcache"
	"github.com/kestrelmq/kestrel/engine"
)

// memcacheStats answers STATS: the server's entries in a fixed order, then those of every queue and
// alias.
func memcacheStats(s *session, _ *memcache.Request) {
	s.loop.publish() // what this connection has just done is to be seen
	server := s.loop.server
	s.startReport(memcacheReport(server, func(out []byte) []byte {
		return appendServerStats(out, server)
	}, appendQueueStats, appendAliasStats))
}

// memcacheReport is a report that begins with what head appends, nothing if it is nil; then come
// the queues, the aliases, unless alias is nil, and the line that ends it.
func memcacheReport(
	server *Server, head func([]byte) []byte, queue func([]byte, *engine.QueueStats) []byte,
	alias func([]byte, *engine.AliasStats) []byte,
) report {
	var walk *engine.Walk
	return func(out []byte) (piece []byte, more bool) {
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
			out = queue(out, &q)
		}
		if walk.Left() > 0 {
			return out, true
		}
		if alias != nil {
			for _, a := range server.Engine().Aliases() {
				out = alias(out, &a)
			}
		}
		return append(out, memcache.ReplyEnd...), false
	}
}

// appendServerStats appends the entries of the server, which takes a look at every queue.
func appendServerStats(out []byte, server *Server) []byte {
	st := server.summary(engine.Now())
	walk := server.Engine().Walk()
	for q, ok := walk.Next(st.At); ok; q, ok = walk.Next(st.At) {
		st.add(&q)
	}
	e, c := &st.Engine, &st.Counters
	stat := func(name string, value int64) { out = memcache.AppendStatInt(out, name, value) }
	stat("uptime", int64(time.Since(st.Started)/time.Second))
	stat("time", int64(st.At)/1000)
	out = memcache.AppendStat(out, "version", Version)
	stat("curr_items", st.Items)
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
	stat("long_turns", c.LongTurns)
	stat("longest_turn_usec", c.LongestTurn)
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
	s.startReport(namesReport(req.Args, func(out, name []byte) []byte {
		return appendDumpNamed(out, e, name, aliases)
	}))
}

// namesReport is a report on the queues that are named in args, which it copies: what one appends for
// each, and the line that ends it.
func namesReport(args []byte, one func(out, name []byte) []byte) report {
	names := slices.Collect(memcache.Words(bytes.Clone(args)))
	return func(out []byte) (piece []byte, more bool) {
		for len(out) < pieceSize {
			if len(names) == 0 {
				return append(out, memcache.ReplyEnd...), false
			}
			out, names = one(out, names[0]), names[1:]
		}
		return out, true
	}
}

// appendDumpNamed appends the block of the queue or alias called name, which may not exist.
func appendDumpNamed(out []byte, e *engine.Engine, name []byte, aliases []engine.AliasStats) []byte {
	internal := appendLatin1AsUTF8(nil, name)
	for _, a := range aliases {
		if a.Name == string(internal) {
			return appendDumpAlias(out, &a)
		}
	}
	if q, ok := e.QueueStats(engine.Now(), internal); ok {
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
	s.startReport(namesReport(req.Args, func(out, word []byte) []byte {
		name := string(appendLatin1AsUTF8(nil, word))
		o := e.OptionsFor(name)
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
