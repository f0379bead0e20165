package record

import "floodmark/account"

// Schema is the envelope's schema field, and Version its schema_version.
const (
	Schema  = "floodmark/record"
	Version = 1
)

// Kind says which document a record is.
type Kind string

const (
	KindEstimate    Kind = "estimate"
	KindSolve       Kind = "solve"
	KindSnapshot    Kind = "snapshot"
	KindReplay      Kind = "replay"
	KindLog         Kind = "log"
	KindMeasurement Kind = "measurement"
	KindSweep       Kind = "sweep"
	KindComparison  Kind = "comparison"
	KindDecision    Kind = "decision"
	KindGPUs        Kind = "gpus"
	KindEnvironment Kind = "environment"
	KindError       Kind = "error"
)

// Tool is what made a record.
type Tool struct {
	Version string   `json:"version"`
	Command []string `json:"command"`
}

// Warning is something that the reader of a record must be told.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Envelope is the head of every record.
type Envelope struct {
	Schema        string    `json:"schema"`
	SchemaVersion int       `json:"schema_version"`
	Kind          Kind      `json:"kind"`
	Tool          Tool      `json:"tool"`
	Warnings      []Warning `json:"warnings"`
}

// NewEnvelope is the head of a record of that kind.
func NewEnvelope(kind Kind, tool Tool, warnings []account.Warning) Envelope {
	e := Envelope{Schema: Schema, SchemaVersion: Version, Kind: kind, Tool: tool}
	for _, w := range warnings {
		e.Warnings = append(e.Warnings, Warning{Code: w.Code, Text: w.Text})
	}
	return e
}

// Trial says which work a record is about. Null is "not recorded".
type Trial struct {
	Model    *string `json:"model"`
	Revision *string `json:"revision"`
	Code     *string `json:"code"`
	InputSet *string `json:"input_set"`
	Seed     *int64  `json:"seed"`
}

// Workload is what was asked for.
type Workload struct {
	Operation *string `json:"operation"`
	Engine    *string `json:"engine"`
	Context   *int64  `json:"context"`
	Generated *int64  `json:"generated"`
	Sequences *int64  `json:"sequences"`
	Batch     *int64  `json:"batch"`
}

// Parallel is how the work is divided.
type Parallel struct {
	TensorParallel   int `json:"tensor_parallel"`
	PipelineParallel int `json:"pipeline_parallel"`
	DataParallel     int `json:"data_parallel"`
	ExpertParallel   int `json:"expert_parallel"`
	ContextParallel  int `json:"context_parallel"`
}

// Input is one class of inputs, as configured and as observed.
type Input struct {
	Name       string           `json:"name"`
	SHA256     *string          `json:"sha256"`
	Configured map[string]int64 `json:"configured"`
	Observed   map[string]int64 `json:"observed"`
}

// Head is what every record about a piece of work carries.
type Head struct {
	Envelope
	Trial    Trial     `json:"trial"`
	Workload Workload  `json:"workload"`
	Parallel *Parallel `json:"parallel"` // null where evidence does not say
	Inputs   []Input   `json:"inputs"`
}

// Interval splits a figure into the three fields of a record: the exact count,
// or null with the ends that are known beside it. A low of 0 without a high
// says nothing and is left out. Of what is taken only because it is free a record
// has what is needed, and a warning (taken_where_free).
func Interval(f account.Figure) (exact, low, high *int64) {
	f = f.Needed()
	if n, ok := f.IsExact(); ok {
		return &n, nil, nil
	}
	l := f.Low()
	if h, known := f.High(); known {
		return nil, &l, &h
	}
	if l == 0 {
		return nil, nil, nil
	}
	return nil, &l, nil
}

// Text is a pointer to s, or null when s is empty.
func Text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
