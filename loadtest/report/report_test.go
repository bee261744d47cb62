package report

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"image/png"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// testRun returns a run of two phases with intervals.
func testRun(t testing.TB, label string) *figures.Run {
	t.Helper()
	h := hdrhistogram.New(1, int64(time.Hour), 3)
	for i := int64(1); i <= 10_000; i++ {
		if err := h.RecordValue(i * 1000); err != nil {
			t.Fatal(err)
		}
	}
	l, err := figures.NewLatency(h)
	if err != nil {
		t.Fatal(err)
	}
	r := &figures.Run{Format: figures.Format, Label: label, Scenario: "flood",
		Started: time.Unix(1e9, 0).UTC(),
		Options: map[string]string{"items": "10000", "bytes": "1024"}, Checked: figures.Checked{Verified: true,
			Put: 10_000}}
	for n, name := range []string{"prefill", "flood"} {
		p := &figures.Phase{Name: name, Start: int64(n) * 5e9, Wall: 5e9, Target: 2000, Delivery: l,
			Ops:       []figures.Op{{Name: "put", Requests: 10_000, Items: 10_000, Rate: 2000, Latency: l}},
			Generator: figures.Generator{Threads: 1, ThreadCPU: 1e9, Busy: 0.2},
			Server:    &figures.Usage{CPU: 2e9, Resident: 9 << 20, Peak: 9 << 20, PerOpCPU: 200_000}}
		for i := range int64(5) {
			p.Intervals = append(p.Intervals, figures.Interval{Start: i * 1e9, Wall: 1e9,
				Ops: []figures.IntervalOp{{Name: "put", Requests: 2000,
					Quantiles: figures.Quantiles{P50: 5e6, P99: 9e6}}},
				Server: &figures.Sample{CPU: (int64(n)*5 + i) * 4e8, Resident: (8 + i) << 20, Items: 10 * i}})
		}
		r.Phases = append(r.Phases, p)
	}
	return r
}

// hostile is a label that would end an attribute, an element or the script if it were not escaped.
const hostile = `</script><script>alert(1)</script>"'&<b>__f__x__f__` + "\u2028"

// TestPage checks that the page has what it should, says it safely, and refers to nothing outside.
func TestPage(t *testing.T) {
	a, b := testRun(t, hostile), testRun(t, "b")
	b.Failure, b.Notes = "item 5 lost", []string{"the generator was <busy>"}
	var out bytes.Buffer
	if err := Page(&out, []*figures.Run{a, b}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if n := strings.Count(page, "alert(1)</script>"); n != 0 {
		t.Errorf("the label is in the page as it is, %d times", n)
	}
	if n := strings.Count(page, "<script>"); n != 2 {
		t.Errorf("%d scripts, want 2", n)
	}
	for _, want := range []string{
		"Latency of put, by percentile", "Age of items when delivered", "Requests a second",
		"99th percentile over time", "Median over time", "Items in the queues", "Memory of the server",
		"Processors that the server keeps busy", "Failed: item 5 lost", "the generator was &lt;busy&gt;",
		"prefers-color-scheme: dark", "10,000 items put", "<td>prefill</td><td>put</td><td>10,000</td>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, warning := range []string{"b: Failed: item 5 lost", "b: the generator was &lt;busy&gt;"} {
		if at := strings.Index(page, warning); at < 0 || at > strings.Index(page, `<div id="charts">`) {
			t.Errorf("%q is not above the charts", warning)
		}
	}
	if want := "<td>2,000</td><td>2,000</td><td>1.95</td>"; !strings.Contains(page, want) {
		t.Errorf("the page lacks rate, rate asked for and MiB a second: %q", want)
	}
	script, err := script()
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Replace(page, string(script), "", 1)
	if len(own) == len(page) {
		t.Error("the page lacks the script that draws")
	}
	if m := regexp.MustCompile(`(?i)(src|href|url)\s*[=(]|https?://|import\s*\(`).FindString(own); m != "" {
		t.Errorf("the page refers to something outside: %s", m)
	}
}

// TestScript checks that what is embedded is what its makers have published.
func TestScript(t *testing.T) {
	text, err := script()
	if err != nil {
		t.Fatal(err)
	}
	// sha256 of dist/echarts.min.js in the npm package echarts 5.6.0.
	const want = "bf4a223524e40b77c304bec67e1222cf551f14880cf42c69dc046558e11c07b1"
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); got != want {
		t.Errorf("the script has sha256 %s, want %s", got, want)
	}
	if strings.Contains(string(text), "</script") {
		t.Error("the script would end its element")
	}
	for _, name := range []string{"LICENSE", "NOTICE", "LICENSE-d3"} {
		if _, err := os.Stat(filepath.Join("echarts", name)); err != nil {
			t.Error(err)
		}
	}
}

