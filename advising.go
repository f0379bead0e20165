package floodmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/advice"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate/llamacpp"
	"floodmark/fit"
	"floodmark/internal/sorting"
	"floodmark/model"
	"floodmark/record"
	"floodmark/solve"
	"floodmark/workload"
)

// Advise is what would make a prediction fit that does not, or of which nobody
// can tell: single switches of package advice, each estimated again as a whole,
// and where none suffices several at once.
// Nil where it fits, cannot run at all, or was not asked on a card.
func Advise(ctx context.Context, p *Prediction) (*record.Remedies, error) {
	v := p.Verdict
	if v == nil || v.Value == fit.Fits || v.Value == fit.NotRunnable || v.Phase == "" {
		return nil, nil
	}
	p, tried := p.trying()
	r := &record.Remedies{Rank: v.Rank, Phase: string(v.Phase), Term: string(v.Term)}
	defer func() { r.NotTried = tried.passed }()
	need := p.binding(p, p.Accounts()[bindingAccount(p)])
	if v.Value == fit.CannotTell {
		r.Reading = record.Text(reading(p))
		if !need.Known() || p.Request.Workload.Operation == workload.Load {
			return r, nil
		}
	}
	switches := slices.DeleteFunc(advice.Of(string(p.Request.Workload.Operation)), func(s advice.Switch) bool {
		return s.ID == recurrenceSetting && !recurs(p.Request.Model)
	})
	for _, s := range switches {
		reached, said, least := false, false, ""
		changes, err := p.changes(ctx, s.ID)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			option := p.option(s, c)
			if option.blind {
				reached = true // perhaps: nobody can say
				continue
			}
			if emptied(c) && option.Verdict.Value != string(fit.Fits) {
				least = "even with " + c.setting + " nobody can tell"
				if option.ShortBytes != nil {
					least = "even " + c.setting + " is short of " + bytesize.Format(*option.ShortBytes, bytesize.GiB)
				}
				continue
			}
			if option.helps(v.Value) {
				r.Options = append(r.Options, option.Option)
				reached = reached || option.ReachesTerm || moved(option.Option, v.Value) <= 0
				said = said || option.ReachesTerm || option.Verdict.Value == string(fit.Fits) || slices.Contains(s.Reaches, v.Term)
			}
		}
		switch {
		case len(changes) == 0 && len(s.Reaches) > 0: // nothing of it can be changed here
		case said: // its rows show what it does there
		case least != "":
			r.CannotReach = append(r.CannotReach, record.Useless{Setting: s.ID, Reason: least})
		case !s.Can(v.Term, v.Phase):
			r.CannotReach = append(r.CannotReach, record.Useless{Setting: s.ID, Reason: s.Why(v.Term, v.Phase)})
		case !reached:
			r.CannotReach = append(r.CannotReach, record.Useless{Setting: s.ID, Reason: "it moves nothing of it here"})
		}
	}
	better := worth(v.Value)
	sorting.By(r.Options, func(i, j int) int { return better(r.Options[i], r.Options[j]) })
	alone := slices.DeleteFunc(slices.Clone(r.Options), func(o record.Option) bool { return o.Verdict.Value != string(fit.Fits) })
	if len(alone) > 0 {
		switches = slices.DeleteFunc(switches, func(s advice.Switch) bool { return shortens(s.ID) })
	}
	if slices.ContainsFunc(alone, func(o record.Option) bool { return !shortens(o.Setting) }) {
		return r, nil
	}
	var err error
	r.Together, err = p.together(ctx, switches)
	return r, err
}

// shortens reports a setting that makes another task of it: where that alone
// suffices people still want to know what leaves the task as it is.
func shortens(setting string) bool {
	field, _, _ := strings.Cut(setting, "=")
	return field == string(workload.Context) || field == string(workload.Generated)
}

// emptied reports a length that was cut down to one position, which is no advice
// where it does not suffice.
func emptied(c changed) bool {
	return c.setting == string(workload.Context)+"=1" || c.setting == string(workload.Generated)+"=1"
}

// reading is what would have to be known to tell.
func reading(p *Prediction) string {
	v := p.Verdict
	switch missing := p.missing(); {
	case p.Request.Workload.Operation == workload.Load && p.declaresLengths():
		return "the operation that the lengths are for: the workload declares load, which runs nothing"
	case p.Request.Workload.Operation == workload.Load:
		return "what the model is to do (context, generated, sequences), which the workload does not say"
	case missing != "":
		return missing + ", which the workload does not say"
	}
	what := "what is not known well enough is " + string(v.Term)
	if w := p.Request.Workload; len(v.Reasons) > 0 && slices.Contains(slices.Concat(w.Assumed, w.Open), v.Reasons[0]) { // the bytes that are counted would fit
		what = "what is open is this: " + v.Reasons[0]
	}
	return fmt.Sprintf("what the process on rank %d holds at the peak of %s, read in a run of this workload: %s", v.Rank, v.Phase, what)
}

