package megatron_test

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/timeline"
)

// The first of two stages has two pieces of three layers, and five of their passes
// between forward and backward at most: 15 passes of layers read 15 inputs of
// 1,024 × 512 × 2 bytes; one more is the gradient. With attention each has a mask of
// 1,024² bytes. What the captured parts keep stands in the pool while they are captured,
// and not in what a step allocates then.
func TestGraphs(t *testing.T) {
	checklist.Covers(t, 209)
	const text = "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {pipeline_parallel: 2}\n" +
		"training: {optimizer: adamw, accumulation: 8, schedule: {kind: interleaved, chunks: 2}, sharding: {kind: distributed}, megatron: {attention: flash, cuda_graphs: [%s]}}\n"
	const stream = 1024 * 512 * 2
	without := run(t, small(), fmt.Sprintf(text, ""))[0]
	kept := keptIn(without, account.PhaseForward, 2, timeline.Caching)
	for modules, beside := range map[string]int64{"mlp": 0, "attn": 1024 * 1024, "attn, mlp": 1024 * 1024} {
		with := run(t, small(), fmt.Sprintf(text, modules))[0]
		passes := int64(5 * 3)
		if got, want := alive(with, account.TermWorkspace)-alive(without, account.TermWorkspace), (passes+1)*stream+passes*beside; got != want {
			t.Errorf("graphs of %s: %d bytes of inputs, want %d", modules, got, want)
		}
		captured := keptIn(with, account.PhaseGraphCapture, 4, timeline.PrivatePool)
		eager := keptIn(with, account.PhaseForward, 4, timeline.Caching)
		if captured == 0 || eager+captured < kept-2*passes*stream-kept/100 || eager+captured > kept+kept/100 {
			t.Errorf("graphs of %s: %d bytes kept in the pool and %d beside it, want %d together and less by inputs and results", modules, captured, eager, kept)
		}
	}
}

// keptIn is the most that is kept for backward out of a space in a phase.
func keptIn(tl *timeline.Timeline, phase account.PhaseID, step int, space timeline.Space) (most int64) {
	now, in := int64(0), false
	for _, e := range tl.Events {
		if e.Kind == timeline.Mark {
			in = tl.Phases[e.Alloc].Phase == phase && tl.Phases[e.Alloc].Step == step
			continue
		}
		if e.Kind != timeline.Born && e.Kind != timeline.FreeCompleted {
			continue
		}
		a := tl.Allocs[e.Alloc]
		if tl.Terms[a.Term].ID != account.TermActivations || a.Space != space {
			continue
		}
		if e.Kind == timeline.Born {
			now += a.Requested
		} else {
			now -= a.Requested
		}
		if in {
			most = max(most, now)
		}
	}
	return most
}

// Graphs are captured after three steps where nobody said otherwise; a pipeline's stages
// capture each micro-batch, one stage alone one.
func TestGraphWarmup(t *testing.T) {
	for said, want := range map[string]string{
		"":                              "1 1 1 2 2 2 4c 4 4 4",
		", cuda_graph_warmup_steps: 0":  "1c 1 1 1 2 2 2",
		", cuda_graph_warmup_steps: 1":  "1 1 1 2c 2 2 2",
		", cuda_graph_warmup_steps: 20": "1 1 1 2 2 2 21c 21 21 21",
	} {
		tl := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 1}}\ntraining: {optimizer: adamw, accumulation: 4, megatron: {attention: flash, cuda_graphs: [mlp]"+said+"}}\n")[0]
		var steps []string
		for _, p := range tl.Phases[1:] {
			step := fmt.Sprint(p.Step)
			if p.Phase == account.PhaseGraphCapture {
				step += "c"
			}
			steps = append(steps, step)
		}
		if got := strings.Join(steps, " "); got != want {
			t.Errorf("%q: steps %s, want %s", said, got, want)
		}
		if got := inputsOf(tl); got != 13 {
			t.Errorf("%q: %d tensors of the stream's size stay, want 12 inputs and a gradient", said, got)
		}
	}
}

func inputsOf(tl *timeline.Timeline) (n int) {
	for _, a := range tl.AliveAt(len(tl.Events) - 1) {
		if tl.Terms[tl.Allocs[a].Term].ID == account.TermWorkspace && tl.Allocs[a].Requested == 1024*512*2 {
			n++
		}
	}
	return n
}
