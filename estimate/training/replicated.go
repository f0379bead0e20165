package training

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
)

// firstBucket is the bytes after which DistributedDataParallel reduces for the
// first time in a backward (torch/nn/parallel/distributed.py,
// _DEFAULT_FIRST_BUCKET_BYTES).
const firstBucket = 1 << 20

// replicated is DistributedDataParallel: every rank holds everything. Its buckets
// stand beside the gradients from when it is made, unless gradients are views
// into them.
type replicated struct {
	divided
	buckets []torch.Tensor
}

func (r *replicated) keepsGradients() bool { return r.BucketView != nil && *r.BucketView }

func (r *replicated) hold() []*parameter {
	tuned := r.trained()
	sizes := make([]int64, len(tuned))
	for i, p := range tuned {
		sizes[i] = p.in(r.formatsOf(p).gradient.Format)
	}
	for _, bytes := range bucketed(sizes, firstBucket, r.BucketBytes) {
		if r.ops != nil {
			r.buckets = append(r.buckets, r.machine.Bucket("reducer", dtype.U8, bytes))
		} else {
			r.born(r.bucketTerm(), bytes)
		}
	}
	if !r.keepsGradients() || r.ops == nil {
		return tuned
	}
	for i, p := range tuned {
		bucket := r.bucketOf(sizes, i)
		r.machine.WhenAccumulated(p.tensor, func() {
			r.machine.ZeroGrad(p.tensor, true)
			r.machine.GradIn(p.tensor, bucket)
		})
	}
	return tuned
}

// bucketOf is the bucket of a parameter.
func (r *replicated) bucketOf(sizes []int64, index int) torch.Tensor {
	n := len(bucketed(sizes[index:], firstBucket, r.BucketBytes))
	return r.buckets[min(n, len(r.buckets))-1]
}