// TestDrawings checks what the curves are, and what becomes of too many and of nothing.
func TestDrawings(t *testing.T) {
	r := testRun(t, "a")
	list, err := drawings([]*figures.Run{r})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, c := range list {
		fmt.Fprintf(&text, "%s:", c.title)
		for _, s := range c.curves {
			fmt.Fprintf(&text, " %s/%d", s.name, len(s.points))
		}
		text.WriteString("\n")
	}
	got := regexp.MustCompile(`(by percentile: \w+)/\d+ (\w+)/\d+`).ReplaceAllString(text.String(),
		"$1 $2")
	const want = "Latency of put, by percentile: prefill flood\n" +
		"Age of items when delivered, by percentile: prefill flood\n" +
		"Requests a second: put/10 asked for/4\nMiB of items a second: put/10\n" +
		"99th percentile over time: put/10\nMedian over time: put/10\nItems in the queues: server/10\n" +
		"On the server's disk: journal/10 items on disk alone/10\nMemory of the server, resident: server/10\n" +
		"Processors that the server keeps busy: server/8\n"
	if got != want {
		t.Errorf("drawings:\n%s\nwant:\n%s", got, want)
	}
	points := list[0].curves[0].points
	if last := points[len(points)-1]; last.x != 10_000 || last.y < 9.99 || last.y > 10.01 {
		t.Errorf("the last percentile is %v, want 10 ms of 10,000", last)
	}
	tail := r.Phases[1].Intervals
	tail[len(tail)-1].Wall = 1e8
	if list, err = drawings([]*figures.Run{r}); err != nil || len(list[2].curves[0].points) != 9 {
		t.Errorf("with a last interval that is short: %d points, %v, want 9",
			len(list[2].curves[0].points),
			err)
	}
	for i := range 20 {
		p := *r.Phases[0]
		p.Name, p.Target = fmt.Sprintf("%d/s", i), float64(20-i)
		r.Phases = append(r.Phases, &p)
	}
	if list, err = drawings([]*figures.Run{r}); err != nil || len(list[0].curves) != maxSeries ||
		list[0].left != 22-maxSeries {
		t.Errorf("of 22 phases %d curves are drawn and %d left, %v", len(list[0].curves), list[0].left,
			err)
	}
	ramp := list[2].curves[0].points
	if list[2].title != "Latency against rate asked for" || ramp[0].x != 1 || ramp[21].x != 2000 {
		t.Errorf("%s goes from %v to %v, want from 1 to 2000", list[2].title, ramp[0], ramp[len(ramp)-1])
	}
	for _, p := range r.Phases {
		p.Target = 50_000
	}
	if list, err = drawings([]*figures.Run{r}); err != nil || slices.ContainsFunc(list, func(c chart) bool {
		return c.title == "Latency against rate asked for"
	}) {
		t.Errorf("phases of one rate have a chart of rates: %v", err)
	}
	empty := []*figures.Run{{Label: "empty"}}
	if list, err := drawings(empty); err != nil || len(list) != 0 {
		t.Errorf("drawings of an empty run = %v, %v", list, err)
	}
	if err := Page(io.Discard, empty); err != nil {
		t.Errorf("Page of an empty run = %v", err)
	}
	if err := Picture(io.Discard, empty, "svg"); err == nil {
		t.Error("Picture of an empty run: no error")
	}
	r.Phases[0].Delivery = &figures.Latency{Count: 1, Histogram: "nonsense"}
	if err := Page(io.Discard, []*figures.Run{r}); err == nil {
		t.Error("Page of a run with a broken histogram: no error")
	}
}

