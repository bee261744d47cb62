package clientcmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
)

// leastName is how many columns a name keeps on a narrow terminal.
const leastName = 10

// longTitles are columns of names and other text, which are cut to fit.
var longTitles = []string{"QUEUE", "CLIENT", "USER", "KEY", "HOLDS", "WAITS", "ON", "DATA"}

// spareTitles are the columns that a narrow terminal goes without, the first to go first.
var spareTitles = []string{
	"VERSION", "CONNECTIONS", "UNREAD", "REQUESTS", "PROTOCOL", "GETS", "PUTS", "50%", "99%", "DELAYED", "LEASED", "UPTIME",
	"SETS", "IDLE", "YOUNGEST", "MOST", "DELIVERIES", "SERVERS", "WAITING", "USER", "MAX", "OPEN", "QUEUES", "DUE", "KEY",
	"BYTES/s", "AGE", "WAITS", "BYTES", "OLDEST",
}

// screenWidth returns how wide the terminal is that the output goes to, and 0 if it goes elsewhere.
func (s *session) screenWidth() int { return cli.Width(s.screen) }

// table prints rows, the first column to the left and the others to the right. On a terminal the rows fit its width.
// What is piped is whole.
func (s *session) table(rows [][]string) { s.tableLeft(rows, "") }

// tableLeft is table with the columns of these titles to the left, beside the first.
func (s *session) tableLeft(rows [][]string, left ...string) {
	if width := s.screenWidth(); width > 0 {
		rows = fit(rows, width)
	}
	widths := widthsOf(rows)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i > 0 {
				line.WriteString("  ")
			}
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(cell))
			if i == 0 || slices.Contains(left, rows[0][i]) {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(s.out, strings.TrimRight(line.String(), " "))
	}
}

// widthsOf returns how wide the columns of a table are, without the two spaces between them.
func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	return widths
}

// fit returns rows that fit a width: without spare columns, and with long ones cut, as far as they must be.
func fit(rows [][]string, width int) [][]string {
	for _, title := range spareTitles {
		if least(rows) <= width {
			break
		}
		if i := slices.Index(rows[0], title); i > 0 {
			rows = cli.WithoutColumn(rows, i)
		}
	}
	widths := widthsOf(rows)
	for excess := total(widths) - width; excess > 0; excess-- {
		widest := -1
		for i, w := range widths {
			if w > leastName && slices.Contains(longTitles, rows[0][i]) && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	cut := make([][]string, len(rows))
	for r, row := range rows {
		cut[r] = slices.Clone(row)
		for i := range row {
			cut[r][i] = ansi.Truncate(row[i], widths[i], "…")
		}
	}
	return cut
}

// least returns the width of rows whose long columns are cut as far as they may be.
func least(rows [][]string) int {
	widths := widthsOf(rows)
	for i, title := range rows[0] {
		if slices.Contains(longTitles, title) {
			widths[i] = min(widths[i], leastName)
		}
	}
	return total(widths)
}

// total returns how wide a table with columns of these widths is.
func total(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}
