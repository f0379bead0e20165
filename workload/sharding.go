package workload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/dtype"
)

// Sharding is how data-parallel ranks divide what training keeps, as the software
// that does it was told. A count of 0 is that software's default; a bucket of it, or what
// its third stage gathers, keeps and holds, is -1 where it was told 0.
type Sharding struct {
	Kind ShardingKind
	// Group is how many ranks share one copy: fewer than the data-parallel ranks
	// where groups of them replicate each other (HSDP, MiCS); 0 for all.
	Group int64
	// Secondary is how many ranks share the second copy of the parameters that
	// DeepSpeed's third stage keeps from forward to backward beside the part of all
	// ranks (zero_hpz_partition_size of ZeRO++); 0 and 1 for no such copy.
	Secondary int64
	// ReduceFormat is the format in which gradients are reduced; Unknown for the
	// software's default.
	ReduceFormat dtype.Format
	// BucketBytes is what DDP gathers before it reduces. DeepSpeed and Megatron
	// count elements: ReduceBucket and GatherBucket.
	BucketBytes                int64
	ReduceBucket, GatherBucket int64
	// BucketView says that gradients are views into their buckets; nil for the
	// default.
	BucketView *bool
	// KeepsGathered says that gathered parameters stay from forward to backward
	// (reshard_after_forward=False, SHARD_GRAD_OP).
	KeepsGathered bool
	// ReshardsOver is how many ranks have a part each of gathered parameters from
	// forward to backward, where those are fewer than share one copy
	// (reshard_after_forward of FSDP2 with a number); 0 for none.
	ReshardsOver int64
	// Prefetch, Persistence and MostLive are elements that DeepSpeed's third stage
	// gathers ahead, never divides, and holds at once.
	Prefetch, Persistence, MostLive int64
	// Overlap says that reduction or gathering runs beside the computation; nil for
	// the default.
	Overlap *bool
	// Offload is what lives in main memory between its uses.
	Offload []OffloadedState
	// Release is that of the software that divides, as "0.14"; "" for the newest.
	Release string
}

// ShardingKind names the software's way to divide.
type ShardingKind string

const (
	DDP         ShardingKind = "ddp"         // every rank holds everything
	ZeRO1       ShardingKind = "zero1"       // optimizer states are divided
	ZeRO2       ShardingKind = "zero2"       // and gradients
	ZeRO3       ShardingKind = "zero3"       // and parameters
	FSDP1       ShardingKind = "fsdp1"       // FullyShardedDataParallel over flat parameters
	FSDP2       ShardingKind = "fsdp2"       // fully_shard over parameters one by one
	Distributed ShardingKind = "distributed" // Megatron's distributed optimizer
)

// ShardingKinds lists every kind.
func ShardingKinds() []ShardingKind {
	return []ShardingKind{DDP, ZeRO1, ZeRO2, ZeRO3, FSDP1, FSDP2, Distributed}
}

// OffloadedState is a part of the states that lives in main memory.
type OffloadedState string

const (
	OffloadOptimizer   OffloadedState = "optimizer"
	OffloadParameters  OffloadedState = "parameters"
	OffloadActivations OffloadedState = "activations"
)

// OffloadedStates lists what can live in main memory.
func OffloadedStates() []OffloadedState {
	return []OffloadedState{OffloadOptimizer, OffloadParameters, OffloadActivations}
}

// OffloadNames lists the same as texts.
func OffloadNames() []string {
	var names []string
	for _, o := range OffloadedStates() {
		names = append(names, string(o))
	}
	return names
}

// Check refuses what the software does not offload.
func (s *Sharding) Check() error {
	has := func(o OffloadedState) bool { return slices.Contains(s.Offload, o) }
	if s.ReshardsOver > 0 && (s.Kind != FSDP2 || s.KeepsGathered) {
		return fmt.Errorf("is %s, and parts over fewer ranks (reshards_over) are what fsdp2 keeps after forward, where it does not keep all (keeps_gathered)", s.Kind)
	}
	if s.Secondary > 1 && s.Kind != ZeRO3 {
		return fmt.Errorf("is %s, and a second copy of the parameters over fewer ranks (secondary) is what zero3 keeps", s.Kind)
	}
	switch s.Kind {
	case DDP:
		if has(OffloadOptimizer) || has(OffloadParameters) {
			return fmt.Errorf("is ddp, which offloads nothing: zero1 to zero3 offload the optimizer, zero3 parameters too, fsdp1 and fsdp2 everything that is divided")
		}
	case ZeRO1, ZeRO2:
		if has(OffloadParameters) {
			return fmt.Errorf("is %s, which offloads the optimizer alone: parameters are divided, and offloaded, by zero3", s.Kind)
		}
	case FSDP1, FSDP2:
		if has(OffloadOptimizer) && !has(OffloadParameters) {
			return fmt.Errorf("is %s, which offloads parameters, gradients and the optimizer's states together: write parameters", s.Kind)
		}
	}
	return nil
}

// Schedule is the order in which a pipeline's stages work on micro-batches.
type Schedule struct {
	Kind ScheduleKind
	// Chunks is how many pieces of the model each stage runs (virtual stages);
	// 0 and 1 are one.
	Chunks int64
}

// ScheduleKind names a schedule of a pipeline.
type ScheduleKind string

