package top

import (
	"cmp"
	"strings"

	"github.com/kestrelmq/kestrel/cmd/kestrel/internal/cli"
	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// column is one of the list's.
type column int

const (
	columnName column = iota
	columnIn
	columnOut
	columnItems
	columnBytes
	columnAge
	columnWaiting
	columnOpen
)

// columns describes the columns: their titles, widths, and the order that they sort by, which has
// first what an operator wants to see first.
var columns = [...]struct {
	title   string
	width   int // in columns of the screen, with the space before
	least   int // a screen that is narrower goes without
	text    func(r row) string
	compare func(a, b row) int
}{
	columnName: {"QUEUE", 0, 0, func(r row) string { return cli.OneLine(r.Name) },
		func(a, b row) int { return strings.Compare(a.Name, b.Name) }},
	columnIn: {"IN/s", 10, 40, func(r row) string { return figures.Thousands(int64(r.In + 0.5)) },
		func(a, b row) int { return cmp.Compare(b.In, a.In) }},
	columnOut: {"OUT/s", 10, 50, func(r row) string { return figures.Thousands(int64(r.Out + 0.5)) },
		func(a, b row) int { return cmp.Compare(b.Out, a.Out) }},
	columnItems: {"ITEMS", 13, 0, func(r row) string { return figures.Thousands(r.Items) },
		func(a, b row) int { return cmp.Compare(b.Items, a.Items) }},
	columnBytes: {"BYTES", 11, 75, func(r row) string { return figures.Bytes(r.Bytes) },
		func(a, b row) int { return cmp.Compare(b.Bytes, a.Bytes) }},
	columnAge: {"AGE", 8, 60, func(r row) string { return cli.Age(r.Age) },
		func(a, b row) int { return cmp.Compare(b.Age, a.Age) }},
	columnWaiting: {"WAITING", 9, 85, func(r row) string { return figures.Thousands(r.Waiters) },
		func(a, b row) int { return cmp.Compare(b.Waiters, a.Waiters) }},
	columnOpen: {"OPEN", 8, 70, func(r row) string { return figures.Thousands(r.OpenReads) },
		func(a, b row) int { return cmp.Compare(b.OpenReads, a.OpenReads) }},
}

// shown returns the columns that a screen of some width has, and what is left for names.
func shown(width int) (list []column, name int) {
	name = width
	for i, c := range columns {
		if width >= c.least {
			list = append(list, column(i))
			name -= c.width
		}
	}
	return list, max(name, 8)
}
