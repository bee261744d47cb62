package admin

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"regexp/syntax"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kestrelmq/kestrel/access"
	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

// maxSeriesQueues is how many queues have series of their own in one scrape.
const maxSeriesQueues = 10_000

// prometheusMetrics answers everything for Prometheus. With queues=REGEX, only queues whose whole
// name matches have series of their own; with queues= none has.
//
// Everything is described anew for each scrape, so nothing is left of a queue that is gone.
func prometheusMetrics(s *Server, r *http.Request) (any, error) {
	c := &collector{server: s, user: userOf(r), descs: make(map[string]*prometheus.Desc)}
	if query := r.URL.Query(); query.Has("queues") {
		pattern, err := wholeName(query.Get("queues"))
		if err != nil {
			return nil, badRequest{err}
		}
		c.wanted = pattern
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if c.user.Everywhere(access.Stats) {
		registry.MustRegister(collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: scrapeLog{s}, ErrorHandling: promhttp.HTTPErrorOnError,
	}), nil
}

// wholeName returns the expression that matches the names which text, an expression, matches whole.
func wholeName(text string) (*regexp.Regexp, error) {
	var wrong *syntax.Error
	parsed, err := syntax.Parse(text, syntax.Perl)
	if errors.As(err, &wrong) {
		return nil, fmt.Errorf("queues is not a regular expression: %s: %.100s", wrong.Code, wrong.Expr)
	}
	whole, err := regexp.Compile(`\A(?:` + parsed.String() + `)\z`) // text may end inside \Q
	if err != nil {
		return nil, errors.New("queues is too long an expression")
	}
	return whole, nil
}

// scrapeLog takes errors of scrapes.
type scrapeLog struct{ *Server }

func (l scrapeLog) Println(v ...any) { l.log.Error("metrics cannot be exported", "err", v) }

// collector implements prometheus.Collector for one scrape.
type collector struct {
	server *Server
	user   *access.User   // sees only its queues, and nothing of the server unless it sees all
	wanted *regexp.Regexp // nil wants every queue
	descs  map[string]*prometheus.Desc
	out    chan<- prometheus.Metric
}

// Describe implements prometheus.Collector. It describes nothing: which series there are depends on
// the queues.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.out = out
	if !c.user.Everywhere(access.Stats) {
		c.ofUser()
		return
	}
	b := c.server.opts.Build
	c.gauge("build_info", "1; the labels say which build runs.", 1,
		"version", b.Version, "revision", b.Revision, "goversion", b.Go)
	c.gauge("start_time_seconds", "When the process started, in seconds since the Unix epoch.",
		float64(c.server.started.UnixMilli())/1000)
	if p := c.server.opts.Progress; p != nil {
		read, total := p.Bytes()
		c.gauge("replay_read_bytes", "Bytes of the journal that the start has replayed so far.", float64(read))
		c.gauge("replay_bytes", "Bytes of the journal that the start has to replay.", float64(total))
	}
	n, err := c.server.server()
	if err != nil {
		c.gauge("up", "1 once the replay is over and the server takes clients.", 0)
		return
	}
	c.gauge("up", "1 once the replay is over and the server takes clients.", 1)
	if c.server.opts.Discovery != nil {
		d := c.server.opts.Discovery()
		c.gauge("announced", "1 if ZooKeeper has the server in this set.", boolGauge(d.Read), "set", "read")
		c.gauge("announced", "1 if ZooKeeper has the server in this set.", boolGauge(d.Write), "set", "write")
		c.gauge("discovery_failing", "1 while ZooKeeper cannot be used.", boolGauge(d.Err != nil))
	}
	st, m := n.Stats(), n.Metrics()
	c.clients(&st)
	c.ports(append(n.Ports(), c.server.Ports()...))
	c.descriptors(&st)
	c.storage(&st)
	c.status(&st)
	c.distributions(&m)
	c.queues(&st, &m)
	c.aliases(&st)
}

// ofUser exports the series of the queues and aliases that the user sees.
func (c *collector) ofUser() {
	n, err := c.server.server()
	if err != nil {
		return
	}
	st, m := n.Stats(), n.Metrics()
	c.queues(&st, &m)
	c.aliases(&st)
}

func (c *collector) aliases(st *netloop.Stats) {
	for _, a := range st.Aliases {
		if c.user.Sees(a.Name) {
			c.counter("alias_put_items_total", "Items put to the alias.", a.PutItems, "alias", a.Name)
			c.counter("alias_put_bytes_total", "Bytes put to the alias.", a.PutBytes, "alias", a.Name)
		}
	}
}