// TestColors tests that a thing has one colour in all charts, and that no two of a chart share one.
func TestColors(t *testing.T) {
	var many []series
	for i := range 14 {
		many = append(many, series{name: fmt.Sprint(i)})
	}
	list := []chart{
		{curves: []series{{name: "get"}, {name: "put"}}},
		{curves: []series{{name: "put"}, {name: "put p99", thing: "put"}, {name: "server"}}},
		{curves: many[:7]}, {curves: many[2:14]},
	}
	paint(list)
	put := list[0].curves[1].color
	if list[1].curves[0].color != put || list[1].curves[1].color != put || list[1].curves[2].color == put {
		t.Errorf("colours %q and %q", list[0].colors(), list[1].colors())
	}
	for _, c := range list[2:] {
		if all := slices.Compact(slices.Sorted(slices.Values(c.colors()))); len(all) != len(c.curves) {
			t.Errorf("%d curves have the colours %q", len(c.curves), c.colors())
		}
	}
}

func TestPicture(t *testing.T) {
	runs := []*figures.Run{testRun(t, "a"), testRun(t, "b")}
	var svg, pixels bytes.Buffer
	if err := Picture(&svg, runs, "svg"); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(svg.Bytes()))
	paths := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the SVG is not XML: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "path" {
			paths++
		}
	}
	if paths < 16 || !strings.Contains(svg.String(), "Requests a second") {
		t.Errorf("%d paths in the SVG, want at least one for each of 16 curves", paths)
	}
	if err := Picture(&pixels, runs, "png"); err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(&pixels)
	if err != nil {
		t.Fatal(err)
	}
	colours := make(map[any]int)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colours[img.At(x, y)]++
		}
	}
	if len(colours) < 20 {
		t.Errorf("the picture has %d colours, want text and curves", len(colours))
	}
	if err := Picture(io.Discard, runs, "bmp"); err == nil {
		t.Error("Picture as bmp: no error")
	}
}

// TestEndToEndBrowser opens the page in headless Chromium, without a network, narrow and light, wide and
// dark: every chart is drawn, with its curves, and fits.
func TestEndToEndBrowser(t *testing.T) {
	browser := findBrowser(t)
	file := filepath.Join(t.TempDir(), "report.html")
	var page bytes.Buffer
	if err := Page(&page, []*figures.Run{testRun(t, hostile), testRun(t, "b")}); err != nil {
		t.Fatal(err)
	}
	// Measured by a script at the end, as the page itself must not need one.
	const measure = `<script>
		document.body.dataset.measured = JSON.stringify({
			drawn: +document.body.dataset.drawn,
			svgs: document.querySelectorAll(".drawing svg").length,
			curves: document.querySelectorAll('.drawing svg path[fill="none"]').length,
			wide: document.documentElement.scrollWidth > innerWidth,
			paper: getComputedStyle(document.body).backgroundColor,
			ink: document.querySelector(".drawing svg text").getAttribute("fill")
		});
	</script></body>`
	text, _ := strings.CutSuffix(strings.TrimSpace(page.String()), "</body>\n</html>")
	text += measure + "</html>"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	inks := make(map[string]bool)
	for _, tt := range []struct {
		name, size, scheme, paper string
	}{
		{"narrow, light", "500,900", "1", "rgb(255, 255, 255)"},
		{"wide, dark", "1600,1200", "0", "rgb(20, 23, 27)"},
	} {
		dom := dump(t, browser, file, tt.size, tt.scheme)
		m := regexp.MustCompile(`data-measured="([^"]*)"`).FindStringSubmatch(dom)
		if m == nil {
			t.Fatalf("%s: the page's script did not end; the page ends:\n%s", tt.name, dom[max(0,
				len(dom)-2000):])
		}
		var got struct {
			Drawn, Svgs, Curves int
			Wide                bool
			Paper, Ink          string
		}
		if err := json.Unmarshal([]byte(strings.ReplaceAll(m[1], "&quot;", `"`)), &got); err != nil {
			t.Fatal(err)
		}
		if got.Drawn != 10 || got.Svgs != 10 || got.Curves < 28 || got.Wide || got.Paper != tt.paper {
			t.Errorf("%s: %+v, want 10 charts with 28 curves on %s that fit", tt.name, got, tt.paper)
		}
		inks[got.Ink] = true
	}
	if len(inks) != 2 {
		t.Errorf("text of charts is %v, want a colour for light and one for dark", inks)
	}
}

