package megatron_test

import (
	"strings"
	"testing"

	"floodmark/account"
)

// After a step stand the gradients that stand for those of matrices, one of each shape,
// as the release has it: none below TransformerEngine 2.3 (0.12), those of its own
// products from 0.13 on, of the output layer from 0.14, of experts from 0.16.
func TestStandingGradients(t *testing.T) {
	a := small("num-experts", "8", "moe-router-topk", "2", "disable-bias-linear", "true")
	const text = "inputs: {only: {context: 1024, micro_batch: 1}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: distributed}, megatron: {grouped_gemm: true, dispatcher: alltoall}}\n"
	const attention, output, experts = 2 * (1536*512 + 512*512), 2 * 50304 * 512, 2 * (2048*512 + 512*2048)
	before := int64(0)
	for _, c := range []struct {
		version string
		more    int64
	}{{"0.12", 0}, {"0.13", attention}, {"0.14", output}, {"0.15", 0}, {"0.16", experts}, {"", 0}} {
		list, err := laidBy(c.version, "Hopper", a, text)
		if err != nil {
			t.Fatal(err)
		}
		stands := alive(list[0], account.TermWorkspace)
		if c.version != "0.12" && stands-before != c.more {
			t.Errorf("%s keeps %d bytes more than the release before, want %d", c.version, stands-before, c.more)
		}
		before = stands
	}
}

// Below TransformerEngine 2.3 norms in 8 bits leave their bytes by rows beside those by
// columns: two norms of a layer, 1,024 positions of 512 bytes and a scale each.
func TestNormsOfBothSides(t *testing.T) {
	text := strings.Replace(in8, "RECIPE", "delayed", 1)
	peak := func(version string) int64 {
		list, err := laidBy(version, "Hopper", small(), text)
		if err != nil {
			t.Fatal(err)
		}
		return mostActive(list[0])
	}
	if more := peak("0.12") - peak("0.13"); more != 12*2*1024*512 {
		t.Errorf("%d bytes more, want %d", more, 12*2*1024*512)
	}
}