// desc describes a metric, once for all of its series; labels are names and values in turn.
func (c *collector) desc(name, help string, labels []string) *prometheus.Desc {
	d := c.descs[name]
	if d == nil {
		var names []string
		for i := 0; i < len(labels); i += 2 {
			names = append(names, labels[i])
		}
		d = prometheus.NewDesc("kestrel_"+name, help, names, nil)
		c.descs[name] = d
	}
	return d
}

// valuesOf returns the values of labels, which are names and values in turn.
func valuesOf(labels []string) (values []string) {
	for i := 1; i < len(labels); i += 2 {
		values = append(values, labels[i])
	}
	return values
}

func (c *collector) gauge(name, help string, v float64, labels ...string) {
	c.out <- &sample{desc: c.desc(name, help, labels), labels: labelPairs(labels), value: v, gauge: true}
}

func (c *collector) counter(name, help string, v int64, labels ...string) {
	c.out <- &sample{desc: c.desc(name, help, labels), labels: labelPairs(labels), value: float64(v)}
}

func boolGauge(b bool) float64 { return float64(oneIf(b)) }

// clients exports what clients did.
func (c *collector) clients(st *netloop.Stats) {
	n := &st.Counters
	for _, command := range []named[int64]{
		{"get", n.CmdGet}, {"peek", n.CmdPeek}, {"set", n.CmdSet}, {"monitor", n.CmdMonitor},
	} {
		c.counter("commands_total", "Commands admitted; for set, items.", command.value, "command", command.name)
	}
	c.counter("fetches_total", "Fetches and peeks that have ended.", n.GetHits, "result", "hit")
	c.counter("fetches_total", "Fetches and peeks that have ended.", n.GetMisses, "result", "miss")
	c.counter("monitor_fetches_total", "Fetches that monitors attempted.", n.CmdMonitorGet)
	c.counter("requests_denied_total", "Requests refused because the user has no right to them.", n.Denied)
	n.OverQuota.Each(func(reason string, refused int64) {
		c.counter("requests_over_quota_total", "Requests and connections refused because of a quota of their user or account.",
			refused, "reason", reason)
	})
	st.Refusals.Each(func(protocol, reason string, refused int64) {
		c.counter("refusals_total", "Requests refused, and items of puts that were.", refused, "protocol", protocol, "reason", reason)
	})
	c.counter("unidentified_connections_total", "Connections closed because their peers did not say who they are.",
		n.Unidentified)
	var tried access.Counts
	if a := c.server.opts.Access; a != nil {
		tried = a.Counts()
	}
	const attempts = "Attempts to authenticate by password."
	c.counter("authentications_total", attempts, tried.Passed, "outcome", "passed")
	c.counter("authentications_total", attempts, tried.Failed, "outcome", "failed")
	c.counter("authentications_total", attempts, tried.Busy, "outcome", "refused")
	c.counter("tls_handshakes_total", "TLS handshakes of clients.", st.Handshakes, "outcome", "passed")
	c.counter("tls_handshakes_total", "TLS handshakes of clients.", st.HandshakesFailed, "outcome", "failed")
	c.gauge("connections", "Open connections of clients.", float64(st.Connections))
	c.counter("connections_accepted_total", "Connections of clients accepted.", n.Connections)
	c.counter("connections_refused_total", "Connections refused because there were too many.", st.Refused)
	c.counter("received_bytes_total", "Bytes read from clients.", n.BytesRead)
	c.counter("sent_bytes_total", "Bytes sent to clients.", n.BytesWritten)
	c.counter("waits_dropped_total", "Waits that ended because their connection ended.", n.WaitsDropped)
	c.counter("open_reads_dropped_total", "Open reads returned because their connection ended.", n.ReadsDropped)
	c.counter("deliveries_returned_total", "Items returned to their queue because the client that waited was gone.", n.DeliveredToDead)
	c.counter("paces_total", "Times that the server stopped reading from a client that put faster than the disk writes.", n.Paced)
	c.counter("replies_cut_total",
		"Connections that ended before their clients had read all replies, although the server waited.", st.RepliesCut)
	c.counter("protocol_errors_total",
		"Connections closed because they sent bytes that their protocol does not allow.", n.NotProtocol)
	c.counter("replies_refused_total",
		"Fetches refused because unread replies or open Thrift reads took their share of memory.", n.RepliesRefused)
	c.counter("session_faults_total", "Connections closed because of a fault of the server.", n.Panics)
	c.counter("long_turns_total", "Turns of an event loop that took 5 ms or more, while its other clients waited.", n.LongTurns)
	c.gauge("longest_turn_seconds", "The longest turn of an event loop since the start.", float64(n.LongestTurn)/1e6)
	c.gauge("longest_turn_work_seconds", "The longest turn, without the time that the loop waited for a processor.",
		float64(n.LongestTurnWork)/1e6)
	c.gauge("longest_turn_info", "1; the label says what took longest in the longest turn, or none before a long one.",
		1, "part", cmp.Or(n.LongestTurnPart, "none"))
}

