package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Measures of a key.
const (
	keyStroke = 18.0 // points, the piece of a curve beside its name
	keySpace  = 4.0  // points between the piece and the name
	keyGap    = 14.0 // points between two entries
	keyLead   = 1.35 // height of a row, in heights of its letters
)

// keyEntry is the name of a curve in the key of a picture's chart, and where it is.
type keyEntry struct {
	name string
	line *plotter.Line // nil: the entry is words alone
	row  int           // 0 is the uppermost
	x    vg.Length     // of its left end, from that of the row
	wide vg.Length
}

// keyOf places the names of curves in rows at most so wide, in order. A name that is wider has a row of its own.
func keyOf(names []string, lines []*plotter.Line, left int, style text.Style, width vg.Length) []keyEntry {
	var key []keyEntry
	var x vg.Length
	row := 0
	add := func(name string, line *plotter.Line) {
		wide := style.Width(name)
		if line != nil {
			wide += keyStroke + keySpace
		}
		if x > 0 && x+wide > width {
			row, x = row+1, 0
		}
		key = append(key, keyEntry{name, line, row, x, wide})
		x += wide + keyGap
	}
	for i, name := range names {
		if name != "" {
			add(name, lines[i])
		}
	}
	if left > 0 {
		add(fmt.Sprintf("and %d more", left), nil)
	}
	return key
}

// keyHeight returns how high the rows of a key are together.
func keyHeight(key []keyEntry, style text.Style) vg.Length {
	if len(key) == 0 {
		return 0
	}
	return vg.Length(key[len(key)-1].row+1) * keyLead * style.Height("x")
}

// drawKey draws the key of a chart between its title and its curves, each row in the middle.
func drawKey(tile draw.Canvas, p *plot.Plot, key []keyEntry) {
	style := p.Legend.TextStyle
	style.XAlign, style.YAlign = text.XLeft, text.YCenter
	lead := keyLead * style.Height("x")
	top := tile.Max.Y - p.Title.TextStyle.Height(p.Title.Text) - titlePadding/2
	for _, e := range key {
		x := tile.Center().X - rowWidth(key, e.row)/2 + e.x
		y := top - (vg.Length(e.row)+0.5)*lead
		if e.line != nil {
			tile.StrokeLine2(e.line.LineStyle, x, y, x+keyStroke, y)
			x += keyStroke + keySpace
		}
		tile.FillText(style, vg.Point{X: x, Y: y}, e.name)
	}
}

// rowWidth returns how wide a row of a key is.
func rowWidth(key []keyEntry, row int) (wide vg.Length) {
	for _, e := range key {
		if e.row == row {
			wide = e.x + e.wide
		}
	}
	return wide
}
