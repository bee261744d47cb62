package report

import (
	"fmt"
	"slices"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// TestKey places keys of many curves: no two names meet, each row fits, and the order is that of the curves.
func TestKey(t *testing.T) {
	style := plot.New().Legend.TextStyle
	const width = 300.0
	for n := range 12 {
		names, lines := make([]string, n), make([]*plotter.Line, n)
		for i := range names {
			names[i], lines[i] = fmt.Sprintf("server %d, items only on disk", i), new(plotter.Line)
		}
		key := keyOf(names, lines, n%2, style, width)
		if len(key) != n+n%2 {
			t.Fatalf("%d curves have a key of %d", n, len(key))
		}
		for i, e := range key {
			if i < n && e.name != names[i] {
				t.Errorf("entry %d of %d is %q", i, n, e.name)
			}
			if e.x+e.wide > width {
				t.Errorf("entry %d of %d ends at %v of %v", i, n, e.x+e.wide, width)
			}
			if i == 0 {
				continue
			}
			before := key[i-1]
			if e.row == before.row && e.x < before.x+before.wide+keyGap || e.row != before.row && (e.row != before.row+1 || e.x != 0) {
				t.Errorf("entry %d of %d meets the one before: %+v, %+v", i, n, before, e)
			}
		}
	}
}

// TestKeyHasRoom wants the rows of each chart's key to be as far apart as letters are high, and above the curves.
func TestKeyHasRoom(t *testing.T) {
	var runs []*figures.Run
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		runs = append(runs, testRun(t, "a run with a name that is long "+name))
	}
	list, err := drawings(runs)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list, func(c chart) bool { return len(c.curves) > 4 }) {
		t.Fatal("no chart has a key of several rows")
	}
	for _, c := range list {
		p, key, err := c.plot()
		if err != nil {
			t.Fatal(err)
		}
		rows := vg.Length(key[len(key)-1].row + 1)
		letters := p.Legend.TextStyle.FontExtents()
		if need := rows * (letters.Ascent + letters.Descent); p.Title.Padding < need {
			t.Errorf("%s: a key of %v rows has %v, and needs %v", c.title, rows, p.Title.Padding, need)
		}
	}
}