// ports exports what happens on each port.
func (c *collector) ports(list []netloop.OpenPort) {
	for _, p := range list {
		labels := []string{"protocol", p.Protocol, "address", p.Name}
		c.gauge("listener_connections", "Open connections of this listener.", float64(p.Counts.Open), labels...)
		refused := "Connections that this listener refused: their network is not in allow_from, or max_connections is reached."
		c.counter("listener_refused_total", refused, p.Counts.Refused, append(labels, "reason", "network")...)
		c.counter("listener_refused_total", refused, p.Counts.Over, append(labels, "reason", "limit")...)
	}
}

// descriptors exports how many descriptors each part uses, and may use.
func (c *collector) descriptors(st *netloop.Stats) {
	for _, part := range []named[engine.FileUse]{
		{"clients", engine.FileUse{Open: st.Connections, Limit: st.MaxConnections}},
		{"lingering", engine.FileUse{Open: st.Lingering, Limit: st.MaxLingering}},
		{"operators", engine.FileUse{Open: c.server.room.open.Load(), Limit: c.server.room.limit}},
		{"journal", st.Files.Segments},
		{"backlog_writers", st.Files.Writers},
		{"backlog_readers", st.Files.Readers},
	} {
		c.gauge("descriptors", "Descriptors in use, by the part that uses them.", float64(part.value.Open),
			"part", part.name)
		c.gauge("descriptors_limit", "Descriptors that this part may use at a time.", float64(part.value.Limit),
			"part", part.name)
	}
}

// storage exports what the engine holds, and the state of its disk.
func (c *collector) storage(st *netloop.Stats) {
	e := &st.Engine
	c.gauge("queues", "Queues that exist.", float64(e.Queues))
	c.gauge("queues_withheld", "Queues withheld because the start could not restore them whole.",
		float64(e.Withheld))
	c.counter("queues_created_total", "Queues created, those found at the start included.", e.Created)
	c.counter("queues_refused_total", "Queues not created, because of max_queues, too many fanout children, "+
		"or memory_limit.", e.NotCreated)
	c.counter("queues_deleted_total", "Queues deleted, those that expired included.", e.Deleted)
	c.counter("queues_expired_total", "Queues deleted by max_queue_age.", e.Expired)
	c.gauge("items", "Items queued.", float64(st.Items))
	c.gauge("items_bytes", "Bytes of the items queued.", float64(st.Bytes))
	c.gauge("open_reads", "Items handed out and not confirmed.", float64(st.OpenReads))
	c.gauge("waiters", "Fetches that wait for an item.", float64(st.Waiters))
	c.counter("items_put_total", "Items accepted, counted once in each queue that they went to.", e.TotalItems)
	c.gauge("memory_bytes", "Bytes of memory that count against the limit: items, open reads, backlogs read ahead, "+
		"buffers of connections.", float64(e.MemoryBytes))
	c.gauge("memory_limit_bytes", "Bytes of memory above which the server refuses puts.", float64(e.MemoryLimit))
	c.gauge("memory_reserved_ratio",
		"The sum of max_memory_size of all queues, as a ratio of the limit.", st.ReservedMemory)
	c.gauge("journal_bytes", "Bytes that the journal takes on disk.", float64(e.JournalBytes))
	c.gauge("journal_failing", "1 while the server cannot write or sync the journal, and refuses puts.",
		boolGauge(e.JournalFailing))
	c.gauge("disk_full", "1 while the disk has no room for the journal, or less than its reserve, and the server refuses puts.", boolGauge(e.DiskFull))
	if e.DiskFree >= 0 {
		c.gauge("disk_free_bytes", "Free bytes on the disk of the data directory.", float64(e.DiskFree))
		c.gauge("disk_reserve_bytes", "Bytes that puts leave free; with less, the server refuses puts.",
			float64(e.DiskReserve))
	}
	// Prometheus sees no increase in a series that begins with its first error.
	failed := map[string]int64{"EIO": 0, "ENOSPC": 0, "other": 0}
	maps.Copy(failed, e.SyncErrors)
	for class, n := range failed {
		c.counter("journal_sync_errors_total", "Syncs of the journal that failed.", n, "error", class)
	}
}

