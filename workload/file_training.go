package workload

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"floodmark/dtype"
)

// precisionYAML is formats by name, or one text: the name of a layout.
type precisionYAML struct {
	Parameters   string `yaml:"parameters"`
	Gradients    string `yaml:"gradients"`
	MasterCopy   string `yaml:"master_copy"`
	FirstMoment  string `yaml:"first_moment"`
	SecondMoment string `yaml:"second_moment"`
	Compute      string `yaml:"compute"`
	Cache        string `yaml:"cache"`
	Layout       string `yaml:"layout"`
}

// UnmarshalYAML takes a text for the name of a layout.
func (p *precisionYAML) UnmarshalYAML(n ast.Node) error {
	if _, text := n.(*ast.StringNode); text {
		return yaml.NodeToValue(n, &p.Layout)
	}
	type plain precisionYAML // without this method
	return yaml.NodeToValue(n, (*plain)(p), yaml.Strict())
}

// precision reads the formats, and the format of an autocast that the layout's
// name includes. A format that is given beside a layout goes over it.
func (c *checker) precision(d precisionYAML, p *Precision) (autocast dtype.Format) {
	if d.Layout != "" {
		var err error
		if *p, autocast, err = ParseLayout(d.Layout); err != nil {
			c.wrong("precision", "%v", err)
		}
	}
	for _, f := range []struct {
		name, text string
		into       *dtype.Format
	}{{"parameters", d.Parameters, &p.Parameters}, {"compute", d.Compute, &p.Compute}, {"cache", d.Cache, &p.Cache}} {
		if f.text != "" {
			*f.into = c.format("precision."+f.name, f.text)
		}
	}
	for _, f := range []struct {
		name, text string
		into       *StateFormat
	}{
		{"gradients", d.Gradients, &p.Gradients}, {"master_copy", d.MasterCopy, &p.MasterCopy},
		{"first_moment", d.FirstMoment, &p.FirstMoment}, {"second_moment", d.SecondMoment, &p.SecondMoment},
	} {
		if f.text == "" {
			continue
		}
		s, ok := ParseStateFormat(f.text)
		if !ok {
			c.wrong("precision."+f.name, "is %q, expected fp32, bf16, fp16, 8bit or none", f.text)
		}
		if f.into == &p.Gradients && !s.fullWidth() || f.into == &p.MasterCopy && s.Blockwise {
			c.wrong("precision."+f.name, "is %q, which training does not keep: expected fp32, bf16 or fp16", f.text)
		}
		*f.into = s
	}
	return autocast
}

type trainingYAML struct {
	Optimizer      string          `yaml:"optimizer"`
	Implementation string          `yaml:"implementation"`
	Autocast       string          `yaml:"autocast"`
	ZeroGrad       string          `yaml:"zero_grad"`
	Checkpointing  string          `yaml:"checkpointing"`
	Reentrant      *bool           `yaml:"use_reentrant"`
	Attention      string          `yaml:"attention"`
	Packed         bool            `yaml:"packed"`
	Lengths        *lengthsYAML    `yaml:"lengths"`
	Loss           string          `yaml:"loss"`
	Objective      *objectiveYAML  `yaml:"objective"`
	Accumulation   whole           `yaml:"accumulation"`
	InBackward     bool            `yaml:"optimizer_in_backward"`
	KeepOutputs    bool            `yaml:"keep_outputs"`
	DropOutputs    bool            `yaml:"drop_outputs"`
	HostOptimizer  string          `yaml:"host_optimizer"`
	Tuning         *tuningYAML     `yaml:"adapter"`
	Frozen         *frozenYAML     `yaml:"frozen"`
	Evaluation     *evaluationYAML `yaml:"evaluation"`
	Save           *saveYAML       `yaml:"save"`
	Export         *copyYAML       `yaml:"export"`
	Resume         string          `yaml:"resume"`

	Sharding         *shardingYAML  `yaml:"sharding"`
	Schedule         *scheduleYAML  `yaml:"schedule"`
	SequenceParallel bool           `yaml:"sequence_parallel"`
	Recompute        *recomputeYAML `yaml:"recompute"`
	Megatron         *megatronYAML  `yaml:"megatron"`
}

