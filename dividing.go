package floodmark

import (
	"slices"

	"floodmark/estimate"
)

// LayoutError is a layout that the software does not run.
type LayoutError struct {
	Err  error
	Runs []int // degrees of tensor parallelism that do, with all else as it is
}

// Error is the rule that is broken.
func (e *LayoutError) Error() string { return e.Err.Error() }

// Unwrap gives the error of package parallel.
func (e *LayoutError) Unwrap() error { return e.Err }

// runnable lists the degrees of tensor parallelism up to mostTensor that divide a
// model.
func runnable(e estimate.Engine, r Request) []int {
	const mostTensor = 16
	var list []int
	for n := 1; n <= mostTensor; n++ {
		r.Workload.Mesh.TensorParallel = n
		if _, err := divided(e, r); err == nil {
			list = append(list, n)
		}
	}
	return slices.Clip(list)
}
