package admin

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/kestrelmq/kestrel/engine"
	"github.com/kestrelmq/kestrel/netloop"
	"github.com/kestrelmq/kestrel/segment/segmenttest"
)

var update = flag.Bool("update", false, "rewrite the table of docs/OPERATIONS.md")

const (
	operationsFile = "../../docs/OPERATIONS.md"
	metricsBegin   = "<!-- begin: made by go test ./netloop/admin -run TestMetricsDoc -update -->\n"
	metricsEnd     = "<!-- end -->\n"
)

// TestMetricsDoc tests that docs/OPERATIONS.md lists the metrics that there are: it has a server export
// each of them.
func TestMetricsDoc(t *testing.T) {
	limited := engine.DefaultQueueOptions()
	limited.MaxItems, limited.MaxSize = 7, 1<<20
	settings := defaults()
	settings.Queues = map[string]engine.QueueOptions{"q": limited}
	settings.Aliases = map[string][]string{"al": {"q"}}
	tt := start(t, Options{
		Progress: new(engine.Progress), Discovery: func() Discovery { return Discovery{} },
	}, netloop.Options{}, settings)
	tt.talk("set al 0 0 3\r\nabc\r\nset q 0 0 1\r\nx\r\nget q\r\n")
	tt.fs.SetFault(segmenttest.FailAllFrom(segmenttest.OpDatasync, 0, syscall.EIO))
	ticket, err := tt.engine.Put(engine.Now(), []byte("q"), engine.PutRequest{})
	if err != nil || tt.engine.Commit(ticket) == nil {
		t.Fatalf("Put = %v, or a sync that fails is none", err)
	}
	doc, err := os.ReadFile(operationsFile)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), metricsBegin)
	table, after, ok2 := strings.Cut(rest, metricsEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", operationsFile, metricsBegin, metricsEnd)
	}
	want := metricsTable(tt.scrape("/metrics"))
	if *update {
		text := before + metricsBegin + want + metricsEnd + after
		if err := os.WriteFile(operationsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if table != want {
		t.Errorf("%s is out of date; to rewrite it: go test ./netloop/admin -run TestMetricsDoc -update",
			operationsFile)
	}
	for _, name := range strings.FieldsFunc(before+after, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z')
	}) {
		base := strings.TrimSuffix(name, "_bucket")
		if strings.HasPrefix(name, "kestrel_") && !strings.Contains(want, "`"+base+"`") {
			t.Errorf("%s mentions %s, which nothing exports", operationsFile, name)
		}
	}
}

// metricsTable is the table of our metrics.
func metricsTable(families map[string]*dto.MetricFamily) string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | is |\n| --- | --- | --- | --- |\n")
	sorted := slices.SortedFunc(maps.Values(families), func(a, b *dto.MetricFamily) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	for _, f := range sorted {
		if !strings.HasPrefix(f.GetName(), "kestrel_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n",
			f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	return b.String()
}
