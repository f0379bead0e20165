package vllm

import (
	"floodmark/account"
	"floodmark/estimate"
)

// share is what decides which share of its card this rank can be given.
func (l *layout) share() *estimate.Share {
	p := provenance(budgetFormula, l.o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	r := l.r
	s := &estimate.Share{Given: l.o.Utilization, Initial: r.initial, Beside: l.beside(),
		Spent: r.spent}
	if r.unknown != "" {
		s.Request = account.Unknown(r.unknown, p)
		return s
	}
	s.Request = account.Exact(r.pool.perRequest(l.o, l.o.maxLength), p).Times(r.pool.blockBytes)
	return s
}