const (
	GPipe            ScheduleKind = "gpipe" // every forward, then every backward
	OneFOneB         ScheduleKind = "1f1b"
	Interleaved1F1B  ScheduleKind = "interleaved"
	scheduleExpected              = "gpipe, 1f1b or interleaved"
)

// Recompute is Megatron's activation recomputation beside [Checkpointing].
type Recompute struct {
	Modules []string // of selective granularity: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe
	Method  string   // of full granularity: uniform or block
	Layers  int64    // of one segment (uniform), or that are recomputed (block)
}

type shardingYAML struct {
	Kind          string   `yaml:"kind"`
	Group         whole    `yaml:"group"`
	Secondary     whole    `yaml:"secondary"`
	ReduceFormat  string   `yaml:"reduce_format"`
	BucketBytes   string   `yaml:"bucket_bytes"`
	ReduceBucket  whole    `yaml:"reduce_bucket"`
	GatherBucket  whole    `yaml:"gather_bucket"`
	BucketView    *bool    `yaml:"gradient_as_bucket_view"`
	KeepsGathered bool     `yaml:"keeps_gathered"`
	ReshardsOver  whole    `yaml:"reshards_over"`
	Prefetch      whole    `yaml:"prefetch"`
	Persistence   whole    `yaml:"persistence"`
	MostLive      whole    `yaml:"most_live"`
	Overlap       *bool    `yaml:"overlap"`
	Offload       []string `yaml:"offload"`
	Release       string   `yaml:"release"`
}

type scheduleYAML struct {
	Kind   string `yaml:"kind"`
	Chunks whole  `yaml:"chunks"`
}

type recomputeYAML struct {
	Modules []string `yaml:"modules"`
	Method  string   `yaml:"method"`
	Layers  whole    `yaml:"layers"`
}

// sharding checks how states are divided.
func (c *checker) sharding(d shardingYAML) *Sharding {
	const field = "training.sharding."
	s := &Sharding{
		Group: c.atLeast(field+"group", d.Group, 0), Secondary: c.atLeast(field+"secondary", d.Secondary, 0), ReduceFormat: c.format(field+"reduce_format", d.ReduceFormat),
		ReduceBucket: c.atLeast(field+"reduce_bucket", d.ReduceBucket, -1), GatherBucket: c.atLeast(field+"gather_bucket", d.GatherBucket, -1),
		BucketView: d.BucketView, KeepsGathered: d.KeepsGathered, Overlap: d.Overlap, ReshardsOver: c.atLeast(field+"reshards_over", d.ReshardsOver, 0),
		Prefetch: c.atLeast(field+"prefetch", d.Prefetch, -1), Persistence: c.atLeast(field+"persistence", d.Persistence, -1),
		MostLive: c.atLeast(field+"most_live", d.MostLive, -1), Release: d.Release,
	}
	if d.BucketBytes != "" {
		s.BucketBytes = c.bytes(field+"bucket_bytes", d.BucketBytes)
	}
	var err error
	if s.Kind, err = ParseSharding(d.Kind); err != nil {
		c.wrong(field+"kind", "%v", err)
	}
	for _, o := range d.Offload {
		s.Offload = append(s.Offload, choose(c, field+"offload", OffloadedState(o), OffloadedStates()))
	}
	if err := s.Check(); err != nil {
		c.wrong(field+"kind", "%v", err)
	}
	return s
}

// ParseSharding reads the name of a kind.
func ParseSharding(text string) (ShardingKind, error) {
	kind := ShardingKind(strings.ToLower(text))
	if !slices.Contains(ShardingKinds(), kind) {
		return "", fmt.Errorf("is %q, expected %s", text, join(ShardingKinds()))
	}
	return kind, nil
}

// ParseSchedule reads "1f1b", or "interleaved 5" with the pieces of each stage.
func ParseSchedule(text string) (Schedule, error) {
	name, chunks, pieces := strings.Cut(strings.ToLower(text), " ")
	s := Schedule{Kind: ScheduleKind(name)}
	if !slices.Contains([]ScheduleKind{GPipe, OneFOneB, Interleaved1F1B}, s.Kind) {
		return s, fmt.Errorf("is %q, expected %s", text, scheduleExpected)
	}
	if pieces {
		var err error
		if s.Chunks, err = strconv.ParseInt(chunks, 10, 64); err != nil || s.Chunks < 1 {
			return s, fmt.Errorf("has %q pieces a stage, expected a whole number", chunks)
		}
	}
	return s, s.Check()
}

// Check refuses a schedule that does not agree with its pieces.
func (s Schedule) Check() error {
	switch {
	case s.Kind == Interleaved1F1B && s.Chunks < 2:
		return fmt.Errorf("is interleaved, which needs two or more pieces a stage (chunks)")
	case s.Kind != Interleaved1F1B && s.Chunks > 1:
		return fmt.Errorf("has %d pieces a stage, which only interleaved runs", s.Chunks)
	}
	return nil
}

// schedule checks a pipeline's order.
func (c *checker) schedule(d scheduleYAML) Schedule {
	s := Schedule{
		Kind:   choose(c, "training.schedule.kind", ScheduleKind(d.Kind), []ScheduleKind{GPipe, OneFOneB, Interleaved1F1B}),
		Chunks: c.atLeast("training.schedule.chunks", d.Chunks, 0),
	}
	if err := s.Check(); err != nil {
		c.wrong("training.schedule", "%v", err)
	}
	return s
}
