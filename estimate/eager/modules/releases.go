package modules

import (
	_ "embed"
	"slices"
	"strings"

	"floodmark/model"
)

// change is one of those that modules of transformers 4 went through in what they
// allocate, by the name that it has in the table: from the release that stands
// there the module does what the name says.
type change string

// The changes, as recordings of each release show them.
const (
	indexedTables    change = "indexed_tables"    // positions index rotary tables; before, the rows were gathered
	castNorm         change = "cast_norm"         // a norm casts back last; before, where the weight has 16 bits, before the weight
	narrowNorm       change = "narrow_norm"       // a norm works on a copy of 32 bits, and casts it back before the weight
	narrowTables     change = "narrow_tables"     // rotary tables are kept in the model's format; before, in 32 bits
	plainScores      change = "plain_scores"      // masked scores are used as they are; before, no less than the least number
	groupedHeads     change = "grouped_heads"     // heads of keys may be fewer than of queries
	wideLogits       change = "wide_logits"       // logits are made 32 bits wide
	flashClass       change = "flash_class"       // the package flash-attn can be asked for
	sharedMask       change = "shared_mask"       // without padding one mask serves all sequences; before, each had one
	fusedScores      change = "sdpa"              // scaled_dot_product_attention, for which no mask is made
	bufferedMask     change = "buffered_mask"     // the mask is repeated from a buffer over all positions, for fused attention too
	computedTables   change = "computed_tables"   // a layer computes rotary tables; before, it kept them for all positions
	madeMask         change = "made_mask"         // the mask is made in each pass
	dispensedMask    change = "dispensed_mask"    // fused attention goes without a mask again
	noTables         change = "no_tables"         // rotary tables are kept no more
	wideOffset       change = "wide_offset"       // one and the weight multiply a norm in 32 bits; before, in the stream's format
	sharedRotary     change = "shared_rotary"     // one pair of rotary tables for all layers
	wideLossAlone    change = "wide_loss_alone"   // logits are made 32 bits wide for the loss alone
	sharedAttention  change = "shared_attention"  // one function of attention for all classes, which copies heads that lie apart
	paddedLabels     change = "padded_labels"     // labels are shifted, where logits were, which copied them
	groupedAttention change = "grouped_attention" // fused attention takes groups of heads as they are
	apartAttention   change = "apart_attention"   // and heads that lie apart
	copiedCache      change = "copied_cache"      // the cache copies what it is given; before, it held the keys and values themselves
)

// releasesTable is the releases of which recordings show that a program holds, and
// those in which modules changed.
//
//go:embed releases.tsv
var releasesTable string

// anyEncoder stands in the table for every class of an encoder of text.
const anyEncoder = "encoder"

// Recorded reports a release of transformers whose modules of a model have a
// program: the newest of release 5, or one that recordings of its own or of both
// its neighbours show to be held (releases.tsv).
func Recorded(m *model.Model, r Release) bool {
	if r == (Release{}) || r.Major > 4 || m.Type == qwenType { // whose class is of no release
		return true
	}
	encodes := len(m.Stacks) == 1 && m.Stacks[0].Kind == model.Encoder
	for line := range strings.Lines(releasesTable) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "holds" || words[1] != m.Type && (words[1] != anyEncoder || !encodes) {
			continue
		}
		from, err := ParseRelease(words[2])
		to, err2 := ParseRelease(words[3])
		if err == nil && err2 == nil && !r.less(from) && !to.less(r) {
			return true
		}
	}
	return false
}

// changesAfter is what modules of a class of transformers do not do yet at a
// release. A line of the class overrides one of all classes.
func changesAfter(class string, r Release) map[change]bool {
	later, own := map[change]bool{}, map[change]bool{}
	for line := range strings.Lines(releasesTable) {
		words := strings.Fields(line)
		if len(words) != 4 || words[0] != "since" {
			continue
		}
		named := slices.Contains(strings.Split(words[1], ","), class)
		if !named && words[1] != "*" {
			continue
		}
		since, err := ParseRelease(words[3])
		if what := change(words[2]); err == nil && (named || !own[what]) {
			later[what], own[what] = r.less(since), named
		}
	}
	return later
}

// less orders releases by their two numbers.
func (r Release) less(o Release) bool {
	return r.Major < o.Major || r.Major == o.Major && r.Minor < o.Minor
}

// olderThan reports modules of transformers from before a change.
func (n *Net) olderThan(c change) bool { return n.later[c] }

// copiesHeads reports releases that give fused attention copies of heads that lie
// apart (sdpa_attention_forward of
// https://github.com/huggingface/transformers/blob/v4.48.3/src/transformers/integrations/sdpa_attention.py).
func (n *Net) copiesHeads() bool { return !n.olderThan(sharedAttention) && n.olderThan(apartAttention) }
