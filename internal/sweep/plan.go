package sweep

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"floodmark/internal/sorting"
)

// Plan is what is varied, and under which conditions. Two sweeps with equal plans
// may be read as one; no others.
type Plan struct {
	Dimension string  `json:"dimension"`
	Values    []int64 `json:"values"` // in the order in which they are run; empty for a limit
	Limit     *Limit  `json:"limit"`  // null for a list of values
	Order     Order   `json:"order"`
	// Command is what is run, with {dimension} where the value goes; empty for
	// the lab network, whose flags are in Lab.
	Command []string `json:"command"`
	Lab     []string `json:"lab"`
	// Directory is where the command runs, from wherever the sweep goes on; empty
	// where that was not written down.
	Directory string `json:"directory"`
	// Policy is what was asked about warm-up, repeats and the like, as the
	// measurement records it.
	Policy map[string]string `json:"policy"`
	// Lengths says how values were drawn from a list of lengths; empty otherwise.
	Lengths string `json:"lengths"`
	// On is the cluster whose tasks the values are, and Submit the options of its
	// queue; empty for the machine that began it. A sweep goes on where it began:
	// elsewhere it would run what is still queued.
	On     string   `json:"on,omitempty"`
	Submit []string `json:"submit,omitempty"`
}

// Limit asks for the largest value that passes: low, low + step, … up to high,
// which is asked even where the steps miss it.
type Limit struct {
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	Step int64 `json:"step"`
}

// Order is the order in which values are run, which is a condition of the result.
type Order string

const (
	Given      Order = "given"
	Ascending  Order = "ascending"
	Descending Order = "descending" // the worst first: what will fail fails at once
	Bisection  Order = "bisection"  // of a limit
)

// MaxPoints bounds a sweep: a process each.
const MaxPoints = 10000

// Prepared checks a plan and puts its values into their order.
func (p Plan) Prepared() (Plan, error) {
	switch {
	case p.Dimension == "":
		return p, errors.New("a sweep varies one dimension, and none is named")
	case len(p.Dimension) > 64 || !reDimension.MatchString(p.Dimension):
		return p, fmt.Errorf("the dimension %.80q is no name: letters, digits, -, _ and . in at most 64 bytes", p.Dimension)
	}
	if p.Limit != nil {
		p.Order = Bisection
		return p, p.Limit.check()
	}
	p.Order = cmp.Or(p.Order, Given)
	p.Values = slices.Clone(p.Values)
	switch p.Order {
	case Given:
	case Ascending:
		sorting.By(p.Values, func(i, j int) int { return cmp.Compare(p.Values[i], p.Values[j]) })
	case Descending:
		sorting.By(p.Values, func(i, j int) int { return cmp.Compare(p.Values[j], p.Values[i]) })
	default:
		return p, fmt.Errorf("the order %q is not known; known are %s, %s and %s", p.Order, Given, Ascending, Descending)
	}
	return p, checkValues(p.Dimension, p.Values)
}

func checkValues(dimension string, values []int64) error {
	switch {
	case len(values) == 0:
		return fmt.Errorf("no value of %s to run", dimension)
	case len(values) > MaxPoints:
		return fmt.Errorf("%d values of %s, of which each is a process of its own: at most %d", len(values), dimension, MaxPoints)
	}
	seen := map[int64]bool{}
	for _, v := range values {
		switch {
		case v < 1:
			return fmt.Errorf("%s = %d: a value is at least 1", dimension, v)
		case seen[v]:
			return fmt.Errorf("%s = %d stands there twice; repeats are the measurement's own", dimension, v)
		}
		seen[v] = true
	}
	return nil
}

func (l Limit) check() error {
	switch {
	case l.Low < 1:
		return fmt.Errorf("the search begins at %d: a value is at least 1", l.Low)
	case l.High < l.Low:
		return fmt.Errorf("the search ends at %d, below its beginning %d", l.High, l.Low)
	case l.Step < 1:
		return fmt.Errorf("a step of %d leads nowhere: it is at least 1", l.Step)
	}
	return nil
}

// steps is the number of steps from low to high, the last of which may be short.
func (l Limit) steps() int64 {
	n := (l.High - l.Low) / l.Step
	if (l.High-l.Low)%l.Step != 0 {
		n++
	}
	return n
}

// at is the value after that many steps.
func (l Limit) at(step int64) int64 {
	if step >= l.steps() {
		return l.High
	}
	return l.Low + step*l.Step
}

// MaxRuns is the most runs that the search takes: ⌈log2(steps)⌉ and both ends.
// For 1024 to 131072 by 1024 these are 127 steps and 9 runs.
func (l Limit) MaxRuns() int {
	runs := 2
	if steps := l.steps(); steps > 1 {
		runs += bits.Len64(uint64(steps - 1))
	}
	return runs
}

// reDimension is what can stand in the name of a file and of a job.
var reDimension = regexp.MustCompile(`^[\pL\pN_][\pL\pN_.-]*$`)

// asks reports whether the plan ever runs a value.
func (p Plan) asks(value int64) bool {
	if p.Limit != nil {
		return value >= p.Limit.Low && value <= p.Limit.High
	}
	return slices.Contains(p.Values, value)
}

// Placeholder is how a command names the value of a dimension.
func Placeholder(dimension string) string { return "{" + dimension + "}" }

// With is the command for one value. A command without the placeholder would run
// the same thing each time.
func With(command []string, dimension string, value int64) ([]string, error) {
	with := make([]string, len(command))
	found := false
	for i, arg := range command {
		found = found || strings.Contains(arg, Placeholder(dimension))
		with[i] = strings.ReplaceAll(arg, Placeholder(dimension), fmt.Sprint(value))
	}
	if !found {
		return nil, fmt.Errorf("the command has no %s where the value would go", Placeholder(dimension))
	}
	return with, nil
}
