package record

// CardVerdict is the answer for one card of the catalogue under every rank.
type CardVerdict struct {
	ID                string  `json:"id"`
	Name              *string `json:"name"`
	ReportedBytes     *int64  `json:"reported_bytes"`
	ReportedLowBytes  *int64  `json:"reported_low_bytes,omitempty"`
	ReportedHighBytes *int64  `json:"reported_high_bytes,omitempty"`
	ComputeCapability *string `json:"compute_capability"`
	Verdict           Verdict `json:"verdict"`
	ShortBytes        *int64  `json:"short_bytes"` // that are lacking at least; null unless it does not fit
	Note              *string `json:"note"`        // what the card does in software because it lacks it
}

// Shared is several workloads as processes on one device. Each process peaks
// when it pleases: nobody declared that the peaks coincide or that they do not,
// so that the sum of the peaks is the high, and one peak beside what the others
// keep is the low.
type Shared struct {
	Device    string    `json:"device"`
	Card      *Device   `json:"card"`
	Processes []Process `json:"processes"`
	Bytes     *int64    `json:"bytes"` // that the device must hold
	LowBytes  *int64    `json:"low_bytes,omitempty"`
	HighBytes *int64    `json:"high_bytes,omitempty"`
}

// Process is one workload of a shared device.
type Process struct {
	Name          string  `json:"name"`
	Model         *string `json:"model"`
	Engine        string  `json:"engine"`
	Phase         string  `json:"phase"` // in which it stands highest
	PeakBytes     *int64  `json:"peak_bytes"`
	PeakLowBytes  *int64  `json:"peak_low_bytes,omitempty"`
	PeakHighBytes *int64  `json:"peak_high_bytes,omitempty"`
	KeptBytes     int64   `json:"kept_bytes"` // at least, between its phases once it is loaded
	Term          *string `json:"term"`       // that holds most at its peak
}
