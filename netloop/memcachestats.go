package netloop

import (
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
	st := s.loop.server.Stats()
	e, c := &st.Engine, &st.Counters
	out := s.out
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
	s.out = append(appendQueueStats(out, &st), memcache.ReplyEnd...)
}

// queueStatsSize is about how many bytes the entries of a queue with a short name take in STATS.
const queueStatsSize = 600

// appendQueueStats appends the entries of every queue and alias.
func appendQueueStats(out []byte, st *Stats) []byte {
	out = slices.Grow(out, len(st.Queues)*queueStatsSize)
	for i := range st.Queues {
		q := &st.Queues[i]
		name := latin1(q.Name)
		eachQueueStat(q, func(key string, value int64) {
			out = memcache.AppendQueueStatInt(out, name, key, value)
		})
		if len(q.Children) > 0 {
			out = memcache.AppendQueueStat(out, name, "children", joinLatin1(q.Children))
		}
	}
	for _, a := range st.Aliases {
		name := latin1(a.Name)
		out = memcache.AppendQueueStatInt(out, name, "put_items", a.PutItems)
		out = memcache.AppendQueueStatInt(out, name, "put_bytes", a.PutBytes)
		out = memcache.AppendQueueStat(out, name, "children", joinLatin1(a.Destinations))
	}
	return out
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
}

func joinLatin1(names []string) string {
	return latin1(strings.Join(names, ","))
}

// memcacheDumpStats answers DUMP_STATS for the queues named, or for all.
func memcacheDumpStats(s *session, req *memcache.Request) {
	e := s.loop.engine
	aliases := e.Aliases()
	if len(req.Args) == 0 {
		for _, q := range e.Queues(s.loop.now) {
			s.dumpQueue(&q)
		}
		for _, a := range aliases {
			s.dumpAlias(a)
		}
	}
	for word := range memcache.Words(req.Args) {
		s.dumpNamed(word, aliases)
	}
	s.out = append(s.out, memcache.ReplyEnd...)
}

// dumpNamed appends the block of the queue or alias called name, which may not exist.
func (s *session) dumpNamed(name []byte, aliases []engine.AliasStats) {
	internal := s.latin1Name(name)
	for _, a := range aliases {
		if a.Name == string(internal) {
			s.dumpAlias(a)
			return
		}
	}
	if q, ok := s.loop.engine.QueueStats(s.loop.now, internal); ok {
		s.dumpQueue(&q)
		return
	}
	s.out = memcache.AppendDumpQueue(s.out, string(name))
	s.out = append(s.out, memcache.DumpNothing+memcache.DumpQueueEnd...)
}

func (s *session) dumpQueue(q *engine.QueueStats) {
	out := memcache.AppendDumpQueue(s.out, latin1(q.Name))
	eachQueueStat(q, func(name string, value int64) {
		out = memcache.AppendDumpEntryInt(out, name, value)
	})
	if len(q.Children) > 0 {
		out = memcache.AppendDumpEntry(out, "children", joinLatin1(q.Children))
	}
	s.out = append(out, memcache.DumpQueueEnd...)
}

func (s *session) dumpAlias(a engine.AliasStats) {
	out := memcache.AppendDumpQueue(s.out, latin1(a.Name))
	out = memcache.AppendDumpEntryInt(out, "put_items", a.PutItems)
	out = memcache.AppendDumpEntryInt(out, "put_bytes", a.PutBytes)
	out = memcache.AppendDumpEntry(out, "children", joinLatin1(a.Destinations))
	s.out = append(out, memcache.DumpQueueEnd...)
}

// memcacheDumpConfig answers DUMP_CONFIG for the queues named, or for all that exist.
func memcacheDumpConfig(s *session, req *memcache.Request) {
	if len(req.Args) == 0 {
		for _, q := range s.loop.engine.Queues(s.loop.now) {
			s.dumpOptions(q.Name, q.Options)
		}
	}
	for word := range memcache.Words(req.Args) {
		name := string(s.latin1Name(word))
		s.dumpOptions(name, s.loop.engine.OptionsFor(name))
	}
	s.out = append(s.out, memcache.ReplyEnd...)
}

func (s *session) dumpOptions(name string, o engine.QueueOptions) {
	out := memcache.AppendDumpQueue(s.out, latin1(name))
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
	s.out = append(out, memcache.DumpQueueEnd...)
}