// status exports the status as a set of series, one of which is 1.
func (c *collector) status(st *netloop.Stats) {
	for s := netloop.Up; s <= netloop.Down; s++ {
		c.gauge("status", "1 for the status that was requested last.", boolGauge(s == st.Requested),
			"status", s.String())
	}
	c.gauge("readable", "1 unless the status refuses fetches.", boolGauge(!st.Enforced.BlocksReads()))
	c.gauge("writable", "1 unless the status refuses puts.", boolGauge(!st.Enforced.BlocksWrites()))
}

// queues exports the series of the queues that the scrape asks for.
func (c *collector) queues(st *netloop.Stats, m *netloop.Metrics) {
	metrics := m.Queues // sorted by name, as are those of st
	shown, left := 0, 0
	for i := range st.Queues {
		q := &st.Queues[i]
		if !c.user.Sees(q.Name) || c.wanted != nil && !c.wanted.MatchString(q.Name) {
			continue
		}
		if shown == maxSeriesQueues {
			left++
			continue
		}
		shown++
		c.queue(q)
		for len(metrics) > 0 && metrics[0].Name < q.Name {
			metrics = metrics[1:]
		}
		if len(metrics) > 0 && metrics[0].Name == q.Name {
			c.summaries(&metrics[0])
		}
	}
	c.gauge("queues_left_out", "Queues without series of their own, because there are too many queues.", float64(left))
}

func (c *collector) queue(q *engine.QueueStats) {
	name := []string{"queue", q.Name}
	own := labelPairs(name)
	gauge := func(metric, help string, v float64) {
		c.out <- &sample{desc: c.desc("queue_"+metric, help, name), labels: own, value: v, gauge: true}
	}
	counter := func(metric, help string, v int64) {
		c.out <- &sample{desc: c.desc("queue_"+metric, help, name), labels: own, value: float64(v)}
	}
	gauge("items", "Items queued.", float64(q.Items))
	gauge("bytes", "Bytes of the items queued.", float64(q.Bytes))
	gauge("memory_items", "Items held in memory.", float64(q.MemItems))
	gauge("memory_bytes", "Bytes of the items held in memory.", float64(q.MemBytes))
	gauge("journal_bytes", "Bytes that the queue's items take in the journal, about.", float64(q.JournalBytes))
	gauge("backlog_bytes", "Bytes that the queue's backlog takes on disk.", float64(q.BacklogBytes))
	gauge("read_behind", "1 while part of the queue is only on disk.", float64(oneIf(q.ReadBehind)))
	gauge("open_reads", "Items handed out and not confirmed.", float64(q.OpenReads))
	gauge("oldest_open_read_seconds", "How long ago the read was opened that has been open for longest; 0 without one.",
		float64(q.OldestRead)/1000)
	gauge("delayed_items", "Items that are hidden until they are due.", float64(q.Delayed))
	gauge("leased_items", "Items that are leased.", float64(q.Leased))
	gauge("waiters", "Fetches that wait for an item.", float64(q.Waiters))
	gauge("age_seconds", "How long ago the item handed out last was put; 0 if the queue is empty.",
		float64(q.Age)/1000)
	unlimited := engine.DefaultQueueOptions()
	if q.Options.MaxItems != unlimited.MaxItems {
		gauge("max_items", "The most items that the queue may hold.", float64(q.Options.MaxItems))
	}
	if q.Options.MaxSize != unlimited.MaxSize {
		gauge("max_bytes", "The most bytes of items that the queue may hold.", float64(q.Options.MaxSize))
	}
	counter("put_items_total", "Items put.", q.Puts)
	counter("put_bytes_total", "Bytes put.", q.PutBytes)
	const fetches = "Fetches and peeks that have ended."
	c.counter("queue_fetches_total", fetches, q.Hits, "queue", q.Name, "result", "hit")
	c.counter("queue_fetches_total", fetches, q.Misses, "queue", q.Name, "result", "miss")
	counter("open_reads_total", "Open reads begun.", q.Opens)
	counter("open_reads_returned_total", "Open reads whose items went back to the queue.", q.Returns)
	counter("dead_lettered_items_total", "Items that went to the dead-letter queue.", q.DeadLettered)
	counter("redelivered_items_total", "Deliveries of items that had been delivered before.", q.Redelivered)
	counter("expired_items_total", "Items that expired.", q.Expired)
	counter("discarded_items_total", "Items that a full queue dropped.", q.Discarded)
	counter("refused_puts_total", "Puts that the queue refused: it was full, the item too large, or a key one too many.",
		q.RefusedPuts)
	counter("flushes_total", "Flushes.", q.Flushes)
	counter("read_errors_total", "Reads of the backlog that failed.", q.ReadErrors)
}

