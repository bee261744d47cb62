package admin

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

// named is a number with its name in the statistics. The names are those of the original, verbatim.
type named[T any] struct {
	name  string
	value T
}

// totals are the statistics at one moment, each list sorted by name. What is in it is not changed.
type totals struct {
	counters []named[int64]             // since the start
	metrics  []named[*histogram.Counts] // likewise
	gauges   []named[any]               // int64 or float64
	labels   []named[string]
}

// totals takes the statistics.
func (s *Server) totals() (*totals, error) {
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	st := server.Stats()
	m := server.Metrics()
	t := &totals{metrics: metricsOf(&m)}
	t.global(&st)
	aliases := make(map[string]bool)
	for _, a := range st.Aliases {
		aliases[a.Name] = true
		t.alias(a)
	}
	for i := range st.Queues {
		q := &st.Queues[i]
		t.queue(q, aliases[q.Name])
	}
	t.labels = []named[string]{{"status", st.Requested.String()}, {"version", s.opts.Build.Version}}
	sortByName(t.counters)
	sortByName(t.metrics)
	sortByName(t.gauges)
	return t, nil
}

func sortByName[T any](list []named[T]) {
	slices.SortFunc(list, func(a, b named[T]) int { return cmp.Compare(a.name, b.name) })
}

func (t *totals) counter(name string, v int64) {
	t.counters = append(t.counters, named[int64]{name, v})
}

func (t *totals) gauge(name string, v any) { t.gauges = append(t.gauges, named[any]{name, v}) }