// declaresLengths reports a workload that says how long its inputs are.
func (p *Prediction) declaresLengths() bool {
	_, declared := p.Request.Workload.Dimension(workload.Context)
	return declared
}

// missing lists the dimensions that the workload does not give.
func (p *Prediction) missing() string {
	text := ""
	for i, d := range p.Request.Workload.Missing() {
		if i > 0 {
			text += ", "
		}
		text += string(d)
	}
	return text
}

// changed is one setting and the prediction with it.
type changed struct {
	setting string
	after   *Prediction
}

// option is what a change does on the rank that binds.
type option struct {
	record.Option
	low, high int64
	open      bool // nobody can say how much the high moves
	blind     bool // a term that was bounded is not with the change, so that a lower low says nothing
}

func (p *Prediction) option(s advice.Switch, c changed) option {
	v := p.Verdict
	i := bindingAccount(p)
	a, b := p.Accounts()[i], counterpart(p, c.after, i)
	o := option{Option: record.Option{Setting: c.setting, Cost: s.Cost, Check: record.Text(s.Check), Verdict: *verdictRecord(*c.after.Verdict)}}
	for _, row := range changedRows(a, b, v.Phase) {
		bounded := row.BeforeBytes != nil || row.BeforeHighBytes != nil
		o.blind = o.blind || bounded && row.AfterBytes == nil && row.AfterHighBytes == nil
		if row.Moves {
			o.Moves = append(o.Moves, row)
			o.ReachesTerm = o.ReachesTerm || row.Term == string(v.Term)
		}
	}
	before, after := p.binding(p, a), p.binding(c.after, b)
	o.low = before.Low() - after.Low()
	o.LowMovedBytes = &o.low
	most, known := before.High()
	then, also := after.High()
	if o.open = !known || !also; !o.open {
		o.high = most - then
		o.HighMovedBytes = &o.high
	}
	if c.after.Verdict.Value == fit.DoesNotFit {
		o.ShortBytes = &c.after.Verdict.Short
	}
	return o
}

// binding is what a prediction holds where this one's verdict binds: the process
// of a class of ranks, or what all ranks put into main memory.
func (p *Prediction) binding(of *Prediction, a account.Account) account.Figure {
	if p.onHost {
		need, _ := fit.HostNeed(of.accounts, p.Verdict.Phase)
		return need
	}
	return processIn(a, p.Verdict.Phase)
}

// moved is the bytes by which the end falls that stands in the way: the low of
// what does not fit, the high of what nobody can tell.
func moved(o record.Option, v fit.Value) int64 {
	if v == fit.CannotTell && o.HighMovedBytes != nil {
		return *o.HighMovedBytes
	}
	return *o.LowMovedBytes
}

// shown is the least that a change must move: less reads as 0.00 GiB.
const shown = 5 << 20

// helps reports a change that lowers what stands in the way and raises neither end, or
// that leads to a better answer all the same: an engine that fills its budget holds no
// less of it when it has to keep less.
func (o option) helps(v fit.Value) bool {
	then := gravity(fit.Value(o.Verdict.Value))
	raises := o.low <= -shown || !o.open && o.high <= -shown
	return then < gravity(v) || moved(o.Option, v) >= shown && !raises && then == gravity(v)
}

// worth puts first what makes it fit, with the least harm before what is worse, as
// switches are tried; then what nobody can exclude, then what moves most.
func worth(v fit.Value) func(a, b record.Option) int {
	return func(a, b record.Option) int {
		then := gravity(fit.Value(a.Verdict.Value))
		if c := cmp.Compare(then, gravity(fit.Value(b.Verdict.Value))); c != 0 || then == gravity(fit.Fits) {
			return c
		}
		return cmp.Compare(moved(b, v), moved(a, v))
	}
}

// changes estimates the settings of a switch that are worth a try. What the
// software cannot run is passed over.
func (p *Prediction) changes(ctx context.Context, field string) ([]changed, error) {
	d := workload.Dimension(field)
	switch {
	case d == TensorParallel || d == PipelineParallel:
		return p.fewestRanks(ctx, d)
	case slices.Contains(workload.Dimensions(), d):
		return p.largest(ctx, d)
	}
	var list []changed
	for _, value := range slices.Concat(p.values(field), p.trainingValues(field)) {
		c, err := p.tried(ctx, field, value)
		if err != nil {
			return nil, err
		}
		if c != nil {
			list = append(list, *c)
		}
	}
	return list, nil
}

