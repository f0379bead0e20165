package snapshot

import (
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
)

// frames that a random trace draws from.
func someFrames() [][]string {
	return [][]string{
		nil, {inMain}, {inModel, inMain}, {inLoss, inMain}, {inNode, inEngine}, {inAccumul, inEngine}, {inStep, inMain},
		{inZeroGrad, inMain}, {inCache, inModel}, {inUser, inMain}, {inTo, inMain}, {inSoftmax, inCheckpt, inEngine},
	}
}

// TestComposeAgreesWithTheLevels takes traces that no allocator wrote: births
// over the living, frees of the unborn, requests without completion, blocks that
// contradict them. Whatever they are, what is alive after an entry sums to the
// level there, and every allocation has a verdict.
func TestComposeAgreesWithTheLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newProgram()
		for range rapid.IntRange(0, 60).Draw(t, "entries") {
			action := rapid.SampledFrom(Actions()).Draw(t, "action")
			address := uint64(rapid.IntRange(1, 6).Draw(t, "address")) << 21
			p.now = rapid.SampledFrom([]string{"", "forward", "optimizer_step", "kv_cache"}).Draw(t, "metadata")
			p.entry(action, address, int64(rapid.IntRange(0, 5000).Draw(t, "size")), rapid.SampledFrom(someFrames()).Draw(t, "frames"))
		}
		for i := range rapid.IntRange(0, 6).Draw(t, "blocks") {
			p.blocks = append(p.blocks, Block{
				Address: uint64(i+1) << 21, Size: 8192, Requested: int64(rapid.IntRange(1, 5000).Draw(t, "requested")),
				Stack: p.stack(rapid.SampledFrom(someFrames()).Draw(t, "owner")...), State: State(rapid.IntRange(0, 2).Draw(t, "state")),
			})
		}
		r, s := p.record()
		x := s.Explain(r)
		r.Walk(func(entry int, l Levels) {
			c := x.Compose(entry, account.Requested)
			sum := int64(0)
			for _, share := range c.Shares {
				sum += share.Bytes
			}
			if sum != l.Requested || c.Bytes != l.Requested {
				t.Fatalf("shares sum to %d and bytes are %d after entry %d, where the level is %d", sum, c.Bytes, entry, l.Requested)
			}
			if x.Summary(c, c.Bytes).String() == "" || len(x.ByStack(c)) == 0 && len(c.Allocs) > 0 {
				t.Fatalf("nothing is said of %d allocations", len(c.Allocs))
			}
		})
		for a := range r.Timeline.Allocs {
			if v := x.Verdict(uint32(a)); v.Category == "" || v.Why == "" || (v.Evidence == NoEvidence) != (v.Category == account.CategoryUnattributed) {
				t.Fatalf("allocation %d is %+v", a, v)
			}
		}
	})
}

// Terms make every account say what the composition says.
func TestAttribute(t *testing.T) {
	p := newProgram()
	p.alloc(300, inCache, inModel)
	p.alloc(20, inUser)
	r, s := p.record()
	s.Explain(r).Attribute()
	bytes := map[account.TermID]int64{}
	a := r.Timeline.Account()
	for _, share := range a.Phases[0].AtPeak {
		bytes[a.Terms[share.Term].ID] = share.Bytes.Low()
	}
	if bytes[account.TermKVCache] != 300 || bytes[account.TermUnattributed] != 20 || len(a.Terms) != 2 {
		t.Errorf("terms %+v hold %v", a.Terms, bytes)
	}
}

// Every category has a term, and those that account names have that one.
func TestTermOf(t *testing.T) {
	for category, want := range map[account.Category]account.TermID{
		account.CategoryParameter: account.TermWeights, account.CategoryBuffer: account.TermBuffers, account.CategoryGradient: account.TermGradients,
		account.CategoryOptimizerState: account.TermOptimizerState, account.CategoryActivation: account.TermActivations,
		account.CategoryTemporary: account.TermTemporaries, account.CategoryLogits: account.TermLogits, account.CategoryKVCache: account.TermKVCache,
		account.CategoryCommunication: account.TermCommunication, account.CategoryGraphPool: account.TermGraphPools,
		account.CategoryUnattributed: account.TermUnattributed, account.CategoryAllocatorRounding: account.TermAllocatorRounding,
	} {
		if got := TermOf(category); got != want {
			t.Errorf("%s is counted under %s, want %s", category, got, want)
		}
	}
}
