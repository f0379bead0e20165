package floodmark

import (
	"slices"

	"floodmark/parallel"
	"floodmark/workload"
)

// rankClasses sets rank 0 apart from the ranks that are equal to it but for what
// it alone does: gathering what is saved.
func rankClasses(plans []parallel.RankPlan, w workload.Workload) []parallel.RankPlan {
	t := w.Training
	if t == nil || t.Save == nil || t.Save.On != workload.OnRankZero || w.Mesh.DataParallel < 2 {
		return plans
	}
	var list []parallel.RankPlan
	for _, p := range plans {
		if len(p.Ranks) < 2 || p.Ranks[0] != 0 {
			list = append(list, p)
			continue
		}
		first, rest := p, p
		first.Ranks, rest.Ranks = slices.Clone(p.Ranks[:1]), slices.Clone(p.Ranks[1:])
		list = append(list, first, rest)
	}
	return list
}
