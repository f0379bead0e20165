package report

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// capacity is what an engine that fills its budget can hold: blocks, tokens, and
// sequences of one length; and whether it starts.
func capacity(b *strings.Builder, e *record.Estimate, s Style) {
	if c := e.Capacity; c != nil {
		line := "the cache holds " + howMany(c.Blocks, c.BlocksLow, c.BlocksHigh) + " blocks, " + howMany(c.Tokens, c.TokensLow, c.TokensHigh) + " tokens as the engine counts them"
		if c.Length != nil {
			line += ", and together " + howMany(c.SequencesAtLength, c.SequencesLow, c.SequencesHigh) + " sequences of " + bytesize.Group(*c.Length) + " positions"
		}
		if c.BytesPerToken != nil {
			line += fmt.Sprintf("; %s bytes a position on this rank", bytesize.Group(*c.BytesPerToken))
		}
		if c.FixedBytesPerSequence != nil && *c.FixedBytesPerSequence > 0 {
			line += fmt.Sprintf(", and blocks of %s bytes whatever the length", bytesize.Group(*c.FixedBytesPerSequence))
		}
		b.WriteString("\n" + paragraph(s, "", line))
	}
	if v := e.Starts; v != nil && e.Verdict != nil && v.Value != e.Verdict.Value {
		b.WriteString("\n" + paragraph(s, "", "it starts: "+strings.ReplaceAll(v.Value, "_", " ")+reasonOf(*v)+"; what it is to do then:"))
	}
}

func reasonOf(v record.Verdict) string {
	if len(v.Reasons) == 0 {
		return ""
	}
	return " (" + v.Reasons[0] + ")"
}

// howMany is a number of things, or between two.
func howMany(exact, low, high *int64) string {
	switch {
	case exact != nil:
		return bytesize.Group(*exact)
	case low != nil && high != nil:
		return bytesize.Group(*low) + " to " + bytesize.Group(*high)
	case low != nil && *low > 0:
		return "at least " + bytesize.Group(*low)
	}
	return "—"
}