type tuningYAML struct {
	Kind     string   `yaml:"kind"`
	Rank     whole    `yaml:"rank"`
	Targets  []string `yaml:"targets"`
	Saved    []string `yaml:"modules_to_save"`
	Format   string   `yaml:"format"`
	Base     string   `yaml:"base"`
	Prepared bool     `yaml:"prepared"`
	Dropout  bool     `yaml:"dropout"`

	Feedforward []string         `yaml:"feedforward_modules"`
	Options     map[string]whole `yaml:"options"`
}

type lengthsYAML struct {
	Of        []whole `yaml:"of"`
	Mean      whole   `yaml:"mean"`
	Deviation whole   `yaml:"deviation"`
	Shortest  whole   `yaml:"shortest"`
	Longest   whole   `yaml:"longest"`
	Longer    string  `yaml:"longer"`
	Sequences whole   `yaml:"sequences"`
}

type evaluationYAML struct {
	Batch             whole  `yaml:"batch"`
	Batches           whole  `yaml:"batches"`
	Context           whole  `yaml:"context"`
	KeepLogits        bool   `yaml:"keep_logits"`
	AccumulationSteps whole  `yaml:"accumulation_steps"`
	Logits            string `yaml:"logits"`
	Chunk             whole  `yaml:"chunk"`
	Labels            *bool  `yaml:"labels"`
}

type saveYAML struct {
	Copy   string `yaml:"copy"`
	On     string `yaml:"on"`
	States bool   `yaml:"states"`
}

type copyYAML struct {
	Copy string `yaml:"copy"`
}

// autocast is the format of torch.autocast.
func (c *checker) autocast(text string) dtype.Format {
	f := c.format("training.autocast", text)
	if f != dtype.Unknown && !Autocasts(f) {
		c.wrong("training.autocast", "is %q, expected bf16 or fp16: torch.autocast computes in no other format", text)
	}
	return f
}

