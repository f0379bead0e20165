package accuracy

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"floodmark"
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/workload"
)

// Startup is one start of vLLM 0.19 on H100, as its log printed it. Sizes are in
// hundredths of a GiB; 0 where the log does not have them.
type Startup struct {
	Log, Model                                 string
	Started                                    bool
	Tensor, Pipeline, Data                     int
	Length                                     int64
	Compute, Quantisation, Cache               string
	Utilization                                float64
	Free, Total, Initial, Requested            float64 // GiB
	Weights, Peak, NonTorch, Graphs, CacheRoom float64 // GiB
	Tokens, Blocks                             int64
}

// Startups reads a table of starts.
func Startups(r io.Reader) ([]Startup, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	var list []Startup
	for _, row := range rows[1:] {
		at := func(column string) string {
			for i, name := range rows[0] {
				if name == column {
					return row[i]
				}
			}
			return ""
		}
		whole := func(column string) int64 { n, _ := strconv.ParseInt(at(column), 10, 64); return n }
		real := func(column string) float64 { f, _ := strconv.ParseFloat(at(column), 64); return f }
		list = append(list, Startup{
			Log: at("log_file"), Model: at("model"), Started: at("status") == "ok",
			Tensor: int(whole("tp")), Pipeline: int(whole("pp")), Data: int(whole("dp")), Length: whole("max_model_len"),
			Compute: at("dtype"), Quantisation: at("quantization"), Cache: at("kv_cache_dtype"), Utilization: real("gpu_memory_utilization"),
			Free: real("init_free_memory_gib"), Total: real("init_total_memory_gib"), Initial: real("init_cuda_memory_gib"), Requested: real("requested_memory_gib"),
			Weights: real("weight_memory_gib"), Peak: real("activation_memory_gib"), NonTorch: real("non_torch_forward_gib"),
			Graphs: real("cuda_graph_actual_gib"), CacheRoom: real("kv_cache_memory_gib"),
			Tokens: whole("kv_cache_tokens"), Blocks: whole("kv_cache_blocks"),
		})
	}
	return list, nil
}

// ModelOf reads the model of a start from a folder of configurations.
func ModelOf(folder, name string) (*model.Model, error) {
	return floodmark.LoadModel(filepath.Join(folder, strings.ReplaceAll(name, "/", "__")+".json"))
}

// Request is the start as a workload: what its command line said.
func (s Startup) Request(m *model.Model) (floodmark.Request, error) {
	card, err := floodmark.FindCard("h100-sxm5-80gb")
	if err != nil {
		return floodmark.Request{}, err
	}
	off := false
	w := workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "vllm", Version: "0.19.0"},
		Mesh:    workload.Mesh{TensorParallel: s.Tensor, PipelineParallel: s.Pipeline, DataParallel: s.Data, ExpertParallel: 1, ContextParallel: 1},
		Serving: &workload.Serving{MaxLength: s.Length, Budget: &workload.Budget{Utilization: s.Utilization, PrefixCaching: &off}}}
	w.Precision.Compute, _ = dtype.Parse(strings.TrimPrefix(s.Compute, "torch."))
	if s.Cache == "fp8" {
		w.Precision.Cache = dtype.F8E4M3
	}
	switch {
	case s.Quantisation == "fp8" && m.Quantised == nil:
		m, err = m.WithFormat("fp8")
	case w.Precision.Compute == dtype.F32:
		m, err = m.WithFormat("fp32")
	}
	return floodmark.Request{Model: m, Workload: w, Card: &card, Platform: "linux"}, err
}

// Predict estimates the start.
func (s Startup) Predict(ctx context.Context, models string) (*floodmark.Prediction, error) {
	m, err := ModelOf(models, s.Model)
	if err != nil {
		return nil, err
	}
	r, err := s.Request(m)
	if err != nil {
		return nil, err
	}
	return floodmark.Estimate(ctx, r)
}

// Held is what the named terms hold together at the peak of a phase, on the first
// rank.
func Held(p *floodmark.Prediction, phase account.PhaseID, terms ...account.TermID) account.Figure {
	a := p.Accounts()[0]
	sum := account.Exact(0, account.Provenance{})
	for _, ph := range a.Phases {
		if ph.ID != phase {
			continue
		}
		for _, share := range ph.AtPeak {
			for _, id := range terms {
				if a.Terms[share.Term].ID == id {
					sum = account.Sum(sum.Provenance, sum, share.Bytes)
				}
			}
		}
	}
	return sum
}

// LoadedWeights is what the engine prints as the memory of its model.
func LoadedWeights(p *floodmark.Prediction) account.Figure {
	return Held(p, account.PhaseModelLoad, account.TermWeights, account.TermQuantisationMetadata, account.TermBuffers, account.TermAdapters, account.TermAllocatorRounding)
}

// TrialPeak is what the engine prints as its peak of activations.
func TrialPeak(p *floodmark.Prediction) account.Figure {
	terms := []account.TermID{account.TermActivations, account.TermLogits, account.TermWorkspace, account.TermInput}
	q := account.Provenance{}
	return account.Highest(q, Held(p, account.PhaseProfileForward, terms...), Held(p, account.PhaseProfileSampler, terms...))
}

// gibibytes is an interval in GiB.
func gibibytes(f account.Figure) (low, high float64) {
	most, _ := f.High()
	return float64(f.Low()) / (1 << 30), float64(most) / (1 << 30)
}

// String names a start.
func (s Startup) String() string {
	return fmt.Sprintf("%s tp%d pp%d %s %s %s %d", s.Model, s.Tensor, s.Pipeline, strings.TrimPrefix(s.Compute, "torch."), s.Quantisation, s.Cache, s.Length)
}