// summaries exports the distributions of a queue as quantiles: buckets would be too many series.
func (c *collector) summaries(q *engine.QueueMetrics) {
	for _, s := range []struct {
		name, help string
		counts     *histogram.Counts
		scale      float64 // seconds
	}{
		{"queue_put_duration_seconds", "How long a put took.", q.Times[engine.PutTime], 1e-6},
		{"queue_get_duration_seconds", "How long a fetch took that found an item at once.",
			q.Times[engine.HitTime], 1e-6},
		{"queue_delivery_age_seconds", "How long an item had been queued when it was handed out.",
			q.Ages, 1e-3},
	} {
		if s.counts == nil {
			continue
		}
		quantiles := make(map[float64]float64)
		for _, p := range []float64{0.5, 0.9, 0.99, 0.999} {
			quantiles[p] = float64(s.counts.Quantile(p)) * s.scale
		}
		d := c.desc(s.name, s.help, []string{"queue", q.Name})
		c.out <- prometheus.MustNewConstSummary(d, uint64(s.counts.Total()),
			float64(s.counts.Sum())*s.scale, quantiles, q.Name)
	}
}

// distributions exports the server's distributions as histograms, which can be added up over servers.
func (c *collector) distributions(m *netloop.Metrics) {
	for command := range m.Commands {
		name := commandMetric(netloop.Command(command))
		c.histogram("command_duration_seconds",
			"Time from the turn that read a command to the tick that sent its reply.",
			&m.Commands[command], 1e-6, durations(), "command", name[:len(name)-len("_latency_usec")])
	}
	c.histogram("wait_timeout_seconds", "How long a fetch waited that ended without an item.", m.Waits, 1e-3, ages())
	c.histogram("delivery_age_seconds", "How long an item had been queued when it was handed out.",
		m.Ages, 1e-3, ages())
	c.histogram("journal_sync_duration_seconds", "How long a sync of the journal took.",
		m.Syncs, 1e-6, durations())
	c.histogram("journal_sync_late_seconds", "How much later than its time a periodic sync ended.",
		m.SyncLate, 1e-6, durations())
	c.histogram("backlog_spill_duration_seconds", "How long writing a batch of items to a backlog took.",
		m.Backlog.Spills, 1e-6, durations())
	c.histogram("backlog_sync_duration_seconds", "How long a sync of a backlog took.",
		m.Backlog.Syncs, 1e-6, durations())
	c.histogram("backlog_fill_duration_seconds",
		"How long reading and checking a piece of a backlog took.",
		m.Backlog.Fills, 1e-6, durations())
	c.counter("backlog_mapped_bytes_total", "Bytes of backlogs read back through memory maps.",
		m.Backlog.Mapped)
	c.counter("backlog_direct_bytes_total", "Bytes of backlogs read back past the page cache.",
		m.Backlog.Direct)
}

// durations returns the upper bounds of buckets of times that should be short, in seconds.
func durations() []float64 {
	return []float64{
		50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
	}
}

// ages returns the upper bounds of buckets of times that may be long, in seconds.
func ages() []float64 {
	return []float64{0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 6 * 3600, 86400, 7 * 86400}
}

// histogram exports a distribution whose values are multiples of scale seconds.
func (c *collector) histogram(
	name, help string, counts *histogram.Counts, scale float64, bounds []float64, labels ...string,
) {
	buckets := make(map[float64]uint64, len(bounds))
	for _, bound := range bounds {
		buckets[bound] = 0
	}
	counts.Each(func(low, high, n int64) {
		middle := float64(low+(high-low)/2) * scale
		for _, bound := range bounds {
			if middle <= bound {
				buckets[bound] += uint64(n)
			}
		}
	})
	d := c.desc(name, help, labels)
	c.out <- prometheus.MustNewConstHistogram(d, uint64(counts.Total()), float64(counts.Sum())*scale, buckets,
		valuesOf(labels)...)
}
