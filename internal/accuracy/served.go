package accuracy

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"floodmark"
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// served is one public report of what vLLM printed. Sizes are in GiB.
type served struct {
	ID, Model, Version, Card string
	TP                       int
	Length, Batched, Seqs    int64
	Util, Total, Pool        float64
	Want                     map[string]float64
}

// Served scores the reports in dir/served.jsonl, with models from dir/models.
func Served(dir string) ([]Row, error) {
	var rows []Row
	err := lines(filepath.Join(dir, "served.jsonl"), func(data []byte) error {
		var s served
		if err := json.Unmarshal(data, &s); err != nil {
			return err
		}
		p, why := s.predict(filepath.Join(dir, "models"))
		for _, quantity := range slices.Sorted(maps.Keys(s.Want)) {
			rows = append(rows, s.row(p, why, quantity))
		}
		return nil
	})
	return rows, err
}

// predict estimates the report's command; why there is no estimate else.
func (s served) predict(models string) (*floodmark.Prediction, string) {
	if s.Model == "" {
		return nil, "the report does not say which model ran"
	}
	m, err := ModelOf(models, s.Model)
	if err != nil {
		return nil, err.Error()
	}
	card, err := floodmark.FindCard(s.Card)
	if err != nil {
		return nil, err.Error()
	}
	if s.Total > 0 {
		card = card.WithTotal(account.Exact(int64(s.Total*(1<<30)), account.Provenance{Origin: account.Observed, Scope: account.Device}))
	}
	b := &workload.Budget{Utilization: s.Util, BatchedTokens: s.Batched, CacheBytes: int64(s.Pool * (1 << 30))}
	w := workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "vllm", Version: s.Version},
		Mesh:    workload.Mesh{TensorParallel: max(1, s.TP), PipelineParallel: 1, DataParallel: 1, ExpertParallel: 1, ContextParallel: 1},
		Serving: &workload.Serving{MaxLength: s.Length, MaxRequests: s.Seqs, Budget: b}}
	if m.Compute == dtype.Unknown {
		w.Precision.Compute = dtype.BF16
	}
	p, err := floodmark.Estimate(context.Background(), floodmark.Request{Model: m, Workload: w, Card: &card, Platform: "linux"})
	if err != nil {
		return nil, err.Error()
	}
	return p, ""
}

// row compares one figure.
func (s served) row(p *floodmark.Prediction, why, quantity string) Row {
	value := s.Want[quantity]
	row := Row{Table: "vllm", Name: s.ID, Quantity: quantity, Want: int64(math.Round(value * (1 << 30))), Why: why, Tolerance: (1 << 30) / 200}
	if p == nil {
		return row
	}
	var f account.Figure
	switch quantity {
	case "weights":
		f, row.Tolerance = LoadedWeights(p), row.Want/200
	case "non_torch":
		f = Held(p, account.PhaseProfileForward, account.TermCommunication, account.TermContext)
		if own := Held(p, account.PhaseProfileForward, account.TermCommunication); own.Low() > 0 {
			f = account.Between(min(own.Low(), f.Low()), high(f), f.Provenance) // some count the context
		}
	case "peak":
		f = TrialPeak(p)
	case "graphs":
		f = Held(p, account.PhaseGraphCapture, account.TermGraphPools)
	case "cache":
		f = Held(p, account.PhaseKVAllocation, account.TermKVCache)
		row.Want = max(0, row.Want) // a negative room is none
	case "tokens", "pool_tokens":
		row.Want, row.Tolerance, f = int64(value), 0, p.Capacity.Tokens
		if quantity == "pool_tokens" { // half a hundredth of a GiB of the printed cache
			row.Tolerance = (1<<30)/200/max(1, p.Capacity.BytesPerToken.Low()) + 16
		}
	case "blocks":
		row.Want, row.Tolerance, f = int64(value), 0, p.Capacity.Blocks
	}
	if !f.Known() {
		row.Why = f.Reason()
		return row
	}
	low, most := f.Low(), high(f)
	row.Low, row.High = &low, &most
	return row
}

func high(f account.Figure) int64 {
	n, _ := f.High()
	return n
}