// training checks what training adds.
func (c *checker) training(d trainingYAML) *Train {
	t := &Train{
		Autocast:      c.autocast(d.Autocast),
		Reset:         choose(c, "training.zero_grad", GradientReset(d.ZeroGrad), []GradientReset{SetToNone, SetToZero}),
		Accumulation:  c.atLeast("training.accumulation", d.Accumulation, 0),
		InBackward:    d.InBackward,
		KeepsOutputs:  d.KeepOutputs,
		DropsOutputs:  d.DropOutputs,
		HostOptimizer: choose(c, "training.host_optimizer", HostOptimizer(d.HostOptimizer), []HostOptimizer{HostStates, HostGradients}),
		Packed:        d.Packed,
		Reentrant:     d.Reentrant,
		Loss:          choose(c, "training.loss", Loss(d.Loss), []Loss{PlainLoss, ChunkedLoss, GatheredLoss}),
		Attention:     choose(c, "training.attention", d.Attention, []string{"sdpa", "eager", "flash_attention_2"}),
		Resume:        choose(c, "training.resume", ResumeFrom(d.Resume), []ResumeFrom{ResumeOnHost, ResumeOnDevice, ResumeWhole}),
	}
	if d.DropOutputs && !d.KeepOutputs {
		c.wrong("training.drop_outputs", "ends a name that the loop does not have; add keep_outputs: true")
	}
	var err error
	if d.Optimizer != "" {
		if t.Optimizer, err = ParseOptimizer(d.Optimizer, d.Implementation); err != nil {
			c.wrong("training.optimizer", "%v", err)
		}
	}
	if t.Checkpointing, err = ParseCheckpointing(d.Checkpointing); err != nil {
		c.wrong("training.checkpointing", "%v", err)
	}
	if l := d.Lengths; l != nil {
		t.Lengths = c.lengths(*l)
		if t.Packed {
			c.wrong("training.lengths", "say nothing of sequences that are packed up to the context")
		}
	}
	if a := d.Tuning; a != nil {
		t.Tuning = c.tuning(*a)
	}
	t.Frozen = c.frozen(d.Frozen)
	t.Objective = c.objective(d.Objective, t)
	if e := d.Evaluation; e != nil {
		t.Evaluation = &EvaluationLoop{
			Batch: c.atLeast("training.evaluation.batch", e.Batch, 0), Batches: c.atLeast("training.evaluation.batches", e.Batches, 0),
			Context: c.atLeast("training.evaluation.context", e.Context, 0), KeepLogits: e.KeepLogits,
			AccumulationSteps: c.atLeast("training.evaluation.accumulation_steps", e.AccumulationSteps, 0),
			Logits:            c.format("training.evaluation.logits", e.Logits),
			Chunk:             c.atLeast("training.evaluation.chunk", e.Chunk, 0),
			Unlabelled:        e.Labels != nil && !*e.Labels,
		}
	}
	if d.Save != nil {
		t.Save = &Save{Copy: c.format("training.save.copy", d.Save.Copy), States: d.Save.States}
		if d.Save.On != "" {
			if t.Save.On, t.Save.Offload, err = ParseSaveOn(d.Save.On); err != nil {
				c.wrong("training.save.on", "%v", err)
			}
		}
	}
	t.SequenceParallel = d.SequenceParallel
	if d.Sharding != nil {
		t.Sharding = c.sharding(*d.Sharding)
	}
	if d.Schedule != nil {
		t.Schedule = c.schedule(*d.Schedule)
	}
	if r := d.Recompute; r != nil {
		t.Recompute = &Recompute{
			Modules: r.Modules, Method: choose(c, "training.recompute.method", r.Method, []string{"uniform", "block"}),
			Layers: c.atLeast("training.recompute.layers", r.Layers, 0),
		}
	}
	if d.Megatron != nil {
		t.Megatron = c.megatron(*d.Megatron)
	}
	if d.Export != nil {
		t.Export = &ExportTo{Format: c.format("training.export.copy", d.Export.Copy)}
	}
	return t
}

// lengths checks how long the sequences are.
func (c *checker) lengths(d lengthsYAML) *Lengths {
	l := &Lengths{
		Mean: int64(d.Mean), Deviation: int64(d.Deviation), Shortest: int64(d.Shortest), Longest: int64(d.Longest), Sequences: int64(d.Sequences),
		Drops: choose(c, "training.lengths.longer", d.Longer, []string{"cut", "drop"}) == "drop",
	}
	for _, n := range d.Of {
		l.Of = append(l.Of, int64(n))
	}
	if err := l.Check(); err != nil {
		c.wrong("training.lengths", "%v", err)
	}
	return l
}

func (c *checker) tuning(d tuningYAML) *Tuning {
	t := &Tuning{
		Kind: d.Kind, Rank: int(c.atLeast("training.adapter.rank", d.Rank, 0)), Targets: d.Targets, Saved: d.Saved,
		Format: c.format("training.adapter.format", d.Format), Base: d.Base, Prepared: d.Prepared, Dropout: d.Dropout,
		Feedforward: d.Feedforward,
	}
	for name, n := range d.Options {
		if t.Options == nil {
			t.Options = map[string]int64{}
		}
		t.Options[name] = int64(n)
	}
	if err := t.Check(); err != nil {
		c.wrong("training.adapter", "%v", err)
	}
	return t
}

// upTo is a count of 0 or more; it is refused above the most.
func (c *checker) upTo(field string, n whole, most int64) int64 {
	if n < 0 || int64(n) > most {
		c.wrong(field, "is %d, expected 0 to %d", n, most)
	}
	return int64(n)
}

// atLeast is a count; it is refused below the least.
func (c *checker) atLeast(field string, n whole, least int64) int64 {
	if int64(n) < least {
		c.wrong(field, "is %d, expected %d or more", n, least)
	}
	return int64(n)
}
