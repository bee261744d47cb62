package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

// scrape returns what /metrics exports, by family.
func (tt *tester) scrape(path string) map[string]*dto.MetricFamily {
	tt.t.Helper()
	got := tt.get(path)
	if got.code != 200 || got.kind != "text/plain" {
		tt.t.Fatalf("GET %s = %d %s %.200q", path, got.code, got.kind, got.body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(got.body))
	if err != nil {
		tt.t.Fatalf("GET %s: %v in %.2000s", path, err, got.body)
	}
	return families
}

// series lists the series of a family, as {label="value"} value.
func series(f *dto.MetricFamily) map[string]float64 {
	all := make(map[string]float64)
	for _, m := range f.GetMetric() {
		var labels []string
		for _, l := range m.GetLabel() {
			labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount()) +
			float64(m.GetSummary().GetSampleCount())
		all[strings.Join(labels, ",")] = v
	}
	return all
}

func TestPrometheus(t *testing.T) {
	settings := defaults()
	settings.Aliases = map[string][]string{"al": {"q"}}
	limited := engine.DefaultQueueOptions()
	limited.MaxItems = 7
	settings.Queues = map[string]engine.QueueOptions{"limited": limited}
	tt := start(t, Options{Progress: new(engine.Progress)}, netloop.Options{}, settings)
	tt.talk("set q 0 0 3\r\nabc\r\nset q 0 0 1\r\nx\r\nget q\r\nget q/open\r\nget none\r\nget none/t=2\r\n" +
		"set al 0 0 2\r\nab\r\nset limited 0 0 1\r\nx\r\nset gone 0 0 1\r\nx\r\nget caf\xe9\r\n")
	families := tt.scrape("/metrics")
	for name, want := range map[string]map[string]float64{
		"kestrel_up":                       {"": 1},
		"kestrel_commands_total":           {`command="set"`: 5, `command="get"`: 5, `command="peek"`: 0, `command="monitor"`: 0},
		"kestrel_fetches_total":            {`result="hit"`: 2, `result="miss"`: 3},
		"kestrel_queues":                   {"": 5},
		"kestrel_items_put_total":          {"": 5},
		"kestrel_open_reads_dropped_total": {"": 1},
		"kestrel_queue_items":              {`queue="q"`: 2, `queue="none"`: 0, `queue="limited"`: 1, `queue="gone"`: 1, `queue="café"`: 0},
		"kestrel_queue_max_items":          {`queue="limited"`: 7},
		"kestrel_alias_put_bytes_total":    {`alias="al"`: 2},
		"kestrel_status": {`status="Up"`: 1, `status="WriteAvoid"`: 0, `status="ReadOnly"`: 0,
			`status="Quiescent"`: 0, `status="Down"`: 0},
		"kestrel_queue_put_duration_seconds": {`queue="q"`: 2, `queue="limited"`: 1, `queue="gone"`: 1},
		"kestrel_queue_delivery_age_seconds": {`queue="q"`: 2},
		"kestrel_delivery_age_seconds":       {"": 2},
		"kestrel_wait_timeout_seconds":       {"": 1},
		"kestrel_queues_left_out":            {"": 0},
	} {
		if got := series(families[name]); !maps.Equal(got, want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := series(families["kestrel_command_duration_seconds"]); got[`command="set"`] != 5 || len(got) != 7 {
		t.Errorf("durations = %v", got)
	}
	for _, name := range []string{"go_goroutines", "process_open_fds", "kestrel_build_info", "kestrel_replay_bytes"} {
		if families[name] == nil {
			t.Errorf("%s is missing", name)
		}
	}
	tt.engine.Delete(engine.Now(), []byte("gone"))
	if body := tt.get("/metrics").body; strings.Contains(body, `"gone"`) {
		t.Errorf("series are left of a deleted queue: %s", body)
	}

	for _, text := range []string{"li.*|q", `li.*|\Qq`} {
		if got := series(tt.scrape("/metrics?queues=" + text)["kestrel_queue_items"]); len(got) != 2 {
			t.Errorf("queues of %s = %v", text, got)
		}
	}
	if got := tt.scrape("/metrics?queues=")["kestrel_queue_items"]; got != nil {
		t.Errorf("no queues = %v", series(got))
	}
	for text, want := range map[string]string{
		"(":     "queues is not a regular expression: missing closing ): (",
		"a)|(b": "queues is not a regular expression: unexpected ): a)|(b",
		strings.Repeat("(", 999) + strings.Repeat(")", 999): "queues is too long an expression",
	} {
		got := tt.get("/metrics?queues=" + text)
		if got.code != 400 || got.body != "error processing command: "+want+"\n" {
			t.Errorf("/metrics?queues=%.20s = %d %q, want %q", text, got.code, got.body, want)
		}
	}
	if got := tt.do("POST", "/metrics"); got.code != 405 {
		t.Errorf("POST /metrics = %d", got.code)
	}
}

// TestPrometheusNames tests the names with Prometheus' own rules.
func TestPrometheusNames(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.talk("set q 0 0 3\r\nabc\r\nget q\r\n")
	families := tt.scrape("/metrics")
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(families))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "kestrel_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if len(families) < 60 {
		t.Errorf("only %d families", len(families))
	}
}

// TestNamesWithControls tests how names look that hold what a terminal obeys. A scraper gets each as it is, and a
// person who reads text does not.
func TestNamesWithControls(t *testing.T) {
	const name = "a\x1b[31m\"\\\tb"
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.talk("set " + name + " 0 0 1\r\nx\r\n")
	if got, want := series(tt.scrape("/metrics")["kestrel_queue_items"]), fmt.Sprintf("queue=%q", name); got[want] != 1 {
		t.Errorf("kestrel_queue_items is %v, want 1 for %s", got, want)
	}
	if got, want := tt.get("/stats.txt").body, "q/a?[31m\"\\?b/"; !strings.Contains(got, want) || strings.Contains(got, "\x1b") {
		t.Errorf("/stats.txt lacks %q, or has an ESC:\n%q", want, got)
	}
	if got := tt.get("/stats.json").body; !strings.Contains(got, "a\\u001b[31m") || strings.Contains(got, "\x1b") {
		t.Errorf("/stats.json does not escape an ESC:\n%q", got)
	}
}

func TestPrometheusBeforeAndAfter(t *testing.T) {
	tt := startUnready(t, Options{Progress: new(engine.Progress)})
	families := tt.scrape("/metrics")
	if got := series(families["kestrel_up"]); got[""] != 0 || families["kestrel_replay_read_bytes"] == nil {
		t.Errorf("up during the replay = %v", got)
	}
	tt.attach(netloop.Options{}, defaults())
	if err := tt.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	families = tt.scrape("/metrics")
	if got := series(families["kestrel_writable"]); got[""] != 0 {
		t.Errorf("writable when stopped = %v", got)
	}
}

// BenchmarkScrape exports 10,000 queues that are in use.
func BenchmarkScrape(b *testing.B) {
	tt := start(b, Options{}, netloop.Options{}, defaults())
	for i := range 10_000 {
		tt.put(fmt.Sprint("queue", i), "x")
	}
	for _, path := range []string{"/metrics", "/metrics?queues=", "/stats.json", "/histograms.json?all=1"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if got := tt.get(path); got.code != 200 {
					b.Fatalf("%d %.200q", got.code, got.body)
				}
			}
		})
	}
}
