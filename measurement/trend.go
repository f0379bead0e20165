package measurement

import (
	"math"
	"slices"
	"strings"

	"floodmark/account"
)

// TrendKind says what memory follows over the passes of a phase.
type TrendKind string

const (
	// Kept is bytes that stay after each pass, so that the next begins higher.
	Kept TrendKind = "kept"
	// FollowsInput is a peak that rises and falls with the tokens of its pass.
	FollowsInput TrendKind = "follows_input"
	// FollowsLongest is a peak that stands as high as the longest input so far asks,
	// as what the allocator reserves does.
	FollowsLongest TrendKind = "follows_longest"
)

// Trend is a straight line through the passes of one phase. It is fitted, and says
// nothing about what was not run but by that line.
type Trend struct {
	Kind         TrendKind
	Phase        Phase // the first pass; its name, rank and device
	Scope        account.Scope
	Passes       int
	Slope        float64 // bytes a pass, or a token where PerToken
	PerToken     bool
	Intercept    float64 // bytes without a pass or token
	Fit          float64 // R²: 1 where every pass is on the line
	TokensOfPass int64   // of every pass where they are equal; 0 where they are not, or nobody knows
	// Failed is the pass that failed after these, where one did, and Longest the most
	// tokens of any before it; both 0 where nobody knows.
	Failed, Longest int64
}

const (
	// fewestPasses is how many passes make a line: through two anything is straight.
	fewestPasses = 4
	// mostTokens is more than any pass is given; above it nothing is counted by the
	// token.
	mostTokens = 1 << 40
	// straight is the least R² of what is called a line.
	straight = 0.99
)

// Trends finds what memory follows over the passes of each phase on each device.
func (m *Measurement) Trends() []Trend {
	var list []Trend
	for _, series := range m.series() {
		list = append(list, trendsOf(series)...)
	}
	return list
}

// series are the passes of one phase in their order: within an enclosing phase,
// such as the forward passes of an evaluation, or of the run.
func (m *Measurement) series() [][]Phase {
	type key struct {
		name                  string
		process, device, open int
	}
	var order []key
	passes := map[key][]Phase{}
	enclosing := -1
	for i, p := range m.Phases {
		if !p.Nested {
			enclosing = i
		}
		if p.Device < 0 || p.Name == WholeProcess {
			continue
		}
		k := key{p.Name, p.Process, p.Device, -1}
		if p.Nested {
			k.open = enclosing
		}
		if _, known := passes[k]; !known {
			order = append(order, k)
		}
		passes[k] = append(passes[k], p)
	}
	var list [][]Phase
	for _, k := range order {
		list = append(list, passes[k])
	}
	return list
}

// trendsOf are the lines through one series: bytes that are kept where there are
// such, else what its peaks follow.
func trendsOf(series []Phase) []Trend {
	end := slices.IndexFunc(series, func(p Phase) bool { return p.Status != Completed })
	if end < 0 {
		end = len(series)
	}
	done := series[:end]
	if len(done) < fewestPasses {
		return nil
	}
	failed := int64(0)
	if end < len(series) {
		failed = tokens(series[end])
	}
	var lengths []int64
	for _, p := range done {
		lengths = append(lengths, tokens(p))
	}
	base := Trend{Phase: done[0], Passes: len(done), Failed: failed, Longest: slices.Max(lengths)}
	if slices.Min(lengths) == slices.Max(lengths) {
		base.TokensOfPass = lengths[0]
	}
	if t, found := kept(base, done, lengths); found {
		return []Trend{t}
	}
	return append(following(base, done, lengths, account.Allocated), following(base, done, lengths, account.Reserved)...)
}

// kept is the line of the levels at which passes begin, over what went before.
func kept(t Trend, done []Phase, lengths []int64) (Trend, bool) {
	var before, starts []float64
	sum := 0.0
	perToken := slices.Min(lengths) > 0 && t.TokensOfPass == 0
	for i, p := range done {
		if p.Start.Allocated == nil {
			return t, false
		}
		before, starts = append(before, sum), append(starts, float64(*p.Start.Allocated))
		if sum++; perToken {
			sum += float64(lengths[i]) - 1
		}
	}
	t.Kind, t.Scope, t.PerToken = Kept, account.Allocated, perToken
	t.Slope, t.Intercept, t.Fit = leastSquares(before, starts)
	return t, t.Slope > 0 && t.Fit >= straight
}

// following is the line of a peak over the tokens of its pass, or where that is
// straighter over the longest so far.
func following(t Trend, done []Phase, lengths []int64, scope account.Scope) []Trend {
	if slices.Min(lengths) == 0 || t.TokensOfPass != 0 {
		return nil
	}
	var own, longest, peaks []float64
	most := int64(0)
	for i, p := range done {
		peak := p.Peak.Allocated
		if scope == account.Reserved {
			peak = p.Peak.Reserved
		}
		if peak == nil {
			return nil
		}
		most = max(most, lengths[i])
		own, longest, peaks = append(own, float64(lengths[i])), append(longest, float64(most)), append(peaks, float64(*peak))
	}
	t.Scope, t.PerToken = scope, true
	var best []Trend
	for kind, xs := range map[TrendKind][]float64{FollowsInput: own, FollowsLongest: longest} {
		t.Kind = kind
		t.Slope, t.Intercept, t.Fit = leastSquares(xs, peaks)
		if t.Slope > 0 && t.Fit >= straight && (len(best) == 0 || t.Fit > best[0].Fit || t.Fit == best[0].Fit && kind == FollowsInput) {
			best = []Trend{t}
		}
	}
	return best
}

// leastSquares is the line of least squares and its R². Points without any spread are on no
// line.
func leastSquares(xs, ys []float64) (slope, intercept, fit float64) {
	n := float64(len(xs))
	var mx, my float64
	for i := range xs {
		mx, my = mx+xs[i]/n, my+ys[i]/n
	}
	var xx, xy, yy float64
	for i := range xs {
		dx, dy := xs[i]-mx, ys[i]-my
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	if xx == 0 || yy == 0 {
		return 0, my, 0
	}
	slope = xy / xx
	return slope, my - slope*mx, min(1, xy*xy/(xx*yy))
}

// tokens is how many tokens a pass was given, as they were processed; 0 where
// nobody knows.
func tokens(p Phase) int64 {
	for _, s := range p.Shapes {
		if strings.HasSuffix(s.Name, "input_ids") && len(s.Shape) > 0 {
			n := int64(1)
			for _, d := range s.Shape[:min(2, len(s.Shape))] {
				if d < 0 || d > math.MaxInt32 {
					return 0
				}
				n *= d
			}
			return n
		}
	}
	if p.Input == nil {
		return 0
	}
	for _, dimensions := range []map[string]int64{p.Input.Observed, p.Input.Configured} {
		if n := dimensions["tokens"]; n > 0 {
			return n
		}
		if b, c := dimensions["batch"], dimensions["context"]; b > 0 && c > 0 && b < math.MaxInt32 && c < math.MaxInt32 {
			return b * c
		}
	}
	return 0
}

// Row is how many numbers of so many bytes each token keeps, where the slope is a
// whole number of them: of logits it is the vocabulary.
func (t Trend) Row(width int64) (int64, bool) {
	n := t.TokensOfPass
	if t.PerToken {
		n = 1
	}
	if t.Kind != Kept || n <= 0 || n > mostTokens {
		return 0, false
	}
	each := math.Round(t.Slope)
	if math.Abs(t.Slope-each) > float64(n)*0.5 || int64(each)%(n*width) != 0 {
		return 0, false
	}
	return int64(each) / (n * width), true
}
