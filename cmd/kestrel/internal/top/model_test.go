package top

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/kestrelmq/kestrel/client"
	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/sample"
)

// at is when the first sample of these tests was taken.
var at = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// take is a sample n seconds later: queue a has most items, b the highest rate, c the oldest.
func take(n int64) sample.Sample {
	stats := func(name string, items, rate int64, age time.Duration) sample.Queue {
		return sample.Queue{Servers: []string{"one:1"}, QueueStats: client.QueueStats{
			Name: name, Items: items, Bytes: items * 10, Puts: rate * n, Age: age, OpenReads: 2, Waiters: 3}}
	}
	s := sample.Sample{At: at.Add(time.Duration(n) * time.Second), Servers: []client.ServerStats{{Server: "one:1"}}}
	s.Queues = []sample.Queue{stats("alpha", 3000, 10, time.Second), stats("beta", 200, 500, 0), stats("gamma", 10, 0, time.Hour)}
	for _, q := range s.Queues {
		s.Servers[0].Queues = append(s.Servers[0].Queues, q.QueueStats)
	}
	return s
}

// screen is a model that has two samples.
func screen() *model {
	m := newModel(context.Background(), nil, Options{Interval: time.Second, Address: "one:1"})
	m.Update(tea.WindowSizeMsg{Width: 100, Height: 20})
	m.sampled(take(0))
	m.sampled(take(1))
	return m
}

