package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"floodmark/workload"
)

// shardingOptions are the flags that say how ranks divide what training keeps,
// and the work.
type shardingOptions struct {
	kind, reduce, group, offload, schedule, saveOn string
	keeps, sequence                                bool
}

func (o *shardingOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.kind, "sharding", "how data-parallel ranks divide what training keeps: a `kind` of "+shardingKinds())
	textFlag(f, &o.group, "shard-group", "`ranks` that share one copy, where groups of them replicate each other (default: all)")
	textFlag(f, &o.reduce, "reduce-format", "the `format` in which gradients are reduced")
	textFlag(f, &o.offload, "offload", "`states` that live in main memory, with commas between: "+strings.Join(workload.OffloadNames(), ", "))
	textFlag(f, &o.schedule, "schedule", "`order` of a pipeline's stages: gpipe, 1f1b, or interleaved with the pieces of each stage (interleaved:2)")
	f.BoolVar(&o.keeps, "keeps-gathered", false, "gathered parameters stay from forward to backward (reshard_after_forward=False)")
	f.BoolVar(&o.sequence, "sequence-parallel", false, "tensor-parallel ranks divide the positions of what each would hold whole")
	textFlag(f, &o.saveOn, "save-on", "`ranks` on which a full copy is gathered when it is saved: all or rank0, with :host in main memory; parts for none")
}

func shardingKinds() string {
	var kinds []string
	for _, k := range workload.ShardingKinds() {
		kinds = append(kinds, string(k))
	}
	return strings.Join(kinds, ", ")
}

// given reports whether one of the flags was.
func (o *shardingOptions) given(f *pflag.FlagSet) bool {
	return slices.ContainsFunc([]string{"sharding", "shard-group", "reduce-format", "offload", "schedule", "keeps-gathered", "sequence-parallel", "save-on"}, f.Changed)
}

// apply puts the flags over a workload.
func (o *shardingOptions) apply(_ *workload.Workload, t *workload.Train) error {
	t.SequenceParallel = t.SequenceParallel || o.sequence
	if o.schedule != "" {
		var err error
		if t.Schedule, err = workload.ParseSchedule(strings.Replace(o.schedule, ":", " ", 1)); err != nil {
			return &usageError{err: fmt.Errorf("--schedule %w", err)}
		}
	}
	if o.saveOn != "" {
		save := workload.Save{}
		if t.Save != nil {
			save = *t.Save
		}
		var err error
		if save.On, save.Offload, err = workload.ParseSaveOn(o.saveOn); err != nil {
			return &usageError{err: fmt.Errorf("--save-on %w", err)}
		}
		t.Save = &save
	}
	if o.kind+o.group+o.reduce+o.offload == "" && !o.keeps {
		return nil
	}
	return o.divide(t)
}

// divide applies what is of the sharding itself.
func (o *shardingOptions) divide(t *workload.Train) error {
	s := workload.Sharding{Kind: workload.DDP}
	if t.Sharding != nil {
		s = *t.Sharding
	}
	t.Sharding = &s
	var err error
	if o.kind != "" {
		if s.Kind, err = workload.ParseSharding(o.kind); err != nil {
			return &usageError{err: fmt.Errorf("--sharding %w", err)}
		}
	}
	if err := counted("--shard-group", o.group, &s.Group); err != nil {
		return err
	}
	if err := element("--reduce-format", o.reduce, &s.ReduceFormat); err != nil {
		return err
	}
	s.KeepsGathered = s.KeepsGathered || o.keeps
	if o.offload != "" {
		s.Offload = nil
		for _, name := range strings.Split(o.offload, ",") {
			state := workload.OffloadedState(name)
			if !slices.Contains(workload.OffloadedStates(), state) {
				return &usageError{err: fmt.Errorf("--offload: %q is not one of %s", name, strings.Join(workload.OffloadNames(), ", "))}
			}
			s.Offload = append(s.Offload, state)
		}
	}
	if err := s.Check(); err != nil {
		return &usageError{err: fmt.Errorf("--sharding %w", err)}
	}
	return nil
}
