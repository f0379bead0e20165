package megatron

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate"
	"floodmark/internal/source"
	"floodmark/internal/torch"
	"floodmark/model/megatronmodel"
	"floodmark/timeline"
	"floodmark/workload"
)

//go:embed testdata/local/layers.tsv
var recordedLayers string

// layersRow is one recording of testdata/local/layers.tsv, in bytes beyond its
// beginning: the peak of forward, what is kept, and the peak of backward.
type layersRow struct {
	name, tensor, stream            string
	parameters, forward, kept, back int64
}

func recordedRows(t testing.TB) (rows []layersRow) {
	for line := range strings.Lines(recordedLayers) {
		f := strings.Fields(line)
		if f[0] == "case" {
			continue
		}
		r := layersRow{name: f[0], tensor: f[1], stream: f[2]}
		for i, into := range []*int64{&r.parameters, &r.forward, &r.kept, &r.back} {
			n, err := strconv.ParseInt(f[3+i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			*into = n
		}
		rows = append(rows, r)
	}
	return rows
}

// layersCase is a recording's arguments, in the words of both sides.
type layersCase struct {
	model               map[string]string
	precision, training string
	megatron            string
}

var layersCases = map[string]layersCase{
	"plain":       {},
	"bias":        {model: map[string]string{"disable-bias-linear": ""}},
	"dropout":     {megatron: ", hidden_dropout: true, attention_dropout: true"},
	"groups":      {model: map[string]string{"group-query-attention": "true", "num-query-groups": "2"}},
	"turned":      {model: map[string]string{"position-embedding-type": "rope"}},
	"swiglu":      {model: map[string]string{"swiglu": "true", "ffn-hidden-size": "1024"}},
	"bf16":        {precision: "bf16"},
	"bf16-kernel": {precision: "bf16", megatron: ", unfused: [bias_activation, bias_dropout]"},
	"bf16-wide":   {precision: "bf16", megatron: ", softmax_in_fp32: true"},
	"core":        {training: ", checkpointing: selective"},
	"mlp":         {training: ", checkpointing: selective, recompute: {modules: [mlp]}"},
	"full":        {training: ", checkpointing: full, recompute: {method: uniform, layers: 1}"},
	"experts":     {model: map[string]string{"num-experts": "4", "moe-router-topk": "1"}},
}

// input is the case of a recording.
func (r layersRow) input(t testing.TB) estimate.Input {
	t.Helper()
	c := layersCases[r.name]
	a := megatronmodel.Arguments{"num-layers": "2", "hidden-size": "256", "num-attention-heads": "8", "max-position-embeddings": "128", "disable-bias-linear": "true"}
	for k, v := range c.model {
		a[k] = v
	}
	if a["disable-bias-linear"] == "" {
		delete(a, "disable-bias-linear")
	}
	m, err := megatronmodel.New("recorded", a)
	if err != nil {
		t.Fatal(err)
	}
	format := "fp32"
	if c.precision != "" {
		format = c.precision
	}
	fusions := c.megatron
	if !strings.Contains(fusions, "unfused") {
		fusions += ", unfused: [masked_softmax, bias_activation, bias_dropout]"
	}
	if r.name != "dropout" {
		fusions += ", hidden_dropout: false, attention_dropout: false"
	}
	f, err := workload.ReadFile(source.Bytes("recorded", []byte("engine: {name: megatron}\noperation: training\nprecision: {parameters: "+format+", gradients: fp32}\n"+
		"inputs: {only: {context: 128, micro_batch: 4}}\nlayout: {tensor_parallel: "+r.tensor+"}\n"+
		"training: {optimizer: adamw, sequence_parallel: "+strconv.FormatBool(r.stream == "sequence")+c.training+
		", megatron: {implementation: local, imbalance: 1, gradient_accumulation_fusion: false"+fusions+"}}\n")))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := Rules(&f.Workload)
	if err != nil {
		t.Fatal(err)
	}
	plans, err := rules.Plan(m, f.Workload.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	return estimate.Input{Model: m, Plan: plans[0], Workload: &f.Workload}
}

// laid is the peak of forward, what is kept and the peak of backward of the second
// step, beyond its beginning.
func (r layersRow) laid(t testing.TB, sabotage func(*run)) (forward, kept, back int64) {
	t.Helper()
	in := r.input(t)
	p := runOn(in, settingsOf(in), torch.CPU(), torch.Release{}, 0)
	if why := p.build(in); why != "" {
		t.Fatal(why)
	}
	if sabotage != nil {
		sabotage(p)
	}
	m, s := p.te.m, p.te.s
	for step := 1; step <= 2; step++ {
		x := m.RequireGrad(m.Keep(m.Empty("x", s.compute, s.resident(), p.hidden)))
		p.phase("forward", step)
		y := p.layers(p.chunks[0], m.Hold(x))
		gradient := m.Keep(m.Empty("gradient", s.compute, s.resident(), p.hidden))
		p.phase("backward", step)
		m.BackwardWith(y, gradient)
		p.phase("optimizer", step)
		m.Drop(gradient, y, x)
	}
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	return levelsOf(tl)
}

// levelsOf reads the phases of the second step. What was born before it and dies in it
// is left out, as the recording does: it knows no size of it.
func levelsOf(tl *timeline.Timeline) (forward, kept, back int64) {
	level, start := int64(0), int64(0)
	var phase account.PhaseID
	older := uint32(0)
	for _, e := range tl.Events {
		switch e.Kind {
		case timeline.Mark:
			if phase = tl.Phases[e.Alloc].Phase; phase == account.PhaseForward {
				start, forward, back = level, level, 0
			} else if phase == account.PhaseBackward {
				kept = level
				back = level
			}
		case timeline.Born:
			if phase == account.PhaseOptimizerStep && older == 0 {
				older = e.Alloc
			}
			level += tl.Allocs[e.Alloc].Requested
		case timeline.FreeCompleted:
			if e.Alloc < older {
				continue
			}
			level -= tl.Allocs[e.Alloc].Requested
		}
		switch phase {
		case account.PhaseForward:
			forward = max(forward, level)
		case account.PhaseBackward:
			back = max(back, level)
		}
	}
	return forward - start, kept - start, back - start
}

// close reports three levels that are the recorded ones: to the byte, with experts
// within 0.2 %, for their router is a row of small tensors here and there.
func (r layersRow) close(forward, kept, back int64) bool {
	for _, pair := range [][2]int64{{forward, r.forward}, {kept, r.kept}, {back, r.back}} {
		off := max(pair[0]-pair[1], pair[1]-pair[0])
		if off > 0 && r.name != "experts" || off > pair[1]/500 {
			return false
		}
	}
	return true
}

// Two of mcore's own layers keep and reach what they were recorded to.
func TestLocalLayersAsRecorded(t *testing.T) {
	for _, r := range recordedRows(t) {
		if forward, kept, back := r.laid(t, nil); !r.close(forward, kept, back) {
			t.Errorf("%s, tensor %s, %s: forward %d, kept %d, backward %d, recorded %d, %d, %d", r.name, r.tensor, r.stream, forward, kept, back, r.forward, r.kept, r.back)
		}
	}
}

// Sabotage: what was recorded is missed with TransformerEngine's modules, without the
// tensors that a fusion saves, and with a product that is gathered by nobody.
func TestLocalLayersMissATerm(t *testing.T) {
	for name, sabotage := range map[string]func(*run){
		"modules":     func(p *run) { p.te.s.Implementation = workload.TransformerEngine },
		"dropout":     func(p *run) { p.te.s.attentionDropout = !p.te.s.attentionDropout },
		"fusions":     func(p *run) { p.te.s.Unfused = nil },
		"recompute":   func(p *run) { p.te.s.granularity = workload.NoCheckpointing },
		"wide":        func(p *run) { p.te.s.WideSoftmax = !p.te.s.WideSoftmax },
		"gather":      func(p *run) { p.te.s.sequence = false },
		"one expert":  func(p *run) { p.oneExpert() },
		"heads apart": func(p *run) { p.chunks[0].layers[0].turned ^= 32 },
	} {
		missed := 0
		for _, r := range recordedRows(t) {
			if forward, kept, back := r.laid(t, sabotage); !r.close(forward, kept, back) {
				missed++
			}
		}
		if missed == 0 {
			t.Errorf("every recording is as close without %s", name)
		}
	}
}

// oneExpert leaves each mixture one expert, for all rows.
func (r *run) oneExpert() {
	for _, l := range r.chunks[0].layers {
		if l.experts != nil {
			l.experts.local, l.experts.count = 1, 1
		}
	}
}

// The layers have the parameters that were counted.
func TestLocalLayersParameters(t *testing.T) {
	for _, r := range recordedRows(t) {
		in := r.input(t)
		p := runOn(in, settingsOf(in), torch.CPU(), torch.Release{}, 0)
		p.build(in)
		n := p.states.elements()
		for _, other := range []torch.Tensor{p.embedding, p.position, p.final.normW, p.final.normB} {
			if other.Defined() {
				n -= other.Elements()
			}
		}
		if n != r.parameters {
			t.Errorf("%s, tensor %s: %d parameters, recorded %d", r.name, r.tensor, n, r.parameters)
		}
	}
}