// press types keys: a name of a key, or a text.
func press(m *model, keys ...string) {
	codes := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "down": tea.KeyDown, "up": tea.KeyUp,
		"end": tea.KeyEnd, "backspace": tea.KeyBackspace, "pgdown": tea.KeyPgDown}
	for _, key := range keys {
		if code, ok := codes[key]; ok {
			m.Update(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range key {
			m.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

// text is the screen without colours.
func text(m *model) string { return ansi.Strip(m.draw()) }

// order is the queues in the order of the screen.
func order(m *model) string {
	var names []string
	for _, r := range m.rows {
		names = append(names, r.Name)
	}
	return strings.Join(names, " ")
}

func TestList(t *testing.T) {
	got := text(screen())
	for _, want := range []string{
		"kestrel top  one:1  03:04:06",
		"3 queues, 3,210 items, 31.3 KiB, in 510/s, out 510/s",
		"QUEUE", "▼ITEMS", "WAITING",
		"alpha                                  10        10        3,000   29.3 KiB    1.0s        3       2",
		"q quit",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != 20 {
		t.Errorf("the screen has %d lines, want 20", n)
	}
}

func TestSort(t *testing.T) {
	m := screen()
	for _, tt := range []struct{ key, want string }{
		{"", "alpha beta gamma"},  // items
		{"r", "gamma beta alpha"}, // the other way round
		{"r", "alpha beta gamma"},
		{"2", "beta alpha gamma"}, // rate in
		{"1", "alpha beta gamma"}, // names
		{"6", "gamma alpha beta"}, // age
		{"S", "alpha beta gamma"}, // bytes
		{"s", "gamma alpha beta"},
	} {
		press(m, tt.key)
		if got := order(m); got != tt.want {
			t.Errorf("after %q: %s, want %s", tt.key, got, tt.want)
		}
	}
}

func TestFilter(t *testing.T) {
	m := screen()
	press(m, "/", "ETx")
	if !strings.Contains(text(m), "No queue's name contains \"ETx\".") || !strings.Contains(text(m), "filter: ETx_") {
		t.Errorf("the screen is\n%s", text(m))
	}
	press(m, "backspace", "enter")
	if got := order(m); got != "beta" {
		t.Errorf("the filter leaves %s, want beta", got)
	}
	press(m, "q"[:0], "/", "q") // a letter of the filter, and not the end
	press(m, "esc")
	if got := order(m); got != "alpha beta gamma" || m.typing {
		t.Errorf("without a filter: %s", got)
	}
}

func TestInside(t *testing.T) {
	m := screen()
	press(m, "down", "enter")
	got := text(m)
	for _, want := range []string{"beta", "in/s                  500", "items                 200", "waiting                 3",
		"in/s  up to      500   █", "items up to      200  ██", "esc back"} {
		if !strings.Contains(got, want) {
			t.Errorf("the screen lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "alpha") {
		t.Errorf("the screen of a queue has another:\n%s", got)
	}
	gone := take(2)
	gone.Queues = gone.Queues[:1]
	m.sampled(gone)
	if !strings.Contains(text(m), "The queue is gone.") {
		t.Errorf("the screen is\n%s", text(m))
	}
	press(m, "esc")
	if m.inside || m.chosen != "alpha" {
		t.Errorf("back in the list the cursor is on %q", m.chosen)
	}
}

// TestCursorStays tests that the cursor stays with its queue when the order changes.
func TestCursorStays(t *testing.T) {
	m := screen()
	press(m, "end")
	if m.chosen != "gamma" {
		t.Fatalf("the cursor is on %q, want gamma", m.chosen)
	}
	press(m, "6")
	if m.chosen != "gamma" || m.cursor() != 0 {
		t.Errorf("the cursor is on %q, row %d", m.chosen, m.cursor())
	}
	press(m, "up")
	if m.cursor() != 0 {
		t.Errorf("the cursor left the list: %d", m.cursor())
	}
}

// TestSizes draws every screen in every size: it never has more lines and columns than there are.
func TestSizes(t *testing.T) {
	for _, keys := range []string{"", "?", "/abc"} {
		for _, inside := range []bool{false, true} {
			for width := 1; width < 130; width += 3 {
				for height := 1; height < 40; height++ {
					m := screen()
					press(m, keys)
					m.inside = inside
					m.Update(tea.WindowSizeMsg{Width: width, Height: height})
					lines := strings.Split(text(m), "\n")
					if len(lines) > height {
						t.Fatalf("%d lines on a screen of %d", len(lines), height)
					}
					for _, line := range lines {
						if ansi.StringWidth(line) > width {
							t.Fatalf("%q has %d columns on a screen of %d", line, ansi.StringWidth(line), width)
						}
					}
				}
			}
		}
	}
}

// TestScroll has more queues than lines: the chosen one is always on the screen.
func TestScroll(t *testing.T) {
	m := screen()
	var many sample.Sample
	many.At = at
	for i := range 500 {
		many.Queues = append(many.Queues, sample.Queue{QueueStats: client.QueueStats{Name: fmt.Sprintf("queue-%03d", i)}})
	}
	m.sampled(many)
	press(m, "1", "g")
	for range 600 {
		press(m, "down")
		if !strings.Contains(text(m), m.chosen) {
			t.Fatalf("%s is chosen and not on the screen:\n%s", m.chosen, text(m))
		}
	}
	if m.chosen != "queue-499" {
		t.Errorf("the last is %s", m.chosen)
	}
	press(m, "g", "pgdown")
	if m.chosen != "queue-015" {
		t.Errorf("a page further is %s", m.chosen)
	}
}

func TestOthers(t *testing.T) {
	m := newModel(context.Background(), func(context.Context) sample.Sample { return take(5) }, Options{Interval: time.Second, Address: "one:1"})
	if got := text(m); got != "asking one:1 …" {
		t.Errorf("before the first sample: %q", got)
	}
	if _, cmd := m.Update(m.Init()()); cmd == nil || m.now.At.IsZero() {
		t.Error("a sample is not taken in, or no other is asked for")
	}
	if _, cmd := m.Update(dueMsg{}); cmd == nil {
		t.Error("no sample is taken when one is due")
	} else if _, ok := cmd().(sampleMsg); !ok {
		t.Error("no sample is taken when one is due")
	}
	press(m, "p")
	if !m.paused || !strings.Contains(text(m), "PAUSED") {
		t.Error("p does not hold the picture")
	}
	press(m, "+")
	if m.opts.Interval != 500*time.Millisecond {
		t.Errorf("after + the interval is %v", m.opts.Interval)
	}
	press(m, "?")
	if !strings.Contains(text(m), "look into the chosen queue") {
		t.Errorf("? shows\n%s", text(m))
	}
	press(m, "x")
	if m.help {
		t.Error("the keys stay on the screen")
	}
	failed := take(6)
	failed.Servers[0].Err = errors.New("one:1 is away")
	m.sampled(failed)
	if !strings.Contains(text(m), "one:1 is away") {
		t.Errorf("the screen does not say that a server failed:\n%s", text(m))
	}
	m.sampled(sample.Sample{At: at})
	if !strings.Contains(text(m), "There are no queues.") {
		t.Errorf("the screen is\n%s", text(m))
	}
	for _, key := range []tea.KeyPressMsg{{Code: 'q', Text: "q"}, {Code: 'c', Mod: tea.ModCtrl}} {
		if _, cmd := m.Update(key); cmd == nil {
			t.Errorf("%s does not end it", key)
		} else if _, ok := cmd().(tea.QuitMsg); !ok {
			t.Errorf("%s does not end it", key)
		}
	}
}

func TestSpark(t *testing.T) {
	if got, want := spark([]float64{0, 1, 50, 100}), " ▁▄█"; got != want {
		t.Errorf("spark = %q, want %q", got, want)
	}
}

func TestOnce(t *testing.T) {
	n := int64(-1)
	picture, err := Once(context.Background(), func(context.Context) sample.Sample { n++; return take(n) },
		Options{Interval: time.Millisecond, Address: "one:1"}, 100)
	if err != nil || strings.Contains(picture, "\x1b") || !strings.Contains(picture, "alpha") || strings.Contains(picture, "quit") {
		t.Errorf("Once = %v\n%s", err, picture)
	}
}

// TestOnceUnanswered asks a server that is away: there is no picture, and one error.
func TestOnceUnanswered(t *testing.T) {
	away := sample.Sample{At: at, Servers: []client.ServerStats{{Server: "one:1", Err: errors.New("one:1 is away")}}}
	picture, err := Once(context.Background(), func(context.Context) sample.Sample { return away },
		Options{Interval: time.Millisecond, Address: "one:1"}, 100)
	if picture != "" || err == nil || !strings.Contains(err.Error(), "one:1 is away") {
		t.Errorf("Once = %v\n%s", err, picture)
	}
	m := screen()
	m.sampled(away)
	if got := text(m); !strings.Contains(got, "No server answers.") || strings.Contains(got, "no queues") {
		t.Errorf("the screen is\n%s", got)
	}
}

// TestKeyLine has narrower and narrower screens: the last line names whole keys.
func TestKeyLine(t *testing.T) {
	m := screen()
	for width := 120; width >= 20; width-- {
		m.Update(tea.WindowSizeMsg{Width: width, Height: 20})
		lines := strings.Split(text(m), "\n")
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "q quit  ? keys") || !strings.HasPrefix(keyLine+"  ", last+"  ") {
			t.Fatalf("%d columns: %q", width, last)
		}
	}
}

// BenchmarkSampled takes in a sample of 10,000 queues, and draws it.
func BenchmarkSampled(b *testing.B) {
	many := sample.Sample{Servers: []client.ServerStats{{Server: "one:1"}}}
	for i := range 10_000 {
		many.Queues = append(many.Queues, sample.Queue{QueueStats: client.QueueStats{Name: fmt.Sprintf("queue-%05d", i)}})
	}
	m := screen()
	for b.Loop() {
		many.At = many.At.Add(time.Second)
		m.sampled(many)
		m.draw()
	}
}

// TestConnections looks at the connections of a queue. The model asks for them at once, and again with each look.
// There are none, some, an error, or more than the screen has room for.
func TestConnections(t *testing.T) {
	m := screen()
	asked := ""
	answer, failed := Connections{}, error(nil)
	m.opts.Connections = func(_ context.Context, queue string) (Connections, error) {
		asked = queue
		return answer, failed
	}
	look := func() string {
		t.Helper()
		asked = ""
		ask := m.askConnections()
		if ask == nil {
			t.Fatal("the screen does not ask")
		}
		m.Update(ask())
		if asked != "alpha" {
			t.Fatalf("the screen asks about %q", asked)
		}
		return text(m)
	}
	if m.askConnections() != nil {
		t.Error("the list asks for connections")
	}
	press(m, "c")
	if got := text(m); !strings.Contains(got, "alpha  connections") || !strings.Contains(got, "asking the admin port") {
		t.Errorf("before the answer:\n%s", got)
	}
	if got := look(); !strings.Contains(got, "No connection holds an item") {
		t.Errorf("without connections:\n%s", got)
	}
	failed = errors.New("refused")
	if got := look(); !strings.Contains(got, "refused") {
		t.Errorf("with an error:\n%s", got)
	}
	failed, answer.Matched = nil, 102
	for i := range 100 {
		answer.List = append(answer.List, Connection{Number: uint64(i + 1), Peer: "10.0.0.1:5000", Protocol: "memcache",
			Age: time.Minute, Requests: 12345, Holds: int64(i % 2), Oldest: 3 * time.Second, Waits: i%2 == 0})
	}
	got := look()
	for _, want := range []string{
		"     1  10.0.0.1:5000         memcache     1m00s     0ms     12,345       0            yes\n",
		"     2  10.0.0.1:5000         memcache     1m00s     0ms     12,345       1    3.0s\n",
		"and 89 more: 'kestrel clients' lists them",
	} {
		if !strings.Contains(trailing.ReplaceAllString(got, "\n"), want) {
			t.Errorf("the screen has no %q:\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n >= m.height {
		t.Errorf("the screen has %d lines", n+1)
	}
	press(m, "esc")
	if !m.inside || m.clients || m.askConnections() != nil {
		t.Error("esc does not lead back to the queue")
	}
	m.opts.Connections = nil
	press(m, "c")
	if got := text(m); !strings.Contains(got, "--admin") {
		t.Errorf("without an admin port:\n%s", got)
	}
}

var trailing = regexp.MustCompile(` +\n`)
