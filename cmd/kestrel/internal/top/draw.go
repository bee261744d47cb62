package top

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// Looks of text.
const (
	bold    = "\x1b[1m"
	faint   = "\x1b[2m"
	turned  = "\x1b[7m" // the chosen row
	warning = "\x1b[1;31m"
	normal  = "\x1b[m"
)

// draw returns the screen: height lines at most, width columns at most.
func (m *model) draw() string {
	var lines []string
	switch {
	case m.help:
		lines = strings.Split(keyPage, "\n")
	case m.now.At.IsZero():
		lines = []string{"asking " + m.opts.Address + " …"}
	case m.clients:
		lines = m.drawConnections()
	case m.inside:
		lines = m.drawQueue()
	default:
		lines = m.drawList()
	}
	if len(lines) > m.height {
		lines = lines[:m.height]
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// looks returns text that looks as look says.
func (m *model) looks(look, text string) string {
	if m.plain {
		return text
	}
	return look + text + normal
}

// title returns the lines above everything: the servers, and what all queues do together.
func (m *model) title() []string {
	var in, out float64
	var items, bytes int64
	for _, q := range m.now.Queues {
		rates := m.now.Since(m.last, q.Name)
		in += rates.In
		out += rates.Out
		items += q.Items
		bytes += q.Bytes
	}
	first := fmt.Sprintf("%s  %s", m.opts.Address, m.now.At.Format("15:04:05"))
	if m.paused {
		first += "  PAUSED"
	}
	lines := []string{
		m.looks(bold, "kestrel top") + "  " + first,
		fmt.Sprintf("%s, %s, %s, in %s/s, out %s/s", cli.Counted(len(m.now.Queues), "queue"), cli.Counted(items, "item"),
			figures.Bytes(bytes), figures.Thousands(int64(in+0.5)), figures.Thousands(int64(out+0.5))),
	}
	for _, server := range m.now.Servers {
		if server.Err != nil {
			lines = append(lines, m.looks(warning, cli.OneLine(server.Err.Error())))
		}
	}
	return lines
}

// drawList draws all queues.
func (m *model) drawList() []string {
	lines := m.title()
	list, name := shown(m.width)
	var head strings.Builder
	for _, c := range list {
		title := columns[c].title
		if c == m.sorted {
			mark := "▼"
			if m.reverse {
				mark = "▲"
			}
			title = mark + title
		}
		head.WriteString(cell(c, title, name))
	}
	lines = append(lines, "", m.looks(bold, head.String()))
	room := max(m.height-len(lines)-1, 1)
	cursor := m.cursor()
	m.first = min(m.first, max(len(m.rows)-room, 0))
	if cursor >= 0 {
		m.first = min(max(m.first, cursor-room+1), cursor)
	}
	for i := m.first; i < min(m.first+room, len(m.rows)); i++ {
		var line strings.Builder
		for _, c := range list {
			line.WriteString(cell(c, columns[c].text(m.rows[i]), name))
		}
		text := line.String()
		if i == cursor && !m.plain {
			text = m.looks(turned, text)
		}
		lines = append(lines, text)
	}
	if len(m.rows) == 0 {
		what := "There are no queues."
		if !m.now.Answered() {
			what = "No server answers."
		} else if m.filter != "" && len(m.now.Queues) > 0 {
			what = fmt.Sprintf("No queue's name contains %q.", m.filter)
		}
		lines = append(lines, what)
	}
	return m.withKeys(lines, keyLine)
}

// withKeys fills the screen, with keys in its last line.
func (m *model) withKeys(lines []string, keys string) []string {
	if m.plain {
		return lines
	}
	switch {
	case m.typing:
		keys = "filter: " + m.filter + "_"
	case m.filter != "":
		keys = m.looks(faint, fitting(fmt.Sprintf("[%s]  %s", m.filter, keys), m.width))
	default:
		keys = m.looks(faint, fitting(keys, m.width))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	return append(lines[:max(m.height-1, 0)], keys)
}

// fitting returns the keys that a line has room for. Whole ones go, from the right.
func fitting(keys string, width int) string {
	for ansi.StringWidth(keys) > width {
		i := strings.LastIndex(keys, "  ")
		if i < 0 {
			break
		}
		keys = keys[:i]
	}
	return keys
}

// cell is text in the width of a column: names to the left, figures to the right.
func cell(c column, text string, name int) string {
	if c == columnName {
		text = ansi.Truncate(text, name-1, "…")
		return text + strings.Repeat(" ", max(name-ansi.StringWidth(text), 1))
	}
	return strings.Repeat(" ", max(columns[c].width-ansi.StringWidth(text), 1)) + text
}

// drawQueue draws the chosen queue alone.
func (m *model) drawQueue() []string {
	lines := append(m.title(), "", m.looks(bold, cli.OneLine(m.chosen)))
	q, ok := m.now.Find(m.chosen)
	if !ok {
		return m.withKeys(append(lines, "The queue is gone."), "esc back  q quit")
	}
	rates := m.now.Since(m.last, q.Name)
	pair := func(a string, b any, c string, d any) {
		lines = append(lines, fmt.Sprintf("  %-10s %14v    %-10s %14v", a, b, c, d))
	}
	number := func(n int64) string { return figures.Thousands(n) }
	pair("in/s", number(int64(rates.In+0.5)), "out/s", number(int64(rates.Out+0.5)))
	pair("items", number(q.Items), "bytes", figures.Bytes(q.Bytes))
	pair("memory", figures.Bytes(q.MemoryBytes), "disk", figures.Bytes(q.DiskBytes))
	pair("age", cli.Age(q.Age), "waiting", number(q.Waiters))
	pair("open", number(q.OpenReads), "opened", number(q.Opened))
	pair("puts", number(q.Puts), "returned", number(q.Returned))
	pair("expired", number(q.Expired), "discarded", number(q.Discarded))
	if len(q.Children) > 0 {
		lines = append(lines, "  children   "+strings.Join(q.Children, ", "))
	}
	lines = append(lines, "")
	points := m.history[q.Name]
	width := max(m.width-24, 1)
	chart := func(title string, value func(p point) float64) {
		var values []float64
		for _, p := range points[max(0, len(points)-width):] {
			values = append(values, value(p))
		}
		highest := 0.0
		for _, v := range values {
			highest = max(highest, v)
		}
		lines = append(lines, fmt.Sprintf("  %-5s up to %8s  %s", title, short(highest), spark(values)))
	}
	chart("in/s", func(p point) float64 { return p.in })
	chart("out/s", func(p point) float64 { return p.out })
	chart("items", func(p point) float64 { return float64(p.items) })
	if len(q.Servers) > 1 {
		lines = append(lines, "", m.looks(bold, fmt.Sprintf("  %-24s%13s%11s%8s%9s%8s", "SERVER", "ITEMS", "BYTES", "AGE", "WAITING", "OPEN")))
		for _, server := range m.now.Servers {
			for _, one := range server.Queues {
				if one.Name == q.Name {
					lines = append(lines, fmt.Sprintf("  %-24s%13s%11s%8s%9s%8s", server.Server, number(one.Items),
						figures.Bytes(one.Bytes), cli.Age(one.Age), number(one.Waiters), number(one.OpenReads)))
				}
			}
		}
	}
	return m.withKeys(lines, "c clients  esc back  p pause  q quit")
}

// drawConnections draws who is connected to the chosen queue, in the order of the answer.
func (m *model) drawConnections() []string {
	const keys = "esc back  p pause  q quit"
	lines := append(m.title(), "", m.looks(bold, cli.OneLine(m.chosen)+"  connections"))
	switch {
	case m.opts.Connections == nil:
		return m.withKeys(append(lines, "Only the admin port of a server knows: name it with --admin."), keys)
	case m.asked.queue != m.chosen:
		return m.withKeys(append(lines, "asking the admin port …"), keys)
	case m.asked.err != nil:
		return m.withKeys(append(lines, m.looks(warning, cli.OneLine(m.asked.err.Error()))), keys)
	case len(m.asked.List) == 0:
		return m.withKeys(append(lines, "No connection holds an item of the queue or waits for it."), keys)
	}
	lines = append(lines, m.looks(bold, fmt.Sprintf("%6s  %-22s%-10s%8s%8s%11s%8s%8s%7s",
		"NO", "PEER", "PROTOCOL", "AGE", "IDLE", "REQUESTS", "HOLDS", "OLDEST", "WAITS")))
	room := max(m.height-len(lines)-2, 1)
	shown := m.asked.List[:min(room, len(m.asked.List))]
	for _, c := range shown {
		oldest, waits := "", ""
		if c.Holds > 0 {
			oldest = cli.Age(c.Oldest)
		}
		if c.Waits {
			waits = "yes"
		}
		lines = append(lines, fmt.Sprintf("%6d  %-22s%-10s%8s%8s%11s%8s%8s%7s", c.Number, c.Peer, c.Protocol,
			cli.Age(c.Age), cli.Age(c.Idle), figures.Thousands(c.Requests), figures.Thousands(c.Holds), oldest, waits))
	}
	if more := m.asked.Matched - int64(len(shown)); more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more: 'kestrel clients' lists them", figures.Thousands(more)))
	}
	return m.withKeys(lines, keys)
}

// short is a number in few characters.
func short(v float64) string {
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.1fG", v/1e9)
	case v >= 1e6:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.1fk", v/1e3)
	}
	return figures.Thousands(int64(v + 0.5))
}

// spark draws values as a line of bars, the highest of them full.
func spark(values []float64) string {
	bars := []rune(" ▁▂▃▄▅▆▇█")
	highest := 0.0
	for _, v := range values {
		highest = max(highest, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if v > 0 {
			i = max(1, int(v/highest*float64(len(bars)-1)+0.5))
		}
		b.WriteRune(bars[i])
	}
	return b.String()
}
