package vllm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// rules are what differs between versions. A row holds from its version to the
// next.
type rules struct {
	major, minor int
	tag          string // the release whose source was read for the row
	// wholeCard is the first generation of the engine, whose budget pays for all
	// that is in use on the card outside the allocator, contexts included.
	wholeCard     bool
	utilization   float64
	chargesGraphs bool // an estimate of the CUDA graphs comes off the cache
	groups        grouping
	// byConcurrency: the tokens that are reported are the requests of the longest
	// length that fit, times that length; else the blocks of one group, times a
	// block.
	byConcurrency bool
	sampler       sampling
	source        string // why a row stands that was not read at its own tag
}

// grouping is how layers of several kinds share one pool of blocks.
type grouping struct {
	// together is no groups: windows are given the whole length.
	together bool
	// ratio: where the largest kind has fewer layers than this times the smallest,
	// a group has as many layers as the largest; else as the smallest. 0 is the
	// smallest always.
	ratio float64
}

// sampling is how the dummy requests of the profile are sampled.
type sampling int

const (
	inPlace  sampling = iota // a kernel that filters logits where they are
	sorting                  // sorted copies of all logits with their indices
	eitherOr                 // depends on what else is installed
)

// table lists the rows, oldest first. The rule for groups is _get_kv_cache_groups_uniform_page_size
// of vllm/v1/core/kv_cache_utils.py, the share is CacheConfig of vllm/config/cache.py, and what
// is charged is determine_available_memory of vllm/v1/worker/gpu_worker.py, each at the row's tag.
func table() []rules {
	first := rules{minor: 2, tag: "v0.8.5", wholeCard: true, utilization: 0.9, groups: grouping{together: true}, sampler: eitherOr,
		source: "https://github.com/vllm-project/vllm/pull/2031"}
	engine1 := rules{minor: 8, tag: "v0.8.5", utilization: 0.9, groups: grouping{together: true}, sampler: eitherOr}
	hybrid := engine1
	hybrid.minor, hybrid.tag, hybrid.groups = 11, "v0.11.0", grouping{}
	near := hybrid
	near.minor, near.tag, near.groups = 16, "v0.16.0", grouping{ratio: 1.25}
	triton := near
	triton.minor, triton.sampler = 17, inPlace
	triton.source = "https://github.com/llm-d-incubation/llm-d-planner/pull/205" // 5.64 GiB with 0.15 and 0.16, 2.23 with 0.17 and 0.18
	wider := triton
	wider.minor, wider.tag, wider.groups, wider.source = 19, "v0.19.0", grouping{ratio: 1.5}, ""
	charged := wider
	charged.minor, charged.tag, charged.chargesGraphs = 21, "v0.22.1", true
	charged.source = "https://github.com/vllm-project/vllm/issues/50780"
	larger := charged
	larger.minor, larger.utilization, larger.byConcurrency, larger.source = 22, 0.92, true, ""
	last := larger
	last.minor, last.tag = 27, "v0.27.1"
	return []rules{first, engine1, hybrid, near, triton, wider, charged, larger, last}
}

// of finds the rows of a version, and says in a sentence what was assumed where
// no row was read for it.
func of(version string) (rules, string) {
	rows := table()
	last := rows[len(rows)-1]
	major, minor, ok := parse(version)
	if !ok {
		if version == "" {
			return last, fmt.Sprintf("the workload does not say which version of vLLM runs; the rules of %s are assumed", last.name())
		}
		return last, fmt.Sprintf("%q is no version of vLLM that is known here; the rules of %s are assumed", version, last.name())
	}
	at := slices.IndexFunc(rows, func(r rules) bool { return r.major > major || r.major == major && r.minor > minor })
	row := last
	switch {
	case at == 0:
		return rows[0], fmt.Sprintf("vLLM %s is older than any that was read; the rules of %s are assumed", version, rows[0].name())
	case at > 0:
		row = rows[at-1]
	}
	if row.name() == fmt.Sprintf("%d.%d", major, minor) && row.source == "" {
		return row, ""
	}
	return row, fmt.Sprintf("the source of vLLM %s was not read; the rules of its neighbour %s are assumed", version, row.name())
}

// charge is whether a budget pays for what other processes hold of the card.
type charge int

const (
	never charge = iota
	perhaps
	always
)

// others is whether a version takes what other processes hold off its own budget.
// Up to 0.4.0 the peak was all that is in use on the card, then what came into use
// since the start; 0.6.4 and the second generation up to 0.8 counted everything
// outside the allocator again, until snapshots of both ends were compared
// (https://github.com/vllm-project/vllm/issues/4242,
// https://github.com/vllm-project/vllm/issues/10643,
// https://github.com/vllm-project/vllm/issues/14376).
func others(version string) charge {
	major, minor, ok := parse(version)
	if !ok || major > 0 {
		return never
	}
	switch patch := patchOf(version); {
	case minor < 4, minor == 4 && patch == 0, minor == 6 && patch == 4, minor == 8:
		return always
	case minor == 9:
		return perhaps // the comparison came between its releases
	}
	return never
}

// patchOf is the third number of a version; 0 where it has none.
func patchOf(version string) int {
	parts := strings.SplitN(version, ".", 4)
	if len(parts) < 3 {
		return 0
	}
	digits := strings.IndexFunc(parts[2], func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(parts[2])
	}
	n, _ := strconv.Atoi(parts[2][:digits])
	return n
}

func (r rules) name() string { return fmt.Sprintf("%d.%d", r.major, r.minor) }

// link is a file of the engine at the row's tag.
func (r rules) link(path string) string {
	return "https://github.com/vllm-project/vllm/blob/" + r.tag + "/" + path
}

// parse reads the first two numbers of a version: "v0.19.0rc1" is 0 and 19.
func parse(version string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(strings.TrimSpace(version), "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, a := strconv.Atoi(parts[0])
	minor, b := strconv.Atoi(strings.TrimRightFunc(parts[1], func(r rune) bool { return r < '0' || r > '9' }))
	return major, minor, a == nil && b == nil && major >= 0 && minor >= 0
}
