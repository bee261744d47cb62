package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/engine/histogram"
	"github.com/kestrelmq/kestrel/netloop"
)

// talk sends a request over the memcache protocol and waits until it is over, also for those who
// measure.
func (tt *tester) talk(request string) {
	tt.t.Helper()
	c, err := net.Dial("tcp", tt.server.MemcacheAddr().String())
	if err != nil {
		tt.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testDeadline))
	if _, err := c.Write([]byte(request + "quit\r\n")); err != nil {
		tt.t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(c); err != nil {
		tt.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testDeadline)
	defer cancel()
	if err := tt.server.Probe(ctx); err != nil { // the tick that let the reply leave has ended
		tt.t.Fatal(err)
	}
}

// TestMetricsInStats tests that what was done shows as metrics of the original's names, and goes
// with its queue.
func TestMetricsInStats(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	if _, ok := tt.stats("/stats").Metrics["set_latency_usec"]; ok {
		t.Error("a metric without values is exported")
	}
	tt.talk("set q 0 0 1\r\nx\r\nset q 0 0 1\r\nx\r\nget q\r\nget q/open\r\nget q/close\r\nget q\r\n" +
		"get q/peek\r\nget q/t=1\r\nflush q\r\nset r 0 0 1\r\nx\r\ndelete r\r\n")
	st := tt.stats("/stats")
	for name, want := range map[string]int64{
		"set_latency_usec": 3, "get_hit_latency_usec": 2, "get_miss_latency_usec": 1, "peek_latency_usec": 1,
		"confirm_latency_usec": 1, "flush_latency_usec": 1, "delete_latency_usec": 1, "get_timeout_msec": 1,
		"delivery_latency_msec": 2, "q/q/set_latency_usec": 2, "q/q/get_hit_latency_usec": 2,
		"q/q/get_miss_latency_usec": 1, "q/q/get_timeout_msec": 1, "q/q/delivery_latency_msec": 2,
	} {
		if got := st.Metrics[name]["count"]; got != want {
			t.Errorf("%s counts %d, want %d", name, got, want)
		}
	}
	for _, part := range strings.Fields("sum average minimum maximum p25 p50 p75 p90 p95 p99 p999 p9999") {
		if _, ok := st.Metrics["set_latency_usec"][part]; !ok {
			t.Errorf("a metric lacks %s: %v", part, st.Metrics["set_latency_usec"])
		}
	}
	text := tt.get("/stats.txt").body
	if !strings.Contains(text, "\n  q/q/get_timeout_msec: (average=") {
		t.Errorf("stats.txt = %s", text)
	}
	tt.engine.Delete(engine.Now(), []byte("q"))
	for name := range tt.stats("/stats").Metrics {
		if strings.HasPrefix(name, "q/") {
			t.Errorf("%s is there after its queue was deleted", name)
		}
	}
	tt.stats("/stats?namespace=x")
	st = tt.stats("/stats?namespace=x")
	if m := st.Metrics["set_latency_usec"]; len(m) != 1 || m["count"] != 0 {
		t.Errorf("a metric of a window in which nothing happened = %v", m)
	}
}

func TestHistograms(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	tt.talk("set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\nset w 0 0 1\r\nx\r\nget q\r\n")
	type histogram struct {
		Unit                         string
		Count, Sum, Minimum, Maximum int64
		Mean                         float64
		P50, P90, P99, P999          int64
		Buckets                      [][3]int64
	}
	ask := func(path string) (all map[string]histogram) {
		d := json.NewDecoder(strings.NewReader(tt.get(path).body))
		d.DisallowUnknownFields()
		if err := d.Decode(&all); err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
		return all
	}
	for path, want := range map[string]string{
		"/histograms.json":                      "delivery_latency_msec fsync_delay_usec get_hit_latency_usec set_latency_usec",
		"/histograms?queue=q":                   "q/q/delivery_latency_msec q/q/get_hit_latency_usec q/q/set_latency_usec",
		"/histograms?name=q/w/set_latency_usec": "q/w/set_latency_usec",
		"/histograms?all=1": "delivery_latency_msec fsync_delay_usec get_hit_latency_usec " +
			"q/q/delivery_latency_msec q/q/get_hit_latency_usec q/q/set_latency_usec q/w/set_latency_usec " +
			"set_latency_usec",
	} {
		got := ask(path)
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("GET %s = %v, want %s", path, got, want)
		}
		for _, name := range strings.Fields(want) {
			if got[name].Count == 0 {
				t.Errorf("GET %s lacks %s", path, name)
			}
		}
	}
	h := ask("/histograms")["set_latency_usec"]
	n, low := int64(0), int64(-1)
	for _, b := range h.Buckets {
		if b[0] <= low || b[1] < b[0] || b[2] < 1 {
			t.Errorf("buckets = %v", h.Buckets)
		}
		low = b[1]
		n += b[2]
	}
	if h.Unit != "us" || h.Count != 3 || n != 3 || h.Minimum > h.P50 || h.P999 > h.Maximum || h.Mean == 0 {
		t.Errorf("histogram = %+v", h)
	}
	if text := tt.get("/histograms.txt?name=q/w/set_latency_usec").body; !strings.Contains(text, "\n  unit: us\n") ||
		!strings.Contains(text, "\n  buckets: ") {
		t.Errorf("histograms.txt = %s", text)
	}
	for path, code := range map[string]int{
		"/histograms?name=no": 400, "/histograms?queue=no": 400, "/histograms.hgrm": 400,
		"/histograms.hgrm?name=set_latency_usec": 200, "/histograms.hgrm?queue=w": 200,
	} {
		if got := tt.get(path); got.code != code {
			t.Errorf("GET %s = %d %q, want %d", path, got.code, got.body, code)
		}
	}
}