func findBrowser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("Chromium is not installed")
	return ""
}

// dump returns the page's document after its scripts have run.
func dump(t *testing.T, browser, file, size, scheme string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--proxy-server=127.0.0.1:9", "--user-data-dir="+t.TempDir(), "--window-size="+size,
		"--blink-settings=preferredColorScheme="+scheme, "--dump-dom", "file://"+file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, &errs)
	}
	return string(out)
}

// TestDoubts has one note of two phases, which is said once, and others that stay as they are.
func TestDoubts(t *testing.T) {
	r := testRun(t, "a")
	r.Notes = []string{"prefill: 4,973 requests were due", "flood: the generator was late", "flood: 19 requests were due",
		"elsewhere: 19 requests were due", "The drain was not over."}
	want := []string{"prefill: 4,973; flood: 19 requests were due", "flood: the generator was late",
		"elsewhere: 19 requests were due", "The drain was not over."}
	if got := doubts(r); !slices.Equal(got, want) {
		t.Errorf("doubts = %q, want %q", got, want)
	}
}

// TestOutage draws a run whose second phase has no gets: their rate is zero there. A mark says where each phase begins.
func TestOutage(t *testing.T) {
	r := testRun(t, "a")
	for i := range r.Phases[0].Intervals {
		first := &r.Phases[0].Intervals[i]
		first.Ops = append(first.Ops, figures.IntervalOp{Name: "get", Requests: 500})
	}
	list, err := drawings([]*figures.Run{r})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(list, func(c chart) bool { return c.title == "Requests a second" })
	gets := list[at].curves[1]
	if gets.name != "get" || len(gets.points) != 10 || gets.points[4].y != 500 || gets.points[5].y != 0 || gets.points[9].y != 0 {
		t.Errorf("%s: %v", gets.name, gets.points)
	}
	if want := []mark{{0, "prefill"}, {5, "flood"}}; !slices.Equal(list[at].marks, want) {
		t.Errorf("marks = %v, want %v", list[at].marks, want)
	}
	var svg bytes.Buffer
	if err := Picture(&svg, []*figures.Run{r}, "svg"); err != nil {
		t.Fatal(err)
	}
	for _, m := range list[at].marks {
		want := 0 // a name for each chart with marks, and those of the legends
		for _, c := range list {
			if slices.Contains(c.marks, m) {
				want++
			}
			for _, s := range c.curves {
				if s.name == m.name {
					want++
				}
			}
		}
		if got := strings.Count(svg.String(), ">"+m.name+"</text>"); got != want {
			t.Errorf("the picture names the phase %s %d times, want %d", m.name, got, want)
		}
	}
	if list, err = drawings([]*figures.Run{r, testRun(t, "b")}); err != nil || list[at].marks != nil {
		t.Errorf("two runs have the marks %v, %v", list[at].marks, err)
	}
}
