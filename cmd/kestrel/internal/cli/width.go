package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"
)

// leastName is how many columns of the screen the last column of a table keeps.
const leastName = 10

// Width returns how many columns the terminal has that a stream goes to, and 0 if it goes elsewhere.
func Width(stream any) int {
	if !IsTerminal(stream) {
		return 0
	}
	width, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Hang breaks text into lines of at most width columns, of which all but the first have an indent of so many spaces.
// A width of 0 keeps it in one line.
func Hang(text string, indent, width int) string {
	if width == 0 {
		return text
	}
	spaces := strings.Repeat(" ", indent)
	return strings.TrimPrefix(Wrap(text, spaces, max(width, indent+leastName)), spaces)
}

// WriteTable prints rows below their titles, which are the first row. The last column is to the left, the others to the
// right. Rows fit the width: they go without spare columns, the first to go first, and the last column is cut. A width of
// 0 has room for all.
func WriteTable(w io.Writer, rows [][]string, spare []string, width int) {
	last := len(rows[0]) - 1
	for _, title := range spare {
		if i := slices.Index(rows[0], title); width > 0 && i >= 0 && tableWidth(rows, leastName) > width {
			rows = WithoutColumn(rows, i)
			last--
		}
	}
	room := width - tableWidth(rows, 0)
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row[:last] {
			line.WriteString(strings.Repeat(" ", columnWidth(rows, i)-ansi.StringWidth(cell)) + cell + "  ")
		}
		name := row[last]
		if width > 0 {
			name = ansi.Truncate(name, max(room, leastName), "…")
		}
		fmt.Fprintln(w, strings.TrimRight(line.String()+name, " "))
	}
}

// tableWidth returns how wide a table is whose last column has at most so many columns of the screen.
func tableWidth(rows [][]string, most int) (width int) {
	last := len(rows[0]) - 1
	for i := range last {
		width += columnWidth(rows, i) + 2
	}
	return width + min(columnWidth(rows, last), most)
}

func columnWidth(rows [][]string, column int) (width int) {
	for _, row := range rows {
		width = max(width, ansi.StringWidth(row[column]))
	}
	return width
}

// WithoutColumn returns rows without one column.
func WithoutColumn(rows [][]string, column int) [][]string {
	rest := make([][]string, len(rows))
	for i, row := range rows {
		rest[i] = slices.Delete(slices.Clone(row), column, column+1)
	}
	return rest
}
