package main

import (
	"bytes"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

var palette = []color.Color{
	color.RGBA{0x1f, 0x77, 0xb4, 0xff}, color.RGBA{0xff, 0x7f, 0x0e, 0xff}, color.RGBA{0x2c, 0xa0, 0x2c, 0xff},
	color.RGBA{0xd6, 0x27, 0x28, 0xff}, color.RGBA{0x94, 0x67, 0xbd, 0xff}, color.RGBA{0x8c, 0x56, 0x4b, 0xff},
	color.RGBA{0xe3, 0x77, 0xc2, 0xff}, color.RGBA{0x7f, 0x7f, 0x7f, 0xff}, color.RGBA{0xbc, 0xbd, 0x22, 0xff},
	color.RGBA{0x17, 0xbe, 0xcf, 0xff}, color.RGBA{0x00, 0x00, 0x00, 0xff}, color.RGBA{0xae, 0xc7, 0xe8, 0xff},
}

// draw writes the table's medians as an SVG.
func (t Table) draw(file string) error {
	if t.Drawn > 0 {
		t.Columns = t.Columns[:t.Drawn]
	}
	p := newPlot(t.Title, t.Unit)
	var err error
	if t.Chart == lines {
		err = t.drawLines(p)
	} else {
		err = t.drawBars(p)
	}
	if err != nil {
		return err
	}
	return save(p, file)
}

func newPlot(title, unit string) *plot.Plot {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = title
	p.Y.Label.Text = unit
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding = vg.Points(2)
	p.Title.Padding = vg.Points(4)
	p.Legend.TextStyle.Font.Size = vg.Points(8)
	p.Y.Tick.Marker = commaTicks{p.Y.Tick.Marker}
	p.Add(plotter.NewGrid())
	return p
}

// save also names fonts of the same widths, because few readers have the first one.
func save(p *plot.Plot, file string) error {
	w, err := p.WriterTo(vg.Points(640), vg.Points(340), "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := w.WriteTo(&svg); err != nil {
		return err
	}
	const family = "font-family:Liberation Sans"
	return os.WriteFile(file, bytes.ReplaceAll(svg.Bytes(), []byte(family), []byte(family+",Arial,Helvetica,sans-serif")), 0o644)
}

func (t Table) drawBars(p *plot.Plot) error {
	const group = 0.8 // of the space between two ticks
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	p.NominalX(names...)
	width := vg.Points(560 * group / float64(len(t.Columns)*max(len(t.Rows), 1)))
	top := 0.0
	for r, row := range t.Rows {
		heights := make(plotter.Values, len(t.Columns))
		for c, cell := range row.Cells[:min(len(row.Cells), len(t.Columns))] {
			if len(cell) > 0 {
				heights[c] = cell.Median()
				top = max(top, heights[c])
			}
		}
		bars, err := plotter.NewBarChart(heights, width*0.92)
		if err != nil {
			return err
		}
		bars.Color = palette[r%len(palette)]
		bars.LineStyle.Width = 0
		bars.Offset = width * vg.Length(float64(r)-float64(len(t.Rows)-1)/2)
		p.Add(bars)
		p.Legend.Add(plain(row.Name), bars)
	}
	p.X.Min, p.X.Max = -0.6, float64(len(t.Columns))-0.4
	p.Y.Max = top * (1.1 + 0.06*float64(len(t.Rows))) // space for the legend
	return nil
}

func (t Table) drawLines(p *plot.Plot) error {
	p.X.Label.Text = t.Head
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, commaTicks{plot.LogTicks{Prec: -1}}
	p.Y.Min = 0
	top := 0.0
	for r, row := range t.Rows {
		var points plotter.XYs
		for c, cell := range row.Cells {
			if len(cell) > 0 {
				points = append(points, plotter.XY{X: t.Columns[c].X, Y: cell.Median()})
				top = max(top, cell.Median())
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = palette[r%len(palette)], palette[r%len(palette)]
		line.Width = vg.Points(1.5)
		p.Add(line, dots)
		p.Legend.Add(plain(row.Name), line, dots)
	}
	p.Y.Max = top * (1.1 + 0.06*float64(len(t.Rows)))
	return nil
}

func plain(markdown string) string {
	return strings.NewReplacer("`", "", "**", "").Replace(markdown)
}

// commaTicks labels the ticks with integers that have thousands separators.
type commaTicks struct{ plot.Ticker }

func (c commaTicks) Ticks(low, high float64) []plot.Tick {
	ticks := c.Ticker.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			digits := 0
			if v := ticks[i].Value; v != float64(int64(v)) {
				digits = 2
			}
			ticks[i].Label = number(ticks[i].Value, digits)
		}
	}
	return ticks
}
