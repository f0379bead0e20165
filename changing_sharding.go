package floodmark

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/workload"
)

// dividedBy is the request with another way to divide the states: "zero3", or
// "zero3@8" with so many data-parallel ranks. What the kinds have in common stays
// as it was declared.
func (r Request) dividedBy(value string) (Request, error) {
	name, ranks, counted := strings.Cut(value, "@")
	kind, err := workload.ParseSharding(name)
	if err != nil {
		return r, err
	}
	if counted {
		n, err := strconv.Atoi(ranks)
		if err != nil || n < 2 || n > workload.MaxDegree {
			return r, fmt.Errorf("%q is no number of ranks from 2 to %d", ranks, workload.MaxDegree)
		}
		r.Workload.Mesh.DataParallel = n
	}
	if r.Workload.Mesh.DataParallel < 2 {
		return r, errors.New("one rank has nobody to divide with: write KIND@RANKS")
	}
	s := workload.Sharding{}
	if was := r.Workload.Training.Sharding; was != nil {
		s = *was
	}
	s.Kind = kind
	r.Workload.Training.Sharding = &s
	return r, nil
}

// offloading is the request with a part of the states in main memory.
func (r Request) offloading(value string) (Request, error) {
	state := workload.OffloadedState(value)
	if !slices.Contains(workload.OffloadedStates(), state) {
		return r, fmt.Errorf("%q is not %s", value, strings.Join(workload.OffloadNames(), ", "))
	}
	was := r.Workload.Training.Sharding
	if was == nil {
		return r, errors.New("it is the sharding that offloads: declare one (--sharding)")
	}
	s := *was
	s.Offload = append(slices.Clone(s.Offload), state)
	r.Workload.Training.Sharding = &s
	return r, nil
}

// shardings are the kinds that divide more than the declared one, those that
// gather least first; on one rank over the fewest cards.
func (p *Prediction) shardings() []string {
	w := p.Request.Workload
	ranks := w.Mesh.DataParallel
	if w.Mesh.Ranks() == 1 {
		return []string{"zero2@2", "fsdp2@2", "fsdp2@4", "fsdp2@8"}
	}
	if ranks < 2 || ranks != w.Mesh.Ranks() {
		return nil
	}
	more := []workload.ShardingKind{workload.ZeRO1, workload.ZeRO2, workload.ZeRO3, workload.FSDP2}
	if s := w.Training.Sharding; s != nil {
		more = more[slices.Index(more, s.Kind)+1:]
	}
	var list []string
	for _, k := range more {
		list = append(list, string(k))
	}
	return list
}

// offloads are what the declared sharding can put into main memory, and does not
// yet.
func (p *Prediction) offloads() []string {
	s := p.Request.Workload.Training.Sharding
	if s == nil || len(s.Offload) > 0 {
		return nil
	}
	switch s.Kind {
	case workload.ZeRO1, workload.ZeRO2, workload.ZeRO3:
		return []string{string(workload.OffloadOptimizer)}
	case workload.FSDP1, workload.FSDP2:
		return []string{string(workload.OffloadParameters)}
	}
	return nil
}

// savingOn is the request with the full copy of a checkpoint put together
// elsewhere.
func (r Request) savingOn(value string) (Request, error) {
	was := r.Workload.Training.Save
	if was == nil {
		return r, errors.New("the workload saves no full copy (--save-copy)")
	}
	s := *was
	var err error
	if s.On, s.Offload, err = workload.ParseSaveOn(value); err != nil {
		return r, err
	}
	r.Workload.Training.Save = &s
	return r, nil
}
