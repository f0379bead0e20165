package measurement

import "encoding/json"

// line is one line of a stream: the union of the fields of every type that is
// read here. Others are ignored.
type line struct {
	V    int    `json:"v"`
	Type string `json:"type"`
	Mono int64  `json:"mono_ns"`

	// process, rank
	PID       int    `json:"pid"`
	Host      string `json:"host"`
	Boot      string `json:"boot_id"`
	Rank      *int   `json:"rank"`
	WorldSize *int   `json:"world_size"`
	Python    string `json:"python"`
	// Phases is false in the verifying run; a count in the line "exit".
	Phases json.RawMessage `json:"phases"`

	// torch
	Torch      string          `json:"torch"`
	CUDA       string          `json:"cuda"`
	HIP        string          `json:"hip"`
	Extensions []extensionLine `json:"extensions"`

	// device
	Device    json.RawMessage `json:"device"` // an ordinal; the lab's own is a text
	Name      string          `json:"name"`
	UUID      string          `json:"uuid"`
	PCI       string          `json:"pci"`
	Total     *int64          `json:"total_bytes"`
	Allocator *allocatorLine  `json:"allocator"`

	// begin, end, missing
	ID         int64        `json:"id"`
	Parent     *int64       `json:"parent"`
	Step       *int         `json:"step"`
	Pass       string       `json:"pass"`
	Seen       string       `json:"seen"`
	By         string       `json:"by"`
	Inputs     *inputsLine  `json:"inputs"`
	Readings   string       `json:"readings"`
	ReadReason string       `json:"readings_reason"`
	Devices    []deviceLine `json:"devices"`
	Status     string       `json:"status"`
	Error      *errorLine   `json:"error"`
	Duration   *int64       `json:"duration_ns"`
	Result     *resultLine  `json:"result"`
	Threads    bool         `json:"threads"`
	Truncated  *int64       `json:"truncated_tokens"`
	Reason     string       `json:"reason"`

	// lab
	Batch      int64  `json:"batch"`
	Context    int64  `json:"context"`
	Width      int64  `json:"width"`
	Seed       *int64 `json:"seed"`
	Warmup     *int   `json:"warmup"`
	Repeats    *int   `json:"repeats"`
	EmptyCache *bool  `json:"empty_cache_between_repeats"`
	Process    string `json:"process"`

	// impossible, note, snapshot, tokens, steps
	Missing   string          `json:"missing"`
	Detail    string          `json:"detail"`
	Code      string          `json:"code"`
	Text      string          `json:"text"`
	Path      string          `json:"path"`
	Tokens    *int64          `json:"truncated"`
	Sequences *int64          `json:"sequences"`
	Steps     json.RawMessage `json:"steps"`
}

type extensionLine struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type allocatorLine struct {
	Backend      string             `json:"backend"`
	Settings     map[string]*string `json:"settings"`
	PeakReserved string             `json:"peak_reserved"`
}

type inputsLine struct {
	Tensors []tensorLine               `json:"tensors"`
	Values  map[string]json.RawMessage `json:"values"`
	SHA256  string                     `json:"sha256"`
	Given   string                     `json:"given"`
}

type tensorLine struct {
	Name  string  `json:"name"`
	Shape []int64 `json:"shape"`
	Dtype string  `json:"dtype"`
}

type pairLine struct {
	Allocated *int64 `json:"allocated_bytes"`
	Reserved  *int64 `json:"reserved_bytes"`
}

type deviceLine struct {
	Device    int       `json:"device"`
	Start     *pairLine `json:"start"`
	Peak      *pairLine `json:"peak"`
	End       *pairLine `json:"end"`
	PeakSince string    `json:"peak_since"`
	Free      *int64    `json:"device_free_bytes"`
	Total     *int64    `json:"device_total_bytes"`
	Retries   *int64    `json:"num_alloc_retries"`
	Reason    string    `json:"reason"`
}

type errorLine struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

type resultLine struct {
	Loss   json.RawMessage `json:"loss"`
	SHA256 string          `json:"sha256"`
}

func (p *pairLine) counters() Counters {
	if p == nil {
		return Counters{}
	}
	return Counters{Allocated: natural(p.Allocated), Reserved: natural(p.Reserved)}
}

// natural is a count as it was read; nil where it is none.
func natural(n *int64) *int64 {
	if n == nil || *n < 0 {
		return nil
	}
	return n
}

// inUse is what a device holds for everybody, of one reading.
func (d *deviceLine) inUse() *int64 {
	if d.Free == nil || d.Total == nil || *d.Free < 0 || *d.Total < *d.Free {
		return nil
	}
	n := *d.Total - *d.Free
	return &n
}

// text is an error in one line of text.
func (e *errorLine) text() string {
	switch {
	case e == nil:
		return ""
	case e.Message == "":
		return e.Type
	}
	return e.Type + ": " + e.Message
}

// observed are the dimensions that a program named, as they were processed.
func (in *inputsLine) observed() map[string]int64 {
	dimensions := map[string]int64{}
	for name, raw := range in.Values {
		var n int64
		if json.Unmarshal(raw, &n) == nil && n >= 0 {
			dimensions[name] = n
		}
	}
	return dimensions
}
