package modules

import (
	_ "embed"
	"strings"

	"floodmark/model"
)

// The minor releases of transformers 4 in which its modules changed what they
// allocate, as recordings of each release show.
const (
	sharedRotary     = 43 // one pair of rotary tables for all layers
	wideLossAlone    = 45 // logits are made 32 bits wide for the loss alone
	sharedAttention  = 48 // one function of attention for all classes, which copies heads that lie apart
	paddedLabels     = 49 // labels are shifted, where logits were, which copied them
	groupedAttention = 54 // fused attention takes groups of heads as they are
	apartAttention   = 56 // and heads that lie apart
)

// releasesTable is the releases of which recordings show that a program holds.
//
//go:embed releases.tsv
var releasesTable string

// anyEncoder stands in the table for every class of an encoder of text.
const anyEncoder = "encoder"

// Recorded reports a release of transformers whose modules of a model have a
// program: the newest of release 5, or one that recordings of its own or of both
// its neighbours show to be held (releases.tsv).
func Recorded(m *model.Model, r Release) bool {
	if r == (Release{}) || r.Major > 4 {
		return true
	}
	encodes := len(m.Stacks) == 1 && m.Stacks[0].Kind == model.Encoder
	for line := range strings.Lines(releasesTable) {
		words := strings.Fields(line)
		if len(words) != 3 || words[0] != m.Type && (words[0] != anyEncoder || !encodes) {
			continue
		}
		from, err := ParseRelease(words[1])
		to, err2 := ParseRelease(words[2])
		if err == nil && err2 == nil && !r.less(from) && !to.less(r) {
			return true
		}
	}
	return false
}

// less orders releases by their two numbers.
func (r Release) less(o Release) bool {
	return r.Major < o.Major || r.Major == o.Major && r.Minor < o.Minor
}

// olderThan reports modules of transformers older than release 4.minor.
func (n *Net) olderThan(minor int) bool {
	return n.o.Software == Transformers && n.o.Release != (Release{}) && n.o.Release.less(Release{Major: 4, Minor: minor})
}

// copiesHeads reports releases that give fused attention copies of heads that lie
// apart (sdpa_attention_forward of
// https://github.com/huggingface/transformers/blob/v4.48.3/src/transformers/integrations/sdpa_attention.py).
func (n *Net) copiesHeads() bool { return !n.olderThan(sharedAttention) && n.olderThan(apartAttention) }
