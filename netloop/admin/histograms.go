package admin

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/engine/histogram"
)

const (
	kindHGRM = "hgrm"
	typeHGRM = typeText

	// hgrmDigits is the precision, in decimal digits, of what is handed to HdrHistogram; finer than
	// what was recorded, so that nothing is lost.
	hgrmDigits = 3
	// hgrmTicks is how many lines a percentile plot has for each halving of the distance to 100 %.
	hgrmTicks = 5
)

// histograms answers whole distributions: those of the server; with queue=NAME, those of one queue;
// with name=METRIC, one; with all=1, every one. With period=SECONDS they cover the last whole window of that length, as
// statistics have it. As .hgrm it answers one as HdrHistogram prints it.
func histograms(s *Server, r *http.Request) (any, error) {
	list, err := s.distributions(r)
	if err != nil {
		return nil, err
	}
	list, err = choose(seen(userOf(r), list), r)
	if err != nil {
		return nil, err
	}
	if _, kind := split(r.URL.Path); kind == kindHGRM {
		if len(list) != 1 {
			return nil, badRequestf("say which one with name=; see /histograms.txt for their names")
		}
		c := list[0].value
		return page{typeHGRM, func(w io.Writer) error { return writeHGRM(w, c) }}, nil
	}
	answer := make(object, 0, len(list))
	for _, n := range list {
		answer = append(answer, member{n.name, full(n.name, n.value)})
	}
	return answer, nil
}

// distributions returns all of them, sorted by name: since the start, or those of the last window of a period.
func (s *Server) distributions(r *http.Request) ([]named[*histogram.Counts], error) {
	if query := r.URL.Query(); query.Has("period") {
		t, err := s.periodOf(query.Get("period"))
		if err != nil {
			return nil, err
		}
		return t.metrics, nil
	}
	server, err := s.server()
	if err != nil {
		return nil, err
	}
	m := server.Metrics()
	list := metricsOf(&m)
	sortByName(list)
	return list, nil
}

// choose returns what a request wants of the distributions.
func choose(list []named[*histogram.Counts], r *http.Request) ([]named[*histogram.Counts], error) {
	query := r.URL.Query()
	wanted := func(name string) bool { return !strings.HasPrefix(name, "q/") }
	switch {
	case query.Has("name"):
		wanted = func(name string) bool { return name == query.Get("name") }
	case query.Has("queue"):
		prefix := "q/" + query.Get("queue") + "/"
		wanted = func(name string) bool { return strings.HasPrefix(name, prefix) }
	case query.Get("all") == "1":
		return list, nil
	}
	var chosen []named[*histogram.Counts]
	for _, n := range list {
		if wanted(n.name) {
			chosen = append(chosen, n)
		}
	}
	if len(chosen) == 0 && (query.Has("name") || query.Has("queue")) {
		return nil, badRequestf("no distribution is called %q: the name is wrong, or nothing was measured yet; "+
			"see /histograms.txt?all=1", cmp.Or(query.Get("name"), query.Get("queue")))
	}
	return chosen, nil
}

// full is all that is known of a distribution.
func full(name string, c *histogram.Counts) object {
	o := object{
		{"unit", unitOf(name)},
		{"count", c.Total()},
		{"sum", c.Sum()},
		{"mean", c.Mean()},
		{"minimum", c.Min()},
	}
	for _, p := range []percentile{{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p999", 0.999}} {
		o = append(o, member{p.name, c.Quantile(p.q)})
	}
	var b buckets
	c.Each(func(low, high, n int64) { b = append(b, [3]int64{low, high, n}) })
	return append(o, object{{"maximum", c.Max()}, {"buckets", b}}...)
}

// unitOf is the unit of a metric, as the names of the original say it.
func unitOf(name string) string {
	if strings.HasSuffix(name, "_msec") {
		return "ms"
	}
	return "us"
}

// buckets are the least value, the greatest value and the number of values of each bucket of a
// distribution.
type buckets [][3]int64

func (b buckets) json() string {
	var w strings.Builder
	w.WriteByte('[')
	for i, row := range b {
		if i > 0 {
			w.WriteByte(',')
		}
		fmt.Fprintf(&w, "[%d,%d,%d]", row[0], row[1], row[2])
	}
	w.WriteByte(']')
	return w.String()
}

func (b buckets) text() string {
	var words []string
	for _, row := range b {
		words = append(words, fmt.Sprintf("%d-%d=%d", row[0], row[1], row[2]))
	}
	return strings.Join(words, " ")
}

// writeHGRM writes the percentile plot of a distribution, in its own unit.
func writeHGRM(w io.Writer, c *histogram.Counts) error {
	h := hdrhistogram.New(1, max(c.Max(), 2), hgrmDigits)
	var err error
	c.Each(func(low, high, n int64) {
		v := min(max(low+(high-low)/2, c.Min()), c.Max())
		if err == nil {
			err = h.RecordValues(v, n)
		}
	})
	if err != nil {
		return err
	}
	_, err = h.PercentilesPrint(w, hgrmTicks, 1)
	return err
}