// global takes in what is not of a queue.
func (t *totals) global(st *netloop.Stats) {
	c, e := &st.Counters, &st.Engine
	for _, n := range []named[int64]{
		{"cmd_get", c.CmdGet},
		{"cmd_peek", c.CmdPeek},
		{"cmd_set", c.CmdSet},
		{"cmd_monitor", c.CmdMonitor},
		{"cmd_monitor_get", c.CmdMonitorGet},
		{"get_hits", c.GetHits},
		{"get_misses", c.GetMisses},
		{"total_items", e.TotalItems},
		{"total_connections", c.Connections},
		{"bytes_read", c.BytesRead},
		{"bytes_written", c.BytesWritten},
		{"queue_creates", e.Created},
		{"queue_deletes", e.Deleted},
		{"queue_expires", e.Expired},
		{"cmd_get_timeout_dropped", c.WaitsDropped},
		{"waiters_aborted", c.WaitsDropped},
		{"cmd_get_open_dropped", c.ReadsDropped},
		{"finished_but_add", c.DeliveredToDead},
		{"connections_refused", st.Refused},
		{"protocol_errors", c.NotProtocol},
		{"replies_cut", st.RepliesCut},
		{"session_faults", c.Panics},
		{"replies_refused", c.RepliesRefused},
		{"long_turns", c.LongTurns},
		{"requests_denied", c.Denied},
	} {
		t.counter(n.name, n.value)
	}
	c.OverQuota.Each(func(reason string, refused int64) { t.counter("over_quota_"+reason, refused) })
	st.Refusals.EachReason(func(reason string, refused int64) { t.counter("refused_"+reason, refused) })
	for class, n := range e.SyncErrors {
		t.counter("fsync_error_"+class, n)
	}
	for _, n := range []named[any]{
		{"connections", st.Connections},
		{"items", st.Items},
		{"bytes", st.Bytes},
		{"reserved_memory_ratio", st.ReservedMemory},
		{"status/readable", oneIf(!st.Requested.BlocksReads())},
		{"status/writeable", oneIf(!st.Requested.BlocksWrites())},
		{"longest_turn_usec", c.LongestTurn},
		{"longest_turn_work_usec", c.LongestTurnWork},
		{"queues", e.Queues},
		{"queues_withheld", e.Withheld},
		{"memory_bytes", e.MemoryBytes},
		{"memory_limit", e.MemoryLimit},
		{"journal_bytes", e.JournalBytes},
		{"journal_failing", oneIf(e.JournalFailing)},
		{"disk_full", oneIf(e.DiskFull)},
		{"disk_free_bytes", max(e.DiskFree, 0)},
		{"disk_reserve_bytes", e.DiskReserve},
	} {
		t.gauge(n.name, n.value)
	}
	for _, q := range st.Withheld {
		t.gauge("q/"+q.Name+"/withheld", 1)
	}
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// queue adds a queue. aliased says that an alias hides it; the name then has the puts of the alias.
// Names come in order, which makes sorting cheap.
func (t *totals) queue(q *engine.QueueStats, aliased bool) {
	prefix := "q/" + q.Name + "/"
	hidden := func(name string) bool {
		return aliased && (name == "put_items" || name == "put_bytes" || name == "create_time")
	}
	for _, n := range [...]named[int64]{
		{"canceled_transactions", q.Returns},
		{"dead_lettered", q.DeadLettered},
		{"discarded", q.Discarded},
		{"expired_items", q.Expired},
		{"get_items_hit", q.Hits},
		{"get_items_miss", q.Misses},
		{"journal_rewrites", 0},  // the journal that all queues share is never rewritten,
		{"journal_rotations", 0}, // and rotates for all of them
		{"put_bytes", q.PutBytes},
		{"put_items", q.TotalItems()},
		{"read_errors", q.ReadErrors},
		{"redelivered", q.Redelivered},
		{"refused_puts", q.RefusedPuts},
		{"total_flushes", q.Flushes},
		{"total_items", q.TotalItems()},
		{"transactions", q.Opens},
	} {
		if !hidden(n.name) {
			t.counter(prefix+n.name, n.value)
		}
	}
	for _, n := range [...]named[int64]{
		{"age_msec", q.Age},
		{"backlog_bytes", q.BacklogBytes},
		{"bytes", q.Bytes},
		{"create_time", int64(q.Created) / 1000},
		{"delayed", q.Delayed},
		{"items", q.Items},
		{"journal_size", q.LogSize()},
		{"leased", q.Leased},
		{"max_bytes", q.Options.MaxSize},
		{"max_items", q.Options.MaxItems},
		{"mem_bytes", q.MemBytes},
		{"mem_items", q.MemItems},
		{"oldest_open_msec", q.OldestRead},
		{"open_transactions", q.OpenReads},
		{"read_behind", oneIf(q.ReadBehind)},
		{"waiters", q.Waiters},
	} {
		if !hidden(n.name) {
			t.gauge(prefix+n.name, n.value)
		}
	}
}

func (t *totals) alias(a engine.AliasStats) {
	prefix := "q/" + a.Name + "/"
	t.counter(prefix+"put_items", a.PutItems)
	t.counter(prefix+"put_bytes", a.PutBytes)
	t.gauge(prefix+"create_time", int64(a.Created)/1000)
}

// since returns t with counters and metrics that count from earlier on; what is new in t counts
// whole.
func (t *totals) since(earlier *totals) *totals {
	d := *t
	d.counters = subtract(t.counters, earlier.counters, func(now, then int64) int64 {
		if then > now { // a queue that was deleted and made again
			return now
		}
		return now - then
	})
	d.metrics = subtract(t.metrics, earlier.metrics, (*histogram.Counts).Since)
	return &d
}

// subtract applies minus to what is in both lists, which are sorted by name.
func subtract[T any](now, then []named[T], minus func(now, then T) T) []named[T] {
	list := slices.Clone(now)
	for i := range list {
		for len(then) > 0 && then[0].name < list[i].name {
			then = then[1:]
		}
		if len(then) > 0 && then[0].name == list[i].name {
			list[i].value = minus(list[i].value, then[0].value)
		}
	}
	return list
}

// seenBy returns what a user may see of t.
func (t *totals) seenBy(u *access.User) *totals {
	return &totals{
		counters: seen(u, t.counters), metrics: seen[*histogram.Counts](u, t.metrics), gauges: seen(u, t.gauges),
		labels: t.labels,
	}
}

// object is t as it is answered, without the names that a filter matches.
func (t *totals) object(filters []*regexp.Regexp) object {
	return object{
		{"counters", members(t.counters, filters)},
		{"metrics", members(t.metrics, filters)},
		{"gauges", members(t.gauges, filters)},
		{"labels", members(t.labels, filters)},
	}
}

func members[T any](list []named[T], filters []*regexp.Regexp) object {
	o := make(object, 0, len(list))
	for _, n := range list {
		if slices.ContainsFunc(filters, func(f *regexp.Regexp) bool { return f.MatchString(n.name) }) {
			continue
		}
		var v any = n.value
		if c, ok := v.(*histogram.Counts); ok {
			v = distribution{c}
		}
		o = append(o, member{n.name, v})
	}
	return o
}
