package floodmark

import (
	"fmt"
	"math"
	"strconv"

	"floodmark/bytesize"
	"floodmark/measurement"
	"floodmark/record"
)

// trendRecords is what the memory of a run follows, as a record says it.
func trendRecords(m *measurement.Measurement) []record.Trend {
	var list []record.Trend
	for _, t := range m.Trends() {
		r := record.Trend{Kind: string(t.Kind), Phase: t.Phase.Name, Rank: known(t.Phase.Rank), Device: known(t.Phase.Device), Scope: string(t.Scope),
			Passes: t.Passes, Per: "pass", Slope: t.Slope, Intercept: t.Intercept, Fit: t.Fit, FailedTokens: positive(t.Failed), LongestTokens: positive(t.Longest)}
		if t.PerToken {
			r.Per = "token"
		}
		if n, whole := t.Row(4); whole {
			r.RowElements = &n
		}
		r.Text = trendText(t)
		list = append(list, r)
	}
	return list
}

// trendText says what a line means, and what it does not.
func trendText(t measurement.Trend) string {
	name := spacedTerm(t.Phase.Name)
	passes := fmt.Sprintf("over %d passes, on a straight line (R² %s)", t.Passes, strconv.FormatFloat(math.Floor(t.Fit*1000)/1000, 'f', -1, 64))
	if t.Kind == measurement.Kept {
		return keptText(t, name, passes)
	}
	follows := "the tokens of its pass"
	if t.Kind == measurement.FollowsLongest {
		follows = "the longest input so far"
	}
	text := fmt.Sprintf("the %s peak of %s follows %s: %s a token %s; it begins as low as before, so nothing is kept, and this is no leak", t.Scope, name, follows, bytesText(t.Slope), passes)
	if t.Failed > 0 {
		text += fmt.Sprintf("; the pass that failed had %s tokens, and the longest before it %s: by the line, which nothing proves beyond what ran, it would take %s",
			bytesize.Group(t.Failed), bytesize.Group(t.Longest), sizeText(int64(t.Intercept+t.Slope*float64(t.Failed))))
	}
	return text
}

func keptText(t measurement.Trend, name, passes string) string {
	per := "pass"
	if t.PerToken {
		per = "token"
	}
	text := fmt.Sprintf("each pass of %s begins higher, by %s a %s %s: something is kept of each, which no cache is and no empty_cache frees", name, bytesText(t.Slope), per, passes)
	n, whole := t.Row(4)
	switch {
	case whole && t.PerToken:
		text += fmt.Sprintf("; it is %s numbers of 32 bits, or %s of 16, of each token: the logits of a vocabulary of that size are as many", bytesize.Group(n), bytesize.Group(2*n))
	case whole:
		text += fmt.Sprintf("; with %s tokens in a pass it is %s numbers of 32 bits, or %s of 16, of each token: the logits of a vocabulary of that size are as many", bytesize.Group(t.TokensOfPass), bytesize.Group(n), bytesize.Group(2*n))
	}
	return text
}

// bytesText is a slope: whole bytes, and what they are in a larger unit.
func bytesText(slope float64) string {
	n := int64(math.Round(slope))
	text := bytesize.Group(n) + " B"
	if n >= 10_000_000 {
		text += " (" + sizeText(n) + ")"
	}
	return text
}
