package accuracy

import (
	"cmp"
	"slices"
)

// Status says how a row came out.
type Status string

const (
	Exact  Status = "exact"
	Inside Status = "inside" // within the program's interval, or the tolerance of the table
	Wrong  Status = "wrong"  // another figure
	Miss   Status = "miss"   // no figure: unknown, or the input was refused
)

// Row is one scored fact.
type Row struct {
	Table    string `json:"table"`
	Name     string `json:"name"`     // the file or model
	Quantity string `json:"quantity"` // what was compared
	Want     int64  `json:"want"`
	Got      *int64 `json:"got"`
	Low      *int64 `json:"low,omitempty"` // of the program's interval, where its figure is one
	High     *int64 `json:"high,omitempty"`
	Open     bool   `json:"open,omitempty"` // nobody can say the most: High is the least too
	Doubt    string `json:"-"`              // why, where it is open
	// Tolerance is what may lie between: what printed digits leave, or what the table
	// allows.
	Tolerance int64  `json:"tolerance,omitempty"`
	Why       string `json:"why,omitempty"` // what the program says instead of a figure
}

// Status is exact, wrong or a miss.
func (r Row) Status() Status {
	switch {
	case r.Low != nil && r.High != nil:
		if *r.Low-r.Tolerance <= r.Want && r.Want <= *r.High+r.Tolerance {
			return Inside
		}
		return Wrong
	case r.Got == nil:
		return Miss
	case *r.Got == r.Want:
		return Exact
	}
	return Wrong
}

// Table is the rows of one kind of fact.
type Table struct {
	Name   string
	About  string // what is compared with what, in a sentence
	Source string // where the facts come from
	Rows   []Row
}

// Tables lists the tables that this version scores, without rows.
func Tables() []Table {
	return []Table{
		{Name: "parameters", About: "parameters or stored bytes of a checkpoint, from config.json alone, against the published total",
			Source: "safetensors indexes, file sizes and totals of public checkpoints"},
		{Name: "snapshots", About: "totals and peaks of recorded PyTorch memory snapshots, against an independent count",
			Source: "snapshots in public repositories"},
		{Name: "vllm", About: "what vLLM printed when it started: weights within 0.5 %, tokens from the printed cache within its digits, everything else inside the interval",
			Source: "issues and pull requests of vLLM and of projects around it"},
		{Name: ranksTable, About: "training over data-parallel ranks in PyTorch and DeepSpeed at the counter of each row, within 8 %",
			Source: "published measurements; Megatron's have a table of their own"},
		{Name: listedTable, About: "rows of several ranks whose published arithmetic was made to fit them, or that ran compiled: they are shown, and are in no figure",
			Source: "published measurements"},
		{Name: trainingTable, About: "training on one card at the counter of each row, within 8 %",
			Source: "published measurements; those that were fitted, compiled or no PyTorch are not counted"},
		{Name: adaptersTable, About: "PEFT's comparison of its methods on Llama 3.2 3B: what is trained, to the element, and the bytes allocated after a step, within 1 % of the published mean",
			Source: "method_comparison/MetaMathQA of huggingface/peft at 5d602fd (Apache-2.0)"},
		{Name: megatronTable, About: "Megatron-LM on several cards, rank by rank: the level after a step within 0.5 %, peaks within 2 %",
			Source: "golden values of Megatron-LM's functional tests, SimuMax's B200 summary, Megatron-Bridge's performance guides"},
	}
}

// Count is how many rows came out that way.
func (t Table) Count(s Status) int {
	n := 0
	for _, r := range t.Rows {
		if r.Status() == s {
			n++
		}
	}
	return n
}

// Fill hands rows to the tables that they name, in a fixed order.
func Fill(tables []Table, rows []Row) []Table {
	for i := range tables {
		for _, r := range rows {
			if r.Table == tables[i].Name {
				tables[i].Rows = append(tables[i].Rows, r)
			}
		}
		slices.SortStableFunc(tables[i].Rows, func(a, b Row) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Quantity, b.Quantity))
		})
	}
	return tables
}
