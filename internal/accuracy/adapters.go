package accuracy

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"floodmark"
	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/model/load"
	"floodmark/workload"
)

// adaptersJSONL is PEFT's own comparison of its methods on Llama 3.2 3B: what each
// trains, the mean of torch's allocated bytes after a step, and its
// adapter_config.json without what bears no size (method_comparison/MetaMathQA of
// https://github.com/huggingface/peft at 5d602fd, Apache-2.0).
//
//go:embed adapters.jsonl
var adaptersJSONL string

// adaptersTable is the name of the table.
const adaptersTable = "adapters"

// withinOfAdapters is how far the bytes after a step may be from the published mean:
// lengths vary from step to step, and the outputs of the last one live.
const withinOfAdapters = 0.01

// experiment is a line of the comparison.
type experiment struct {
	ID        string          `json:"id"`
	Trainable int64           `json:"trainable"`
	Allocated int64           `json:"allocated"`
	Config    json.RawMessage `json:"config"` // null for full fine-tuning
}

// adapterSteps is the comparison's loop: four sequences, whose mean length is 210.
const adapterSteps = `
operation: fine-tuning
gpu: l40s
inputs: {only: {context: 210, micro_batch: 4}}
precision: bf16-params
training: {optimizer: adamw, zero_grad: zero, keep_outputs: true}
`

// Adapters predicts every experiment: what is trained, to the element, and the
// bytes after a step.
func Adapters() ([]Row, error) { return adaptersWithout() }

func adaptersWithout(dropped ...account.TermID) ([]Row, error) {
	var rows []Row
	for scan := bufio.NewScanner(strings.NewReader(adaptersJSONL)); scan.Scan(); {
		var e experiment
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("adapters.jsonl: %w", err)
		}
		count := Row{Table: adaptersTable, Name: e.ID, Quantity: "trained parameters", Want: e.Trainable}
		level := Row{Table: adaptersTable, Name: e.ID, Quantity: "allocated after a step", Want: e.Allocated, Tolerance: int64(withinOfAdapters * float64(e.Allocated))}
		n, bytes, err := e.predicted(dropped)
		if err != nil {
			count.Why, level.Why = err.Error(), err.Error()
		} else {
			level.Low, level.High = &bytes, &bytes
		}
		if n > 0 {
			count.Got, count.Why = &n, ""
		}
		rows = append(rows, count, level)
	}
	return rows, nil
}

// predicted is how many parameters are trained, and the bytes after a step.
func (e experiment) predicted(dropped []account.TermID) (trained, bytes int64, err error) {
	f, err := workload.ReadFile(source.Bytes(e.ID, []byte(adapterSteps)))
	if err != nil {
		return 0, 0, err
	}
	request := floodmark.Request{Workload: f.Workload}
	if request.Model, err = floodmark.LoadModel(filepath.Join(trainingModels, "llama-3.2-3b.json")); err != nil {
		return 0, 0, err
	}
	if string(e.Config) != "null" {
		config, err := load.ReadAdapter(source.Bytes("adapter_config.json", e.Config))
		if err != nil {
			return 0, 0, err
		}
		if strings.HasSuffix(e.ID, "lorafa") { // whose optimizer freezes A
			config = load.NewAdapter(workload.LoRAFA, config.Rank, config.TargetNames(), nil)
		}
		if err := request.Tune(config); err != nil {
			return 0, 0, err
		}
	}
	p, err := floodmark.Estimate(context.Background(), request)
	if err != nil {
		return 0, 0, err
	}
	if t := p.Request.Workload.Training.Tuning; t == nil {
		trained, _ = p.Request.Model.Parameters().IsExact()
	} else {
		trained = elements(t)
	}
	a := p.Accounts()[0]
	for _, phase := range slices.Backward(a.Phases) {
		if phase.ID == account.PhaseOptimizerStep {
			end := phase.End.In(account.Allocated)
			if _, known := end.High(); !known {
				return trained, 0, fmt.Errorf("%s", end.Reason())
			}
			return trained, without(a, phase, end, dropped).Low(), nil
		}
	}
	return 0, 0, fmt.Errorf("no step")
}

// elements is the parameters that a tuning trains.
func elements(t *workload.Tuning) int64 {
	var sum int64
	for _, m := range t.Modules {
		for _, shape := range m.Shapes {
			n := int64(1)
			for _, size := range shape {
				n *= size
			}
			sum += n
		}
	}
	return sum
}
