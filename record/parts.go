package record

// Part is a share of a model's weights: a module of a stack, or a layer.
type Part struct {
	Stack         *string  `json:"stack"`
	Kind          *string  `json:"kind"`
	Layer         *int     `json:"layer"`
	Module        *string  `json:"module"`
	Tensors       int      `json:"tensors"`
	Parameters    *int64   `json:"parameters"`
	Bytes         *int64   `json:"bytes"`
	LowBytes      *int64   `json:"low_bytes,omitempty"`
	HighBytes     *int64   `json:"high_bytes,omitempty"`
	StoredFormats []Format `json:"stored_formats"`
}

// Change is the estimate with one thing changed: which terms of the binding
// rank's peak move, and which do not.
type Change struct {
	Setting string       `json:"setting"` // "weights=int8"
	Rank    int          `json:"rank"`
	Phase   string       `json:"phase"`
	Terms   []ChangedRow `json:"terms"`
	Verdict *Verdict     `json:"verdict"` // with the change; null without a card
}

// ChangedRow is one term before and after.
type ChangedRow struct {
	Term            string `json:"term"`
	Moves           bool   `json:"moves"`
	BeforeBytes     *int64 `json:"before_bytes"`
	BeforeLowBytes  *int64 `json:"before_low_bytes,omitempty"`
	BeforeHighBytes *int64 `json:"before_high_bytes,omitempty"`
	AfterBytes      *int64 `json:"after_bytes"`
	AfterLowBytes   *int64 `json:"after_low_bytes,omitempty"`
	AfterHighBytes  *int64 `json:"after_high_bytes,omitempty"`
}

// Adapter is one adapter beside the model.
type Adapter struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // lora, dora
	Rank       int    `json:"rank"`
	Parameters int64  `json:"parameters"`
	Bytes      *int64 `json:"bytes"`
	LowBytes   *int64 `json:"low_bytes,omitempty"`
	HighBytes  *int64 `json:"high_bytes,omitempty"`
}
