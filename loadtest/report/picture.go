package report

import (
	"errors"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/kestrelmq/kestrel/loadtest/figures"
)

// Size of one chart of a picture, and how many stand side by side.
const (
	pictureWidth   = 15 * vg.Centimeter
	pictureHeight  = 9 * vg.Centimeter
	pictureColumns = 2
	picturePadding = 4 * vg.Millimeter
	titlePadding   = 10.0 // points: half below the title, half below the key
)

// Picture writes the charts of runs as a picture on white, in the format "svg" or "png". It returns
// an error if there is nothing to draw.
func Picture(w io.Writer, runs []*figures.Run, format string) error {
	drawn, err := drawings(runs)
	if err != nil {
		return err
	}
	if len(drawn) == 0 {
		return errors.New("the runs hold nothing that could be drawn")
	}
	rows := (len(drawn) + pictureColumns - 1) / pictureColumns
	grid := make([][]*plot.Plot, rows)
	for i := range grid {
		grid[i] = make([]*plot.Plot, pictureColumns)
	}
	keys := make([][]keyEntry, len(drawn))
	for i := range drawn {
		p, key, err := drawn[i].plot()
		if err != nil {
			return fmt.Errorf("draw %q: %w", drawn[i].title, err)
		}
		grid[i/pictureColumns][i%pictureColumns], keys[i] = p, key
	}
	canvas, err := draw.NewFormattedCanvas(pictureColumns*pictureWidth,
		vg.Length(rows)*pictureHeight, format)
	if err != nil {
		return err
	}
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, whole.ClipPolygonXY([]vg.Point{
		{X: whole.Min.X, Y: whole.Min.Y}, {X: whole.Max.X, Y: whole.Min.Y},
		{X: whole.Max.X, Y: whole.Max.Y}, {X: whole.Min.X, Y: whole.Max.Y},
	}))
	tiles := draw.Tiles{
		Rows: rows, Cols: pictureColumns, PadX: picturePadding, PadY: picturePadding,
		PadTop: picturePadding, PadBottom: picturePadding, PadLeft: picturePadding,
		PadRight: picturePadding,
	}
	for i, row := range plot.Align(grid, tiles, whole) {
		for j, tile := range row {
			if grid[i][j] != nil {
				grid[i][j].Draw(tile)
				drawKey(tile, grid[i][j], keys[i*pictureColumns+j])
			}
		}
	}
	_, err = canvas.WriteTo(w)
	return err
}

// plot returns the chart for a picture, with room for its key between the title and the curves.
func (c *chart) plot() (*plot.Plot, []keyEntry, error) {
	p := plot.New()
	p.Title.Text = c.title
	for _, style := range []*text.Style{&p.Title.TextStyle, &p.Legend.TextStyle, &p.X.Tick.Label,
		&p.Y.Tick.Label} {
		style.Font.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Add(plotter.NewGrid())
	p.X.Tick.Marker, p.Y.Tick.Marker = c.x.ticks(), c.y.ticks()
	if c.x.log() {
		p.X.Scale = plot.LogScale{}
	}
	if c.y.log() {
		p.Y.Scale = plot.LogScale{}
	}
	names, lines := make([]string, 0, len(c.curves)), make([]*plotter.Line, 0, len(c.curves))
	for _, s := range c.curves {
		points := make(plotter.XYs, 0, len(s.points))
		for _, at := range s.points {
			points = append(points, plotter.XY{X: at.x, Y: at.y})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, nil, err
		}
		if line.Color, err = parseColor(s.color); err != nil {
			return nil, nil, err
		}
		line.Width = vg.Points(1.3)
		if s.dashed {
			line.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
		}
		p.Add(line)
		names, lines = append(names, s.name), append(lines, line)
	}
	for _, m := range c.marks {
		p.Add(m)
	}
	key := keyOf(names, lines, c.left, p.Legend.TextStyle, pictureWidth-2*picturePadding)
	p.Title.Padding = titlePadding + keyHeight(key, p.Legend.TextStyle)
	c.widen(p)
	return p, key, nil
}

// Plot implements plot.Plotter: a broken line at the moment, and the name along it. Marks do not widen the axes.
func (m mark) Plot(canvas draw.Canvas, p *plot.Plot) {
	if m.at < p.X.Min || m.at > p.X.Max {
		return
	}
	tx, _ := p.Transforms(&canvas)
	grey := color.Gray{Y: 0x77}
	canvas.StrokeLine2(draw.LineStyle{Color: grey, Width: vg.Points(0.7), Dashes: []vg.Length{vg.Points(2), vg.Points(2)}},
		tx(m.at), canvas.Min.Y, tx(m.at), canvas.Max.Y)
	style := p.Legend.TextStyle
	style.Color, style.Rotation, style.XAlign, style.YAlign = grey, math.Pi/2, text.XLeft, text.YTop
	canvas.FillText(style, vg.Point{X: tx(m.at) + vg.Points(1), Y: canvas.Min.Y + vg.Points(3)}, m.name)
}

// widen gives the axes a range that is not empty, and linear ones their zero.
func (c *chart) widen(p *plot.Plot) {
	if c.y.log() {
		p.Y.Min, p.Y.Max = decade(p.Y.Min, math.Floor), decade(p.Y.Max, math.Ceil)
		if p.Y.Min == p.Y.Max {
			p.Y.Max *= 10
		}
	} else {
		p.Y.Min = 0
		p.Y.Max *= 1.05
		if p.Y.Max <= 0 {
			p.Y.Max = 1
		}
	}
	if c.x == timeAxis {
		p.X.Min = 0
	}
	if p.X.Min == p.X.Max {
		p.X.Max = p.X.Min*1.1 + 1e-9
	}
}

// decade returns the power of ten next to v on the side that round says.
func decade(v float64, round func(float64) float64) float64 {
	return math.Pow(10, round(math.Log10(v)))
}

// parseColor parses a colour such as #1fa179.
func parseColor(s string) (color.Color, error) {
	n, err := strconv.ParseUint(s[1:], 16, 32)
	if err != nil {
		return nil, err
	}
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 255}, nil
}

// ticks returns the marks of an axis, with its unit.
func (a axis) ticks() plot.Ticker {
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		var marks []plot.Tick
		if a.log() {
			marks = plot.LogTicks{Prec: -1}.Ticks(low, high)
		} else {
			marks = plot.DefaultTicks{}.Ticks(low, high)
		}
		for i := range marks {
			if !marks[i].IsMinor() {
				marks[i].Label = a.text(marks[i].Value)
			}
		}
		return marks
	})
}

// text prints a value of an axis.
func (a axis) text(v float64) string {
	switch a {
	case percentileAxis:
		if v <= 1 {
			return "0 %"
		}
		decimals := max(0, int(math.Round(math.Log10(v)))-2)
		return strconv.FormatFloat(100*(1-1/v), 'f', decimals, 64) + " %"
	case latencyAxis:
		return figures.Duration(int64(math.Round(v * 1e6)))
	case mebibytesAxis:
		return strconv.FormatFloat(v, 'g', 4, 64) + " MiB"
	case timeAxis:
		return strconv.FormatFloat(v, 'g', 6, 64) + " s"
	case rateAxis, countAxis:
		if v >= 1000 {
			return figures.Thousands(int64(v))
		}
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
