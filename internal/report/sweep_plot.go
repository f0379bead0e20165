package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// The plot's frame, in pixels: what it draws lies between these.
const (
	plotWidth, plotHeight         = 720.0, 360.0
	plotLeft, plotRight           = 72.0, 700.0
	plotTop, plotBottom           = 28.0, 312.0
	plotRadius, plotTicks, marksX = 5.0, 4, 12
)

// SweepPlot draws the points of a sweep as an SVG image: the peak over the
// value, filled where it passed and hollow where it did not, with the boundary
// between. A point without a reading is a cross on the axis: unknown is not 0.
func SweepPlot(w io.Writer, d *record.Sweep) error {
	if len(d.Points) == 0 {
		return fmt.Errorf("a sweep without points has no plot")
	}
	_, err := io.WriteString(w, plotted(d).svg())
	return err
}

// plot is what is drawn, in pixels.
type plot struct {
	title, axis string
	points      []plotPoint
	x, y        []plotTick
	boundary    *plotBand
}

type plotPoint struct {
	x, y         float64
	passed, read bool
	text         string
}

type plotTick struct {
	at   float64
	text string
}

type plotBand struct {
	from, to float64
	text     string
}

func plotted(d *record.Sweep) plot {
	var p plot
	least, most, peak := d.Points[0].Value, d.Points[len(d.Points)-1].Value, int64(0)
	for _, point := range d.Points {
		if point.PeakBytes != nil {
			peak = max(peak, *point.PeakBytes)
		}
	}
	unit := bytesize.Suggest(max(peak, 1))
	x := scale(least, most)
	y := func(n int64) float64 {
		return plotBottom - (plotBottom-plotTop)*float64(n)/(1.05*math.Max(float64(peak), 1))
	}
	for i, point := range d.Points {
		at := plotPoint{x: x(point.Value), y: plotBottom, passed: point.Status == "passed", text: fmt.Sprintf("%s %d: %s", d.Varied, point.Value, point.Status)}
		if point.PeakBytes != nil {
			at.y, at.read = y(*point.PeakBytes), true
			at.text += ", " + bytesize.Format(*point.PeakBytes, unit)
		}
		p.points = append(p.points, at)
		if every := (len(d.Points)-1)/marksX + 1; i%every == 0 {
			p.mark(plotTick{at.x, bytesize.Group(point.Value)})
		}
	}
	for i := range plotTicks + 1 {
		n := peak / plotTicks * int64(i)
		if peak == 0 && i > 0 {
			break // nothing was read: there is nothing to measure by
		}
		p.y = append(p.y, plotTick{y(n), fixed(n, unit)})
	}
	p.title, p.axis = "peak, "+unit.String(), d.Varied
	if pass, fail := d.Boundary.LargestPass, d.Boundary.SmallestFail; pass != nil && fail != nil && d.Boundary.Monotone {
		p.boundary = &plotBand{x(*pass), x(*fail), fmt.Sprintf("boundary: between %s and %s", bytesize.Group(*pass), bytesize.Group(*fail))}
	}
	return p
}

// mark adds the mark of a value, where it does not run into the one before.
func (p *plot) mark(t plotTick) {
	const digit, gap = 7.0, 6.0 // pixels, of the labels' font
	if n := len(p.x); n > 0 && t.at-p.x[n-1].at < digit*float64(len(t.text)+len(p.x[n-1].text))/2+gap {
		return
	}
	p.x = append(p.x, t)
}

// scale places values: evenly by their logarithm where they span more than a
// factor of 16, as doublings do, else evenly.
func scale(least, most int64) func(int64) float64 {
	of := func(v int64) float64 { return float64(v) }
	if least > 0 && most/least > 16 {
		of = func(v int64) float64 { return math.Log2(float64(v)) }
	}
	span := of(most) - of(least)
	return func(v int64) float64 {
		if span == 0 {
			return (plotLeft + plotRight) / 2
		}
		return plotLeft + plotRadius + (plotRight-plotLeft-2*plotRadius)*(of(v)-of(least))/span
	}
}

// svg writes the picture. Texts are escaped: a dimension is what somebody typed.
func (p plot) svg() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	label := func(x, y float64, anchor, color, text string) {
		line(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`, x, y, anchor, color, html.EscapeString(text))
	}
	line(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="%s">`,
		plotWidth, plotHeight, html.EscapeString(p.title+" over "+p.axis))
	line(`<rect width="100%%" height="100%%" fill="#fff"/>`)
	if band := p.boundary; band != nil {
		line(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="#f4c7c3"/>`, band.from, plotTop, band.to-band.from, plotBottom-plotTop)
		label(plotRight, plotTop-12, "end", "#8c1d18", band.text)
	}
	for _, tick := range p.y {
		line(`<path d="M%.1f %.1fH%.1f" stroke="#ddd"/>`, plotLeft, tick.at, plotRight)
		label(plotLeft-8, tick.at+4, "end", "#333", tick.text)
	}
	for _, tick := range p.x {
		label(tick.at, plotBottom+20, "middle", "#333", tick.text)
	}
	label(plotLeft, plotTop-12, "start", "#333", p.title)
	label(plotRight, plotBottom+40, "end", "#333", p.axis+" · filled: passed; hollow: did not, its peak is only what was read last; ×: no peak was read (blue: passed)")
	for _, point := range p.points {
		if !point.read {
			line(`<g><title>%s</title>`, html.EscapeString(point.text))
			color := "#8c1d18"
			if point.passed {
				color = "#1a56b0"
			}
			label(point.x, point.y+4, "middle", color, "×")
			line(`</g>`)
			continue
		}
		fill := "#fff"
		if point.passed {
			fill = "#1a56b0"
		}
		line(`<circle cx="%.1f" cy="%.1f" r="%.1f" stroke="#1a56b0" stroke-width="2" fill="%s"><title>%s</title></circle>`, point.x, point.y, plotRadius, fill, html.EscapeString(point.text))
	}
	line(`</svg>`)
	return b.String()
}
