package record

// Comparison sets two pieces of evidence side by side, at like scope.
type Comparison struct {
	Head
	A       string          `json:"a"`
	B       string          `json:"b"`
	Changed []ChangedField  `json:"changed"`
	Rows    []ComparisonRow `json:"rows"`
	// Residual is what no row shows, for each device: the rows and it sum to the
	// totals on both sides.
	Residual []ComparisonRow `json:"residual"`
	Totals   []ComparisonRow `json:"totals"`
}

// ChangedField is something that differs between the two and may be why.
type ChangedField struct {
	Field string `json:"field"`
	A     string `json:"a"`
	B     string `json:"b"`
}

// ComparisonRow is one term, or the allocations of one stack, on both sides.
type ComparisonRow struct {
	Term            string   `json:"term"`
	Scope           string   `json:"scope"`
	Phase           *string  `json:"phase"`
	Rank            *int     `json:"rank"`
	Device          *int     `json:"device"`
	Stack           []string `json:"stack"`
	ABytes          *int64   `json:"a_bytes"`
	BBytes          *int64   `json:"b_bytes"`
	DifferenceBytes *int64   `json:"difference_bytes"`
	ACount          *int     `json:"a_count"`
	BCount          *int     `json:"b_count"`
	Cause           *string  `json:"cause"`
}
