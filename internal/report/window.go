package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// window is the shares of a card that an engine can be given, and which way to
// turn the knob.
func window(b *strings.Builder, d *record.Solve, s Style) {
	w := d.Solution.Window
	where := solvedFor(d)
	switch {
	case w.Low <= w.High:
		b.WriteString(paragraph(s, "  ", s.verdict("fits", fmt.Sprintf("utilization %.3f to %.3f", w.Low, w.High))+" · "+where))
	case w.PossibleLow <= w.PossibleHigh:
		b.WriteString(paragraph(s, "  ", s.verdict("cannot_tell", fmt.Sprintf("no utilization is known to start; %.3f to %.3f cannot be excluded", w.PossibleLow, w.PossibleHigh))+" · "+where))
	default:
		b.WriteString(paragraph(s, "  ", s.verdict("does_not_fit", "no utilization works")+" · "+where))
	}
	if w.LowBytes <= w.HighBytes {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("in bytes of one card: %s to %s", bytesize.Format(w.LowBytes, bytesize.GiB), bytesize.Format(w.HighBytes, bytesize.GiB))))
	} else {
		b.WriteString(paragraph(s, "  ", fmt.Sprintf("in bytes of one card: surely enough from %s, surely not too much up to %s, so no value is sure", bytesize.Format(w.LowBytes, bytesize.GiB), bytesize.Format(w.HighBytes, bytesize.GiB))))
	}
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("at least %s, because %s", least(w), w.LowBecause)))
	b.WriteString(paragraph(s, "  ", fmt.Sprintf("at most %.3f, because %s", w.High, w.HighBecause)))
	b.WriteString(paragraph(s, "  ", turn(w)))
	if w.Low > w.High && len(w.Changes) == 0 {
		b.WriteString(paragraph(s, "  ", "none of the settings that were tried, each by itself, opens it: a shorter --max-model-len, fewer --max-num-seqs or --max-num-batched-tokens, --enforce-eager, --kv-cache-dtype fp8, more ranks"))
	}
	for _, c := range w.Changes {
		b.WriteString(paragraph(s, "    ", fmt.Sprintf("%s %s reopens it: %.3f to %.3f, with %s to spare", c.Change, c.Value, c.Low, c.High, bytesize.Format(c.SpareBytes, bytesize.GiB))))
	}
}

// least is the smallest share that is enough; in bytes where it is more than there
// can be.
func least(w *record.Window) string {
	switch {
	case w.Low <= 1:
		return fmt.Sprintf("%.3f (%.3f without any room for a request)", w.Low, w.Bare)
	case w.Bare <= 1:
		return fmt.Sprintf("%s, more than the whole card (%.3f of it without any room for a request)", bytesize.Format(w.LowBytes, bytesize.GiB), w.Bare)
	}
	return bytesize.Format(w.LowBytes, bytesize.GiB) + ", more than the whole card, and so it is without any room for a request"
}

// turn says which way the knob goes from where it stands.
func turn(w *record.Window) string {
	switch w.Direction {
	case "raise":
		return fmt.Sprintf("it stands at %g: raise it", w.Given)
	case "lower":
		return fmt.Sprintf("it stands at %g: lower it", w.Given)
	case "keep":
		return fmt.Sprintf("it stands at %g, within the window", w.Given)
	case "none":
		return fmt.Sprintf("it stands at %g, and no other share works either", w.Given)
	}
	return fmt.Sprintf("it stands at %g", w.Given)
}
