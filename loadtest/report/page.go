package report

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/go-echarts/go-echarts/v2/charts"
	"github.com/go-echarts/go-echarts/v2/opts"
	"github.com/go-echarts/go-echarts/v2/types"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// assets are page.html, the template of the page, and the script that draws.
//
//go:embed page.html echarts/echarts.min.js.gz
var assets embed.FS

// page is what the template shows.
type page struct {
	Title  string
	Runs   []pageRun
	Charts []pageChart
	Data   template.JS // what the charts show: an array of options of ECharts
	Script template.JS // ECharts
}

type pageChart struct {
	Title string
	Left  int
}

// pageRun is a run as text.
type pageRun struct {
	*figures.Run
	Title  string
	Doubts []string
	Rows   []pageRow
	Facts  []fact
}

// pageRow is a row of the table of percentiles.
type pageRow struct {
	Phase, Kind                     string
	Count, Rate                     string
	Asked, MiB                      string // "" if nothing was asked for, or the size of items is not known
	P50, P90, P99, P999, P9999, Max string
}

type fact struct{ Name, Value string }

// Page writes the page of runs, which needs no other file and no network.
func Page(w io.Writer, runs []*figures.Run) error {
	drawn, err := drawings(runs)
	if err != nil {
		return err
	}
	p := page{Title: title(runs)}
	var options []map[string]any
	for _, c := range drawn {
		p.Charts = append(p.Charts, pageChart{c.title, c.left})
		options = append(options, c.options())
	}
	for _, r := range runs {
		p.Runs = append(p.Runs, newPageRun(runs, r))
	}
	data, err := json.Marshal(options) // with <, > and & escaped: it cannot end the script
	if err != nil {
		return fmt.Errorf("describe charts: %w", err)
	}
	p.Data = template.JS(data)
	if p.Script, err = script(); err != nil {
		return err
	}
	t, err := template.ParseFS(assets, "page.html")
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return fmt.Errorf("write page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// title names the page.
func title(runs []*figures.Run) string {
	var names []string
	for _, r := range runs {
		if name := r.Name(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return "Load test: " + strings.Join(names, ", ")
}

// script returns the script that draws.
func script() (template.JS, error) {
	packed, err := assets.Open("echarts/echarts.min.js.gz")
	if err != nil {
		return "", err
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		return "", fmt.Errorf("unpack script: %w", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return "", fmt.Errorf("unpack script: %w", err)
	}
	return template.JS(text), nil
}

// format names the function of the page that prints the values of an axis.
func (a axis) format() types.FuncStr {
	return [...]types.FuncStr{
		timeAxis: "seconds", percentileAxis: "percentile", latencyAxis: "latency", rateAxis: "count",
		countAxis: "count", mebibytesAxis: "mebibytes", coresAxis: "plain",
	}[a]
}

// options returns the chart as options of ECharts. Functions are names, which the page replaces.
func (c *chart) options() map[string]any {
	line := charts.NewLine()
	line.SetGlobalOptions(
		charts.WithAnimation(false),
		charts.WithColorsOpts(c.colors()),
		charts.WithTitleOpts(opts.Title{Show: opts.Bool(false)}),
		charts.WithTooltipOpts(opts.Tooltip{Show: opts.Bool(true), Trigger: "axis"}),
		charts.WithLegendOpts(opts.Legend{Show: opts.Bool(true), Type: "scroll", Top: "0"}),
		charts.WithGridOpts(opts.Grid{Left: "8", Right: "36", Top: "40", Bottom: "8",
			ContainLabel: opts.Bool(true)}),
		charts.WithXAxisOpts(opts.XAxis{Type: c.x.kind(), Scale: opts.Bool(c.x != timeAxis),
			AxisLabel: &opts.AxisLabel{Formatter: c.x.format(), HideOverlap: opts.Bool(true)}}),
		charts.WithYAxisOpts(opts.YAxis{Type: c.y.kind(),
			AxisLabel: &opts.AxisLabel{Formatter: c.y.format()}}),
	)
	for _, s := range c.curves {
		data := make([]opts.LineData, 0, len(s.points))
		for _, p := range s.points {
			data = append(data, opts.LineData{Value: [2]float64{p.x, p.y}})
		}
		line.AddSeries(s.name, data, charts.WithLineChartOpts(opts.LineChart{
			ShowSymbol: opts.Bool(len(s.points) < 3), Symbol: "circle"}),
			charts.WithLineStyleOpts(opts.LineStyle{Width: 2, Type: s.stroke()}))
	}
	all := line.JSON()
	var marks []map[string]any
	for _, m := range c.marks {
		marks = append(marks, map[string]any{"xAxis": m.at, "name": m.name})
	}
	all["marks"] = marks
	return all
}

// stroke names the curve's line style.
func (s *series) stroke() string {
	if s.dashed {
		return "dashed"
	}
	return "solid"
}

func (a axis) kind() string {
	if a.log() {
		return "log"
	}
	return "value"
}
