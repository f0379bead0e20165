package floodmark

import (
	"context"
	"slices"
	"strings"
)

// mostEvents is how many births and deaths of allocations the estimates of one advice
// may make, that of the job itself included; the one that passes it is the last.
// Worked number: a step of a 3B model on one card makes 35,000, and its advice, of 50
// estimates, half of it.
const mostEvents = 4_000_000

// trials are the predictions of one advice, so that none is made twice, and how many
// events are left to it.
type trials struct {
	made   map[string]*Prediction // by the settings that led there; nil where it cannot run
	left   int
	passed []string // the settings of which values were not tried any more
}

// trying is the prediction as that from which an advice tries settings.
func (p *Prediction) trying() (*Prediction, *trials) {
	from := *p
	from.Request.trials = &trials{made: map[string]*Prediction{}, left: mostEvents - p.events}
	return &from, from.Request.trials
}

// tried is the prediction of a request that was changed by these settings; nil where it
// cannot run, or where the advice has had its events.
func (r Request) tried(ctx context.Context, settings string) (*Prediction, error) {
	t := r.trials
	r.changes += " " + settings
	after, made := t.made[r.changes]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case made:
		return after, nil
	case t.left <= 0:
		t.pass(settings)
		return nil, nil
	}
	after, err := Estimate(ctx, r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		t.left -= after.events
	}
	t.made[r.changes] = after
	return after, nil
}

// pass notes settings that are not tried.
func (t *trials) pass(settings string) {
	for _, setting := range separate(settings) {
		if field, _, _ := strings.Cut(setting, "="); !slices.Contains(t.passed, field) {
			t.passed = append(t.passed, field)
		}
	}
}