// TestHGRM reads back what is printed for HdrHistogram's plotter.
func TestHGRM(t *testing.T) {
	for _, precision := range []histogram.Precision{histogram.Coarse, histogram.Fine} {
		c := histogram.Counts{Precision: precision}
		for v := int64(1); v <= 10000; v++ {
			c.Record(v, 1)
		}
		var b bytes.Buffer
		if err := writeHGRM(&b, &c); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(b.String()), "\n")
		if f := strings.Fields(lines[0]); strings.Join(f, " ") != "Value Percentile TotalCount 1/(1-Percentile)" {
			t.Errorf("head = %q", lines[0])
		}
		rows, before := 0, 0.0
		for _, line := range lines[1:] {
			if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
				continue
			}
			f := strings.Fields(line)
			value, err := strconv.ParseFloat(f[0], 64)
			percentile, err2 := strconv.ParseFloat(f[1], 64)
			if err != nil || err2 != nil || value < before {
				t.Fatalf("line %q behind %v", line, before)
			}
			if want := percentile * 10000; value < want*0.93-2 || value > want*1.07+2 {
				t.Errorf("line %q: want about %v", line, want)
			}
			before = value
			rows++
		}
		if rows < 20 || !strings.Contains(b.String(), "Total count    =        10000") {
			t.Errorf("%d rows: %s", rows, b.String())
		}
	}
	var single histogram.Counts
	single.Record(0, 1)
	if err := writeHGRM(new(bytes.Buffer), &single); err != nil {
		t.Errorf("of one zero: %v", err)
	}
	single.Record(1<<50, 1)
	if err := writeHGRM(new(bytes.Buffer), &single); err != nil {
		t.Errorf("of a value past the last bucket: %v", err)
	}
}

// TestHistogramsOfPeriod tests that with period a distribution covers the last whole window.
func TestHistogramsOfPeriod(t *testing.T) {
	tt := start(t, Options{}, netloop.Options{}, defaults())
	puts := func(want int64) {
		t.Helper()
		var all map[string]struct {
			Count   int64
			Buckets [][3]int64
		}
		path := "/histograms.json?period=86400&name=set_latency_usec"
		if err := json.Unmarshal([]byte(tt.get(path).body), &all); err != nil {
			t.Fatal(err)
		}
		h, held := all["set_latency_usec"], int64(0)
		for _, b := range h.Buckets {
			held += b[2]
		}
		if h.Count != want || held != want {
			t.Errorf("the window has %d puts, %d in buckets, want %d", h.Count, held, want)
		}
	}
	tt.talk("set q 0 0 1\r\nx\r\n")
	puts(1) // the first window holds what came so far
	tt.talk("set q 0 0 1\r\nx\r\nset q 0 0 1\r\ny\r\n")
	puts(1)
	w := tt.admin.windows
	w.mu.Lock()
	p := w.periods[86400*time.Second]
	w.mu.Unlock()
	w.latch(p)
	puts(2)
	if got := tt.get("/histograms.hgrm?period=86400&name=set_latency_usec"); got.code != 200 || !strings.Contains(got.body, "Total count    = 2]") &&
		!strings.Contains(got.body, "Total count    =            2]") {
		t.Errorf("histograms.hgrm = %d %s", got.code, got.body)
	}
	for _, bad := range []string{"period=", "period=0", "period=x", "period=86401"} {
		if got := tt.get("/histograms?" + bad); got.code != 400 {
			t.Errorf("histograms?%s = %d %q", bad, got.code, got.body)
		}
	}
}
