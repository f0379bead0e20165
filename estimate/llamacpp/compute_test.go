package llamacpp

import (
	"bufio"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// buffer is one compute buffer that a build printed, in MiB, with what its graph
// depends on.
type buffer struct {
	id, field      string
	printed        float64
	version        string
	vocab, width   int
	feed           model.FeedForward
	heads, dim     int
	context, micro int64
	feature        workload.Feature
	before         bool // not the device of the last layer
}

func dense(width int) model.FeedForward { return model.Dense{Width: width, Gated: true} }

// buffers are published logs (CUDA, one device unless it says so).
func buffers() []buffer {
	fa, no := workload.FlashAttention, workload.NoFlashAttention
	return []buffer{
		{id: "ik-370-glm-z1-32b-iq4xs-main", field: "compute_cuda0", printed: 308.00, version: "b5260", vocab: 151552, width: 6144, feed: dense(23040), heads: 48, dim: 128, context: 32768, feature: fa},
		{id: "ik-370-qwen3-30b-a3b-iq4k", field: "compute_cuda0", printed: 304.75, version: "b5260", vocab: 151936, width: 2048, feed: model.Experts{Count: 128, Active: 8, Width: 768, Gated: true}, heads: 32, dim: 128, context: 32768, feature: fa},
		{id: "ik-103-llama31-8b-q5ks-mixedkv", field: "compute_cuda0", printed: 266.50, version: "b3900", vocab: 128256, width: 4096, feed: dense(14336), heads: 32, dim: 128, context: 1024, feature: no},
		{id: "ik-92-llama31-8b-q8q4-and-q5q5-kv", field: "compute_cuda0", printed: 266.50, version: "b3900", vocab: 128256, width: 4096, feed: dense(14336), heads: 32, dim: 128, context: 2048, feature: fa},
		{id: "ik-334-gemma3-27b-qat-q4km-no-swa-cache", field: "compute_cuda0", printed: 522.62, version: "b5200", vocab: 262208, width: 5376, feed: dense(21504), heads: 32, dim: 128, context: 32768, feature: fa},
		{id: "lcpp-qwen36-27b-udq4kxl-mtp-vision-5090", field: "compute_cuda0", printed: 495.00, vocab: 248320, width: 5120, feed: dense(17408), heads: 24, dim: 256, context: 131072, feature: fa},
		{id: "lcpp-qwen35-4b-q5kxl-mtp-131k-rtx5070m", field: "compute_cuda0", printed: 690.28, vocab: 248320, width: 2560, feed: dense(9216), heads: 16, dim: 256, context: 131072},
		{id: "lcpp-taos144-qwen35-9b-q4km-ctx-scan", field: "compute_131k", printed: 501, vocab: 248320, width: 4096, feed: dense(12288), heads: 16, dim: 256, context: 131072},
		{id: "lcpp-6122-command-r-35b-2gpu", field: "compute_cuda0", printed: 672.01, version: "b2460", vocab: 256000, width: 8192, feed: dense(22528), heads: 64, dim: 128, context: 4096, feature: no, before: true},
		{id: "ik-822-gpt-oss-20b-131k-oom", field: "failed_alloc", printed: 16929.88, version: "b6300", vocab: 201088, width: 2880, feed: model.Experts{Count: 32, Active: 4, Width: 2880, Gated: true}, heads: 64, dim: 64, context: 131072, feature: no},
	}
}

// layoutOf is the device of a buffer.
func (b buffer) layoutOf(t *testing.T) *layout {
	t.Helper()
	attention := model.Attention{QueryHeads: b.heads, KVHeads: 8, KeyDim: b.dim, ValueDim: b.dim, Causal: true, CacheOf: -1}
	m := &model.Model{Vocab: b.vocab, Stacks: []model.Stack{{Kind: model.Decoder, Width: b.width,
		Layers: []model.Layer{{Mixers: []model.Mixer{attention}, FeedForward: b.feed}}}}}
	w := &workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "llama.cpp", Version: b.version}, Mesh: workload.Single(),
		Serving: &workload.Serving{MaxLength: b.context, MaxRequests: 1, Budget: &workload.Budget{BatchedTokens: b.micro}}}
	if b.feature != "" {
		w.Features = []workload.Feature{b.feature}
	}
	plans, err := parallel.Plain().Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	plans[0].Last = !b.before
	in := estimate.Input{Model: m, Plan: plans[0], Workload: w}
	return &layout{in: in, o: resolve(in, false), tl: &timeline.Timeline{}}
}

// Buffers that builds printed lie in the interval, and the interval is no wider
// than mask and rows make it.
func TestComputeBuffers(t *testing.T) {
	for _, b := range buffers() {
		f := b.layoutOf(t).compute()
		high, known := f.High()
		printed := int64(math.Round(b.printed * (1 << 20)))
		if !known || printed < f.Low()-(1<<14) || printed > high {
			t.Errorf("%s: %.2f MiB is outside %s", b.id, b.printed, f.In(bytesize.MiB))
		}
		if slack := float64(high) / float64(printed); slack > 1.8 {
			t.Errorf("%s: the high is %.2f times what was printed", b.id, slack)
		}
	}
}

// Without scores, or without logits, the table fails.
func TestComputeBuffersSabotage(t *testing.T) {
	missed := map[string]int{}
	for _, b := range buffers() {
		printed := int64(b.printed * (1 << 20))
		l := b.layoutOf(t)
		l.in.Model.Vocab = 0
		if high, _ := l.compute().High(); high < printed {
			missed["logits"]++
		}
		l = b.layoutOf(t)
		if l.o.scoring == scored {
			l.o.scoring = flash
			if high, _ := l.compute().High(); high < printed {
				missed["scores"]++
			}
		}
	}
	if missed["logits"] < 3 || missed["scores"] < 2 {
		t.Errorf("a dropped term fails too few rows: %v", missed)
	}
}

// The printed sizes are the published ones.
func TestOracleComputeBuffers(t *testing.T) {
	file, err := os.Open(filepath.Join(oracle.Dir(t), "groundtruth", "inference.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want := map[string]float64{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			ID       string
			Reported map[string]struct{ Value any }
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		for field, v := range r.Reported {
			want[r.ID+" "+field], _ = v.Value.(float64)
		}
	}
	for _, b := range buffers() {
		if got := want[b.id+" "+b.field]; got != b.printed {
			t.Errorf("%s: the table has %s MiB, published %v", b.id, strconv.FormatFloat(b.printed, 'f', -1, 64), got)
		}
	}
}

// Attention of a kind whose graph is not modelled, and devices that overlap, have
// no high; their scores still count.
func TestComputeNotModelled(t *testing.T) {
	b := buffer{vocab: 129280, width: 7168, feed: dense(18432), heads: 128, dim: 192, context: 20480, version: "b4700", feature: workload.NoFlashAttention}
	for name, change := range map[string]func(*layout){
		"latent": func(l *layout) { l.in.Model.Stacks[0].Layers[0].Mixers[0] = model.LatentAttention{QueryHeads: 128} },
		"ranks":  func(l *layout) { l.in.Plan.Mesh.PipelineParallel = 2 },
	} {
		l := b.layoutOf(t)
		change(l)
		if f := l.compute(); f.Known() || f.Reason() == "" || f.Low() == 0 {
			t.Errorf("%s: %s, because %q", name, f.In(bytesize.GiB), f.Reason())
		}
	}
	if f := b.layoutOf(t).compute(); f.Low() != 128*20480*512*4 {
		t.Errorf("scores of %d bytes", f.Low())
	}
}
