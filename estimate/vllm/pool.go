package vllm

import (
	"floodmark/bytesize"
)

// group is layers that share one table of blocks.
type group struct {
	spec
	layers int64
}

// pool is how the cache of a model is cut into blocks.
type pool struct {
	groups []group
	// blockBytes is what one block takes in all layers of a rank that hold one.
	blockBytes int64
	smallest   int64 // positions of the shortest block
	merged     bool  // one group of layers that differ only in their bytes
}

// group cuts layers into groups (get_kv_cache_groups of
// vllm/v1/core/kv_cache_utils.py). Layers that all need a slot for every
// position are one group, whatever the bytes of a slot. Else a group has as many
// layers as the kind with the fewest, or the most when that is near, and one
// block takes the same in every group; kinds that do not divide are padded.
// Worked number: 10 global layers and 52 of a window are 1 and 6 groups of 10:
// 70 places for 62 layers.
func (o *options) group(list []spec) (p pool, unknown string) {
	if len(list) == 0 {
		return pool{}, ""
	}
	p.smallest = list[0].block
	alike, largest := true, int64(0)
	for _, s := range list {
		if s.block > 0 && (s.block < p.smallest || p.smallest == 0) {
			p.smallest = s.block
		}
		alike = alike && s.kind == list[0].kind && s.span == list[0].span && (s.block == list[0].block)
		largest = max(largest, s.page)
	}
	if alike {
		p.merged = true
		for _, s := range list {
			p.blockBytes += s.page
		}
		p.groups = []group{{spec: list[0], layers: int64(len(list))}}
		return p, ""
	}
	var order []spec
	count := map[spec]int64{}
	for _, s := range list {
		if s.page < largest {
			if s.kind == recurrent || largest%s.page != 0 {
				return pool{}, "layers whose pages do not divide each other cannot share one pool, which this engine refuses"
			}
			s.block *= largest / s.page
			s.page = largest
		}
		if count[s] == 0 {
			order = append(order, s)
		}
		count[s]++
	}
	least, most := count[order[0]], int64(0)
	for _, s := range order {
		least, most = min(least, count[s]), max(most, count[s])
	}
	size := least
	if float64(most) < float64(least)*o.groups.ratio {
		size = most
	}
	for _, s := range order {
		for range bytesize.CeilDiv(count[s], size) {
			p.groups = append(p.groups, group{spec: s, layers: size})
		}
	}
	p.blockBytes = size * largest
	return p, ""
}

// perRequest is how many blocks one request of a length takes at most.
func (p pool) perRequest(o *options, length int64) int64 {
	var blocks int64
	for _, g := range p.groups {
		blocks += g.perRequest(o, length)
	}
	return blocks
}

// tokens is what the engine reports that so many blocks hold: of groups with
// tables of their own, each has its part of the blocks.
func (p pool) tokens(o *options, blocks int64) int64 {
	if len(p.groups) == 0 || blocks < 1 {
		return 0
	}
	context := int64(max(1, o.DecodeContext))
	if o.byConcurrency {
		// int(concurrency × length), as Python computes it.
		return int64(float64(blocks) / float64(max(1, p.perRequest(o, o.maxLength))) * float64(o.maxLength))
	}
	return blocks / int64(len(p.groups)) * p.smallest * context
}

// longest is the longest request that so many blocks hold; 0 for none.
func (p pool) longest(o *options, blocks, most int64) int64 {
	low, high := int64(0), most
	for low < high {
		mid := low + (high-low+1)/2
		if p.perRequest(o, mid) <= blocks {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}
