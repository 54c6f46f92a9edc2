package main

import (
	"fmt"
	"math"
	"strings"
)

// chart has a group of bars, or of dots on a logarithmic axis, for each queue. NaN was not measured.
type chart struct {
	title, unit    string
	groups, series []string
	values         [][]float64 // by series and group
	logarithmic    bool
}

var palette = []string{"#1f77b4", "#ff7f0e", "#2ca02c"}

// svg draws the chart.
func (c chart) svg() string {
	const width, height, left, right, top, bottom = 854, 454, 90, 840, 60, 410
	var b strings.Builder
	text := func(x, y float64, anchor, what string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, what)
	}
	low, high := c.axis()
	y := func(v float64) float64 {
		if c.logarithmic {
			return bottom - (bottom-top)*math.Log10(v/low)/math.Log10(high/low)
		}
		return bottom - (bottom-top)*v/high
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="Arial,Helvetica,sans-serif" font-size="14">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	text(width/2, 22, "middle", c.title+", "+c.unit)
	for _, tick := range c.ticks(low, high) {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="#ccc"/>`+"\n", left, y(tick), right)
		digits := 0
		if tick < 1 && tick > 0 {
			digits = 1
		}
		text(left-6, y(tick)+5, "end", number(tick, digits))
	}
	group := float64(right-left) / float64(len(c.groups))
	for g, name := range c.groups {
		from := left + group*float64(g)
		text(from+group/2, bottom+22, "middle", name)
		bar := group * 0.8 / float64(len(c.series))
		for s := range c.series {
			v := c.values[s][g]
			switch {
			case math.IsNaN(v) || c.logarithmic && v <= 0:
			case c.logarithmic:
				fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="6" fill="%s"/>`+"\n", from+group/2, y(v), palette[s])
			default:
				fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
					from+group*0.1+bar*float64(s), y(v), bar*0.92, bottom-y(v), palette[s])
			}
		}
	}
	for s, name := range c.series {
		x := float64(left + 10 + 180*s)
		fmt.Fprintf(&b, `<rect x="%.1f" y="34" width="12" height="12" fill="%s"/>`+"\n", x, palette[s])
		text(x+18, 45, "start", name)
	}
	return b.String() + "</svg>\n"
}

// axis returns the ends of the axis of values.
func (c chart) axis() (low, high float64) {
	if c.logarithmic {
		return 0.1, 10_000
	}
	high = 1
	for _, values := range c.values {
		for _, v := range values {
			if v > high { // not if it is NaN
				high = v
			}
		}
	}
	return 0, high
}

func (c chart) ticks(low, high float64) (list []float64) {
	if c.logarithmic {
		for v := low; v <= high*1.001; v *= 10 {
			list = append(list, v)
		}
		return list
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for high/step < 4 {
		step /= 2
	}
	for v := 0.0; v <= high; v += step {
		list = append(list, v)
	}
	return list
}
