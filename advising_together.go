package floodmark

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"floodmark/advice"
	"floodmark/fit"
	"floodmark/record"
	"floodmark/workload"
)

// chosen is a switch of a combination and how it is set.
type chosen struct {
	advice.Switch
	setting string
}

// together is what makes a prediction fit where no switch does alone: each is
// tried on what those before it left, what does least harm first, until it fits.
// Then each that the others do without is left out, what does most harm first,
// and each that stays is set no further than it must be. Nil where all of them
// together do not suffice.
func (p *Prediction) together(ctx context.Context, switches []advice.Switch) (*record.Combination, error) {
	list, err := p.enough(ctx, switches)
	if list == nil || err != nil {
		return nil, err
	}
	for i := len(list) - 1; i >= 0 && len(list) > 1; i-- {
		rest := slices.Delete(slices.Clone(list), i, i+1)
		if q, err := p.with(ctx, rest); err != nil {
			return nil, err
		} else if q != nil && q.Verdict.Value == fit.Fits {
			list = rest
		}
	}
	for i, c := range list {
		if list[i].setting, err = p.eased(ctx, slices.Delete(slices.Clone(list), i, i+1), c); err != nil {
			return nil, err
		}
	}
	after, err := p.with(ctx, list)
	if after == nil || after.Verdict.Value != fit.Fits {
		return nil, err
	}
	return p.combination(list, after), nil
}

// enough is the switches that together make it fit; nil where all of them do not.
func (p *Prediction) enough(ctx context.Context, switches []advice.Switch) ([]chosen, error) {
	var list []chosen
	for q := p; q.Verdict.Value != fit.Fits; {
		if len(switches) == 0 {
			return nil, nil
		}
		s := switches[0]
		switches = switches[1:]
		changes, err := q.furthest(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if c.after.lacks().below(q.lacks()) {
				if last := len(list) - 1; last >= 0 && list[last].ID == s.ID {
					list = list[:last]
				}
				list, q = append(list, chosen{s, c.setting}), c.after
			}
		}
	}
	return list, nil
}

// furthest is the settings of a switch that lower most: of a dimension the least.
func (p *Prediction) furthest(ctx context.Context, field string) ([]changed, error) {
	d := workload.Dimension(field)
	if !slices.Contains(workload.Dimensions(), d) {
		return p.changes(ctx, field)
	}
	if declared, has := p.Request.Workload.Dimension(d); !has || declared < 2 {
		return nil, nil
	}
	c, err := p.tried(ctx, field, "1")
	return found(c), err
}

// eased is the first setting of a switch with which it fits beside the others.
func (p *Prediction) eased(ctx context.Context, others []chosen, c chosen) (string, error) {
	base, err := p.with(ctx, others)
	if base == nil || err != nil {
		return c.setting, err
	}
	changes, err := base.changes(ctx, c.ID)
	for _, easier := range changes {
		if easier.after.Verdict.Value == fit.Fits {
			return easier.setting, err
		}
	}
	return c.setting, err
}

// with is the prediction with several settings; nil where it cannot run.
func (p *Prediction) with(ctx context.Context, list []chosen) (*Prediction, error) {
	request, err := p.Request, error(nil)
	var settings []string
	for _, c := range list {
		settings = append(settings, c.setting)
		field, value, _ := strings.Cut(c.setting, "=")
		if request, err = request.set(field, value); err != nil {
			return nil, nil
		}
	}
	return request.tried(ctx, strings.Join(settings, "+"))
}

// lacking is how far a prediction is from fitting.
type lacking struct {
	gravity int
	bytes   int64
}

func (p *Prediction) lacks() lacking {
	v := p.Verdict
	l := lacking{gravity(v.Value), v.Short}
	if v.Value == fit.CannotTell {
		l.bytes = math.MaxInt64
		if v.Headroom.Known() {
			l.bytes = -v.Headroom.Low()
		}
	}
	return l
}

func (l lacking) below(than lacking) bool {
	return l.gravity < than.gravity || l.gravity == than.gravity && l.bytes < than.bytes
}

// combination is the record of it.
func (p *Prediction) combination(list []chosen, after *Prediction) *record.Combination {
	r := &record.Combination{Verdict: *verdictRecord(*after.Verdict)}
	for _, c := range list {
		if emptied(changed{setting: c.setting}) {
			return nil // one position is no advice
		}
		r.Parts = append(r.Parts, record.Joined{Setting: c.setting, Cost: c.Cost, Check: record.Text(c.Check)})
	}
	o := p.option(advice.Switch{}, changed{after: after})
	r.Moves, r.LowMovedBytes, r.HighMovedBytes = o.Moves, o.LowMovedBytes, o.HighMovedBytes
	return r
}

// separate splits the settings of one change, joined by plus signs; a plus sign
// before what is no setting belongs to a value.
func separate(settings string) []string {
	var list []string
	for _, part := range strings.Split(settings, "+") {
		if last := len(list) - 1; last >= 0 && !strings.Contains(part, "=") {
			list[last] += "+" + part
			continue
		}
		list = append(list, part)
	}
	return list
}

// setAll is the request with several settings, joined by plus signs.
func (r Request) setAll(settings string) (Request, error) {
	refused := error(nil)
	changed := map[string]bool{}
	for _, setting := range separate(settings) {
		field, value, ok := strings.Cut(setting, "=")
		if changed[field] {
			return r, &SettingsError{fmt.Errorf("%s stands twice in %q: a setting is changed once", field, settings)}
		}
		changed[field] = true
		if !ok || !changeable(field) {
			return r, &SettingsError{fmt.Errorf("%q is no change that can be tried: %s", setting, hintSettings)}
		}
		if r, refused = r.set(field, value); refused != nil {
			return r, refused
		}
	}
	return r, nil
}