// values is what a setting may be changed to.
func (p *Prediction) values(field string) []string {
	w := p.Request.Workload
	plain := p.Engine.Name() == "eager"
	_, scores := p.Engine.(llamacpp.Engine)
	narrow := "fp8"
	switch {
	case plain:
		narrow = "int8" // transformers' quantised caches hold whole numbers
	case scores:
		narrow = "q8_0"
	}
	switch {
	case field == weightsSetting && w.Training != nil && w.Operation != workload.Evaluation && w.Operation != workload.Export:
		// what is trained takes gradients, and of what is frozen base_format says it
	case field == weightsSetting && scores:
		return []string{"q8_0", "q4_k_m"}
	case field == weightsSetting:
		return []string{"int8", "int4"}
	case field == cacheFormatSetting && (w.Precision.Cache == dtype.Unknown || wide(w.Precision.Cache)):
		return []string{narrow}
	case field == cacheSetting && plain && w.Cache != workload.Offloaded:
		return []string{string(workload.Offloaded)}
	case field == attentionSetting && (plain || scores) && !slices.Contains(w.Features, workload.FlashAttention):
		return []string{"flash"}
	case field == recurrenceSetting && plain && !slices.Contains(w.Features, workload.RecurrentKernels):
		return []string{"kernels"}
	case field == maxLengthSetting && p.Engine.Name() == "vllm" && w.Serving == nil:
		context, _ := w.Dimension(workload.Context)
		generated, _ := w.Dimension(workload.Generated)
		declared := int64(p.Request.Model.MaxPosition) // which the engine assumes already, and takes no more
		if total, fits := bytesize.Add(context, generated); fits && total > 0 && (declared == 0 || total < declared) {
			return []string{strconv.FormatInt(total, 10)}
		}
	case field == engineSetting && plain:
		return []string{"serving"}
	}
	return nil
}

// recurs reports a model with layers that recur.
func recurs(m *model.Model) bool {
	for _, s := range m.Stacks {
		for _, l := range s.Layers {
			for _, x := range l.Mixers {
				switch x.(type) {
				case model.Mamba, model.GatedDelta:
					return true
				}
			}
		}
	}
	return false
}

// wide reports a format of more than 8 bits.
func wide(f dtype.Format) bool {
	n, ok := f.Size([]int64{1})
	return ok && n > 1
}

// tried is the prediction with one setting; nil where it cannot run.
func (p *Prediction) tried(ctx context.Context, field, value string) (*changed, error) {
	request, err := p.Request.set(field, value)
	if err != nil {
		return nil, ctx.Err()
	}
	setting := field + "=" + value
	after, err := request.tried(ctx, setting)
	if after == nil || err != nil {
		return nil, err
	}
	return &changed{setting, after}, nil
}

// fewestRanks is the least degree above the present one that fits, else the least
// that nobody can exclude, else the largest that runs.
func (p *Prediction) fewestRanks(ctx context.Context, field workload.Dimension) ([]changed, error) {
	now := int(value(field, p.Request.Workload.Mesh))
	var best *changed
	for n := 2 * max(1, now); n <= mostRanks; n *= 2 {
		c, err := p.tried(ctx, string(field), strconv.Itoa(n))
		switch {
		case err != nil:
			return nil, err
		case c == nil:
		case best == nil || gravity(c.after.Verdict.Value) < gravity(best.after.Verdict.Value) || best.after.Verdict.Value == fit.DoesNotFit:
			best = c
		}
		if best != nil && best.after.Verdict.Value == fit.Fits {
			break
		}
	}
	return found(best), nil
}

func found(c *changed) []changed {
	if c == nil {
		return nil
	}
	return []changed{*c}
}

// largest is the largest value below the declared one that fits, or else the
// largest that nobody can exclude, or else the least.
func (p *Prediction) largest(ctx context.Context, field workload.Dimension) ([]changed, error) {
	declared, _ := p.Request.Workload.Dimension(field)
	if declared < 2 {
		return nil, nil
	}
	judge := func(ctx context.Context, n int64) (fit.Verdict, error) {
		c, err := p.tried(ctx, string(field), strconv.FormatInt(n, 10))
		switch {
		case err != nil:
			return fit.Verdict{}, err
		case c == nil:
			return fit.Verdict{}, errNotRunnable
		}
		return *c.after.Verdict, nil
	}
	s, err := solve.Largest(ctx, 1, declared-1, judge)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	n := int64(1)
	switch {
	case err != nil: // an estimate that goes back and forth everywhere names no largest value
	case s.Value > 0:
		n = s.Value
	case s.Open > 0 && p.Verdict.Value == fit.DoesNotFit:
		n = s.Open
	}
	c, err := p.tried(ctx, string(field), strconv.FormatInt(n, 10))
	return found(c), err
}

// errNotRunnable is a value with which the software does not run.
var errNotRunnable = errors.New("it does not run")
