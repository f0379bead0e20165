package vllm

import (
	"floodmark/account"
	"floodmark/estimate"
	"floodmark/parallel"
)

// rank is what one class of ranks spends of its budget.
type rank struct {
	plan      parallel.RankPlan
	weights   weights
	profile   profile
	initial   account.Figure
	nonTorch  account.Figure
	graphs    account.Figure
	charged   account.Figure // of graphs, before they are captured
	held      account.Figure
	others    account.Figure // of other processes, where the budget pays for them
	requested account.Figure
	spent     account.Figure // of the budget, before the cache
	available account.Figure // of the budget for the cache
	pool      pool
	unknown   string // why the cache is not known
}

// spend is the budget of a rank: what the engine asks for, less weights, the
// higher peak of the trial run, what came into use outside the allocator, and in
// newer versions the estimated graphs (determine_available_memory).
func (o *options) spend(in estimate.Input, plan parallel.RankPlan) rank {
	r := rank{plan: plan, weights: o.weightsOf(in, plan), profile: o.profileOf(in, plan),
		initial: initial(in, plan), nonTorch: o.nonTorch(in, plan), graphs: o.graphs(in, plan), held: o.held(in, plan)}
	p := provenance(budgetFormula, o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	r.requested = o.requested(in.Memory.Total)
	r.charged = account.Zero("this version takes no graphs off the cache", p)
	if o.chargesGraphs {
		r.charged = o.estimated(r.graphs)
	}
	if o.wholeCard {
		// Some logs print it without the context that was there before.
		all := account.Sum(r.nonTorch.Provenance, r.nonTorch, r.initial)
		if most, known := all.High(); known {
			r.nonTorch = account.Between(r.nonTorch.Low(), most, all.Provenance)
		} else {
			r.nonTorch = all
		}
		r.initial = account.Zero("this generation charges it to the budget, with what came later", r.initial.Provenance)
	}
	r.others = o.ofOthers(in.Memory, p)
	r.spent = account.Sum(p, r.weights.all, r.profile.peak, r.nonTorch, r.charged, r.others)
	r.available = r.requested.Minus(r.spent, p)
	if o.CacheBytes > 0 {
		r.available = account.Exact(o.CacheBytes, p)
	}
	list, why := o.specs(in, plan)
	if why == "" {
		list, why = paged(list, hasLatent(in, plan))
	}
	if why == "" {
		r.pool, why = o.group(list)
	}
	r.unknown = why
	return r
}

// ofOthers is what other processes hold of the card when the engine starts, as far
// as its budget pays for it. Worked number: of 0.2 × 23,609,475,072 bytes a
// TinyLlama that needs 3,099,983,872 has 4,499 blocks left, and the next, which is
// charged the first one's as well, less than none
// (https://github.com/vllm-project/vllm/issues/4242).
func (o *options) ofOthers(m estimate.Memory, p account.Provenance) account.Figure {
	switch {
	case o.others == never:
		return account.Zero("this version takes nothing of other processes off the cache", p)
	case !m.Free.Known() || !m.Total.Known():
		return account.Zero("no other owner of the card was declared (--free)", p)
	}
	held := m.Total.Minus(m.Free, p)
	low, most := max(0, held.Low()), max(0, high(held))
	if o.others == perhaps {
		low = 0
	}
	return account.Between(low, most, p)
}

// estimated is the engine's own estimate of graphs that it has not captured yet:
// it was 0.5 to 2.3 times what they took.
func (o *options) estimated(graphs account.Figure) account.Figure {
	high, known := graphs.High()
	if !known {
		return graphs
	}
	return account.Between(graphs.Low()/2, high*23/10, graphs.Provenance)
}

// blocks is how many blocks the cache has on every rank: as many as the rank
// with the least room takes (get_kv_cache_configs).
func (o *options) blocks(ranks []rank) account.Figure {
	p := provenance(blocksFormula, o.link("vllm/v1/core/kv_cache_utils.py"), account.Process)
	if o.Blocks > 0 {
		return account.Exact(o.Blocks, p)
	}
	least, bounded := int64(-1), true
	most, reason := int64(-1), ""
	for _, r := range ranks {
		high, known := r.available.High()
		switch {
		case r.unknown != "":
			return account.Unknown(r.unknown, p)
		case len(r.pool.groups) == 0:
			continue // a stage without a cache limits nothing
		case !known:
			bounded, reason = false, r.available.Reason()
			continue
		}
		low := max(0, r.available.Low()) / r.pool.blockBytes
		high = max(0, high) / r.pool.blockBytes
		if least < 0 || low < least {
			least = low
		}
		if most < 0 || high < most {
			most = high
		}
	}
	switch {
	case !bounded:
		return account.Unknown(reason, p)
	case least < 0:
		return account.Zero("no layer has a cache", p)
	}
	return account.Between(least, most, p)
}

// atRest is what a process holds from the moment at which the cache is there:
// the budget less what only the trial run needed, and beside the budget what was
// in use before it, and what the allocator holds beyond the tensors. Weights,
// kernels and cache add up to it whatever each of them is. Where another stage
// decides how large the cache is, that is the most.
func (r rank) atRest(blocks account.Figure, o *options) account.Figure {
	p := provenance(budgetFormula, o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	transient := account.Highest(p, r.profile.forward, account.Sum(p, r.profile.stream, r.profile.sampler))
	spare := account.Sum(p, transient, r.profile.media, r.charged)
	rest := r.requested.Minus(spare, p).Minus(account.Between(0, r.pool.blockBytes, p), p)
	filled := account.Sum(p, r.initial, rest, r.held)
	most, known := filled.High()
	if r.plan.Mesh.PipelineParallel <= 1 || !known {
		return filled
	}
	parts := account.Sum(p, r.initial, r.weights.all, r.nonTorch, r.profile.stays, r.held, r.cache(blocks))
	return account.Between(min(parts.Low(), most), most, p)
}

// fills reports that the budget decides how large the cache is, and no setting.
func (r rank) fills(o *options) bool {
	return o.CacheBytes == 0 && o.Blocks == 0 && r.unknown == "" && r.pool.blockBytes > 0 && r.available.Low() > 0
}

// cache is the bytes of so many blocks on the rank.
func (r rank) cache(blocks account.Figure) account.Figure {
	p := provenance(cacheFormula, blocks.Source, account.Requested)
	if r.unknown != "" {
		return account.Unknown(r.unknown, p)
	}
	if len(r.pool.groups) == 0 {
		return account.Zero("no layer of the rank has a cache", p)
	}
	return blocks.Times(r.pool.blockBytes).As(p)
}
