package admin

import (
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

// commandMetric is the name of the metric of a command. Those of the original have its names.
func commandMetric(c netloop.Command) string {
	switch c {
	case netloop.CommandPut:
		return "set_latency_usec"
	case netloop.CommandHit:
		return "get_hit_latency_usec"
	case netloop.CommandMiss:
		return "get_miss_latency_usec"
	case netloop.CommandPeek:
		return "peek_latency_usec"
	case netloop.CommandConfirm:
		return "confirm_latency_usec"
	case netloop.CommandDelete:
		return "delete_latency_usec"
	case netloop.CommandFlush:
		return "flush_latency_usec"
	}
	return ""
}

// queueMetric is the name of a metric of a queue.
func queueMetric(m engine.Measure) string {
	switch m {
	case engine.PutTime:
		return "set_latency_usec"
	case engine.HitTime:
		return "get_hit_latency_usec"
	case engine.MissTime:
		return "get_miss_latency_usec"
	case engine.WaitTime:
		return "get_timeout_msec"
	}
	return ""
}

const ageMetric = "delivery_latency_msec"

// metricsOf lists the distributions that have values, those of queues last. A name ends in the
// unit.
func metricsOf(m *netloop.Metrics) (list []named[*histogram.Counts]) {
	add := func(name string, c *histogram.Counts) {
		if c != nil && c.Total() > 0 {
			list = append(list, named[*histogram.Counts]{name, c})
		}
	}
	for c := range m.Commands {
		add(commandMetric(netloop.Command(c)), &m.Commands[c])
	}
	add("get_timeout_msec", m.Waits)
	add(ageMetric, m.Ages)
	add("fsync_delay_usec", m.Syncs)
	add("item_fsync_delay_usec", m.SyncLate)
	add("backlog_spill_usec", m.Backlog.Spills)
	add("backlog_sync_usec", m.Backlog.Syncs)
	add("backlog_fill_usec", m.Backlog.Fills)
	for i := range m.Queues {
		q := &m.Queues[i]
		prefix := "q/" + q.Name + "/"
		add(prefix+ageMetric, q.Ages)
		for what, c := range q.Times {
			add(prefix+queueMetric(engine.Measure(what)), c)
		}
	}
	return list
}
