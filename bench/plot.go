package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// series is a line of the plot.
type series struct {
	name   string
	colour string // class of plotStyle
	dashed bool
	points []point
}

type point struct{ x, y float64 }

// Dimensions of the plot in pixels.
const (
	plotWidth, plotHeight = 900, 520
	plotLeft, plotRight   = 80, 660
	plotTop, plotBottom   = 60, 450
	labelHeight           = 18
)

// plotStyle has colors that are distinguishable on a light and on a dark background, also with a color vision
// deficiency.
const plotStyle = `
	text { font: 13px system-ui, sans-serif; fill: #1f2328 }
	.title { font-size: 16px; font-weight: 600 }
	.ground { fill: #ffffff }
	.grid { stroke: #d1d9e0; stroke-width: 1 }
	.line { fill: none; stroke-width: 2.5 }
	.dashed { stroke-dasharray: 7 4 }
	.floor { stroke: #59636e; fill: #59636e } .cairn { stroke: #0969da; fill: #0969da }
	.peer0 { stroke: #bc4c00; fill: #bc4c00 } .peer1 { stroke: #8250df; fill: #8250df } .peer2 { stroke: #1a7f37; fill: #1a7f37 } .peer3 { stroke: #bf3989; fill: #bf3989 }
	.leader { stroke-width: 1; opacity: 0.5 }
	@media (prefers-color-scheme: dark) {
		text { fill: #f0f6fc }
		.ground { fill: #0d1117 }
		.grid { stroke: #3d444d }
		.floor { stroke: #9198a1; fill: #9198a1 } .cairn { stroke: #4493f8; fill: #4493f8 }
		.peer0 { stroke: #f0883e; fill: #f0883e } .peer1 { stroke: #ab7df8; fill: #ab7df8 } .peer2 { stroke: #3fb950; fill: #3fb950 } .peer3 { stroke: #db61a2; fill: #db61a2 }
	}
	.line.line { fill: none }
	.mark { stroke: none }
`

// plot draws lines on two logarithmic axes as SVG. All values are positive. Each line has its name at its end.
func plot(title, xName, yName string, lines []series) string {
	xs, ys := axisOf(lines, func(p point) float64 { return p.x }), axisOf(lines, func(p point) float64 { return p.y })
	xs.from, xs.to, ys.from, ys.to = plotLeft, plotRight, plotBottom, plotTop
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%d" role="img" aria-label="%s">`,
		plotWidth, plotHeight, html.EscapeString(title))
	fmt.Fprintf(&b, "\n<style>%s</style>\n", plotStyle)
	fmt.Fprintf(&b, "<rect class=\"ground\" width=\"%d\" height=\"%d\"/>\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<text class=\"title\" x=\"%d\" y=\"30\">%s</text>\n", plotLeft, html.EscapeString(title))
	for _, v := range xs.ticks() {
		at := xs.place(v)
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>", at, plotTop, at, plotBottom)
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", at, plotBottom+20, tick(v))
	}
	for _, v := range ys.ticks() {
		at := ys.place(v)
		fmt.Fprintf(&b, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>", plotLeft, at, plotRight, at)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plotLeft-8, at+4, tick(v))
	}
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (plotLeft+plotRight)/2, plotBottom+48,
		html.EscapeString(xName))
	fmt.Fprintf(&b, "<text transform=\"translate(22 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (plotTop+plotBottom)/2,
		html.EscapeString(yName))
	labels := placeLabels(lines, ys)
	for i, s := range lines {
		var path []string
		for _, p := range s.points {
			path = append(path, fmt.Sprintf("%.1f,%.1f", xs.place(p.x), ys.place(p.y)))
		}
		class := s.colour
		if s.dashed {
			class += " dashed"
		}
		fmt.Fprintf(&b, "<polyline class=\"line %s\" points=\"%s\"/>\n", class, strings.Join(path, " "))
		for _, p := range s.points {
			fmt.Fprintf(&b, "<circle class=\"mark %s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", s.colour, xs.place(p.x), ys.place(p.y))
		}
		end := s.points[len(s.points)-1]
		fmt.Fprintf(&b, "\n<line class=\"leader %s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>", s.colour, xs.place(end.x)+6, ys.place(end.y),
			xs.place(end.x)+22, labels[i])
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", xs.place(end.x)+26, labels[i]+4, html.EscapeString(s.name))
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// axis is a logarithmic axis: its values, and the pixels of its two ends.
type axis struct {
	low, high float64
	from, to  float64
}

// axisOf returns an axis of whole powers of ten that covers all points.
func axisOf(lines []series, value func(point) float64) axis {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range lines {
		for _, p := range s.points {
			low, high = min(low, value(p)), max(high, value(p))
		}
	}
	a := axis{low: math.Pow(10, math.Floor(math.Log10(low))), high: math.Pow(10, math.Ceil(math.Log10(high)))}
	if a.low == a.high {
		a.high *= 10
	}
	return a
}

func (a axis) place(v float64) float64 {
	return a.from + (a.to-a.from)*math.Log10(v/a.low)/math.Log10(a.high/a.low)
}

func (a axis) ticks() []float64 {
	var out []float64
	for v := a.low; v <= a.high*1.001; v *= 10 {
		out = append(out, v)
	}
	return out
}

func tick(v float64) string {
	if v >= 1 {
		return thousands(v)
	}
	return strings.TrimRight(fmt.Sprintf("%.6f", v), "0")
}

// placeLabels returns the vertical position of each line's name: the end of the line, or a little off if it would
// overlap another name.
func placeLabels(lines []series, ys axis) []float64 {
	out, order := make([]float64, len(lines)), make([]int, len(lines))
	for i, s := range lines {
		out[i], order[i] = ys.place(s.points[len(s.points)-1].y), i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(out[i], out[j]) })
	// The first pass moves names down below the name above; the second moves those that are too low up again.
	for k, i := range order[1:] {
		out[i] = max(out[i], out[order[k]]+labelHeight)
	}
	bottom := float64(plotBottom)
	for _, i := range slices.Backward(order) {
		out[i] = min(out[i], bottom)
		bottom = out[i] - labelHeight
	}
	return out
}
