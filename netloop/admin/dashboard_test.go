package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
)

const dashboardFile = rulesDir + "/kestrel.dashboard.json"

// dashboardQuery is what one panel of the dashboard asks Prometheus for.
type dashboardQuery struct{ panel, expr string }

// dashboardQueries returns all queries of the dashboard, with its variables set: all servers, all queues.
func dashboardQueries(t *testing.T) (queries []dashboardQuery) {
	t.Helper()
	b, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Type, Definition string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatalf("%s: %v", dashboardFile, err)
	}
	ids := make(map[int]bool)
	set := strings.NewReplacer("$instance", ".*", "$queue", ".*", "$__rate_interval", "10s")
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			queries = append(queries, dashboardQuery{p.Title, set.Replace(target.Expr)})
		}
	}
	values := regexp.MustCompile(`^label_values\((.+), (instance|queue)\)$`)
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Fatalf("variable %q", v.Definition)
		}
		queries = append(queries, dashboardQuery{"a variable", set.Replace("count by (" + m[2] + ") (" + m[1] + ")")})
	}
	if len(queries) < 40 {
		t.Errorf("only %d queries were found", len(queries))
	}
	return queries
}

// TestDashboard tests that the dashboard uses only what /metrics exports.
func TestDashboard(t *testing.T) {
	tt := start(t, Options{Progress: new(engine.Progress)}, netloop.Options{}, defaults())
	tt.talk("set q 0 0 3\r\nabc\r\nget q\r\n")
	families := tt.scrape("/metrics")
	metric := regexp.MustCompile(`\b(kestrel|process)_[a-z_]+`)
	for _, q := range dashboardQueries(t) {
		names := metric.FindAllString(q.expr, -1)
		if len(names) == 0 {
			t.Errorf("%s: %s names no metric", q.panel, q.expr)
		}
		for _, name := range names {
			if families[name] == nil && families[strings.TrimSuffix(name, "_bucket")] == nil {
				t.Errorf("%s: /metrics does not export %s", q.panel, name)
			}
		}
	}
}

// TestEndToEndDashboard has a real Prometheus, if it is installed, scrape a server in use, and runs each query of the
// dashboard. Each has an answer.
func TestEndToEndDashboard(t *testing.T) {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is not installed (Debian: prometheus)")
	}
	tt := start(t, Options{Progress: new(engine.Progress)}, netloop.Options{}, defaults())
	tt.talk("set q 0 0 3\r\nabc\r\nget q\r\nset q 0 0 3\r\nabc\r\nget q/open\r\n")
	p := startPrometheus(t, program, strings.TrimPrefix(tt.base, "http://"))
	for patience := time.After(time.Minute); p.value("min(count_over_time(kestrel_up[1m]))") < 3; {
		tt.talk("set q 0 0 3\r\nabc\r\nget q\r\n")
		select {
		case <-p.pause.C:
		case <-patience:
			t.Fatal("Prometheus has not scraped the server three times within a minute")
		}
	}
	for _, q := range dashboardQueries(t) {
		if n, err := p.query(q.expr); err != nil || len(n) == 0 {
			t.Errorf("%s: %s has %d answers, %v", q.panel, q.expr, len(n), err)
		}
	}
	if got := p.value(`sum(kestrel_queue_put_items_total{queue="q"})`); got < 2 {
		t.Errorf("Prometheus knows of %v puts", got)
	}
}

// scraper is a Prometheus that scrapes one server.
type scraper struct {
	t     *testing.T
	base  string
	pause *time.Ticker // between two looks at it
}

// startPrometheus starts Prometheus, which ends with the test, and waits until it answers.
func startPrometheus(t *testing.T, program, target string) *scraper {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 500ms}\nscrape_configs:\n- job_name: kestrel\n"+
		"  static_configs: [{targets: [%q]}]\n", target)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0", "--log.level=info")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr, cmd.Stdout = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	log := newPrometheusLog(r)
	t.Cleanup(func() {
		cancel()
		cmd.Wait()
		<-log.done
		r.Close()
	})
	select {
	case addr := <-log.listening:
		p := &scraper{t, "http://" + addr, time.NewTicker(100 * time.Millisecond)}
		t.Cleanup(p.pause.Stop)
		return p
	case <-log.done:
		t.Fatal("Prometheus has ended")
	}
	return nil
}

// prometheusLog is what Prometheus logs.
type prometheusLog struct {
	listening chan string   // gets its address
	done      chan struct{} // closed when the log has ended
}

func newPrometheusLog(r io.Reader) *prometheusLog {
	l := &prometheusLog{make(chan string, 1), make(chan struct{})}
	go func() {
		defer close(l.done)
		address := regexp.MustCompile(`msg="?Listening on"? address=(127\.0\.0\.1:\d+)`)
		var text []byte
		buf := make([]byte, 4096)
		for said := false; ; {
			n, err := r.Read(buf)
			if text = append(text, buf[:n]...); !said {
				if m := address.FindSubmatch(text); m != nil {
					l.listening <- string(m[1])
					said, text = true, nil
				}
			}
			if said {
				text = text[:0]
			}
			if err != nil {
				return
			}
		}
	}()
	return l
}

// query returns the values that Prometheus answers.
func (p *scraper) query(expr string) (values []float64, err error) {
	resp, err := http.Get(p.base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	for _, r := range answer.Data.Result {
		v, err := strconv.ParseFloat(r.Value[1].(string), 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// value returns the one value that Prometheus answers; 0 if it knows none yet.
func (p *scraper) value(expr string) float64 {
	p.t.Helper()
	values, err := p.query(expr)
	if err != nil || len(values) == 0 {
		return 0
	}
	return values[0]
}
