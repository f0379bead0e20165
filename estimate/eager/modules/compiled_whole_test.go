package modules

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/torch"
)

// Of a whole model that is compiled after fully_shard, PyTorch 2.3 made a graph of each
// block and one of the last norm: no graph has the products of two blocks, or the head's.
// What they keep is what the regions here keep.
func TestCompiledWholeModelBreaksAtItsBlocks(t *testing.T) {
	blocks, norms := 0, 0
	for _, g := range wholeGraphs(t) {
		switch {
		case g.products == blockProducts && g.attentions == 1:
			blocks++
			r := g.region
			r.kept = (&Net{}).keptBy(&layer{})
			if got := keptBytes(r); !slices.Equal(got, g.kept) {
				t.Errorf("a block keeps %v, recorded are %v", got, g.kept)
			}
		case g.products == 0 && g.attentions == 0 && len(g.kept) > 0:
			norms++
			if got := g.normKeeps(func(n *Net, w, x torch.Tensor) torch.Tensor { return n.compiledNorm(w, x) }); !slices.Equal(got, g.kept) {
				t.Errorf("the norm keeps %v, recorded are %v", got, g.kept)
			}
			if got := g.normKeeps(func(n *Net, w, x torch.Tensor) torch.Tensor { return n.titanNorm(w, x) }); slices.Equal(got, g.kept) {
				t.Errorf("the norm of operators keeps %v too", got)
			}
		case g.products > 0:
			t.Errorf("a graph has %d products and %d attentions", g.products, g.attentions)
		}
		if blocks > g.layers {
			t.Errorf("%d graphs of blocks of %d layers", blocks, g.layers)
		}
	}
	if blocks < 2 || norms != 1 {
		t.Errorf("%d graphs are of blocks and %d of norms", blocks, norms)
	}
}

// blockProducts are the products of matrices in a block.
const blockProducts = 7

// wholeGraph is a graph of testdata/compiled/whole.txt.
type wholeGraph struct {
	region
	layers, products, attentions int
	kept                         []int64
}

func wholeGraphs(t *testing.T) (list []wholeGraph) {
	data, err := os.ReadFile("../../../testdata/compiled/whole.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		what, bytes, _ := strings.Cut(line, " :")
		g, release := wholeGraph{region: region{format: dtype.BF16}}, ""
		var vocabulary, embeddings int64
		if _, err := fmt.Sscan(what, &release, &g.layers, &g.batch, &g.length, &g.width, &g.heads, &vocabulary, &g.inner, &g.products, &g.attentions, &embeddings); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		g.kvHeads, g.head, g.kept = g.heads, g.width/g.heads, numbers(bytes)
		list = append(list, g)
	}
	return list
}

// normKeeps is what a norm keeps beside its input, its weight and its output.
func (g wholeGraph) normKeeps(norm func(n *Net, w, x torch.Tensor) torch.Tensor) []int64 {
	m := torch.New(torch.Options{Device: torch.H100()})
	x, w := m.Parameter(g.format, true, g.batch*g.length, g.width), m.Parameter(g.format, true, g.width)
	kept, _ := heldAfter(m, func() torch.Tensor {
		return norm(&Net{m: m, o: Options{Release: Release{Major: 0, Minor: 1, Day: 20240326}}}, w, x)
	})
	at := slices.Index(kept, 2*g.batch*g.length*g.width) // its output
	return slices.Delete(kept, at, at+1)
}
