package megatron

import (
	"strings"

	"floodmark/parallel"
	"floodmark/workload"
)

// division is how many layers each piece of a pipeline has; nil where all have as
// many.
func division(stages, chunks int, m workload.Megatron) func(int) ([]int, error) {
	switch {
	case m.Layout != "":
		return func(int) ([]int, error) { return letters(m.Layout, stages, chunks) }
	case m.FirstLayers != 0 || m.LastLayers != 0:
		if m.CountEmbedding || m.CountLoss {
			return func(int) ([]int, error) {
				return nil, refuse("embedding and loss count as no layer where the layers of the first or last stage are said")
			}
		}
		return func(layers int) ([]int, error) {
			return ends(layers, stages, chunks, int(m.FirstLayers), int(m.LastLayers))
		}
	case m.CountEmbedding || m.CountLoss:
		return func(layers int) ([]int, error) { return counted(layers, stages*chunks, m.CountEmbedding, m.CountLoss) }
	}
	return nil
}

// evenly divides layers over parts.
func evenly(layers, parts int) (int, error) {
	if layers < 0 || layers%parts != 0 {
		return 0, refuse("%d layers are not a multiple of the %d parts of the pipeline that share them", layers, parts)
	}
	return layers / parts, nil
}

// ends is a division in which the first and the last stage have layers of their own
// number, 0 where they do not; stages divide theirs over their pieces
// (get_num_layers_to_build of megatron/core/transformer/transformer_block.py). 61
// layers over 4 stages, 13 on the last: 16, 16, 16, 13.
func ends(layers, stages, chunks, first, last int) ([]int, error) {
	others, left := stages, layers
	for _, n := range []int{first, last} {
		if n != 0 {
			others, left = others-1, left-n
		}
	}
	each := 0
	if others > 0 {
		var err error
		if each, err = evenly(left, others); err != nil {
			return nil, err
		}
	}
	var counts []int
	for i := range stages * chunks {
		n := each
		switch stage := i % stages; {
		case stage == 0 && first != 0:
			n = first
		case stage == stages-1 && last != 0:
			n = last
		}
		n, err := evenly(n, chunks)
		if err != nil {
			return nil, err
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// counted is a division in which the embedding and the loss take the place of a
// layer. 6 layers and both over 8 pieces: 0, 1, 1, 1, 1, 1, 1, 0.
func counted(layers, pieces int, embedding, loss bool) ([]int, error) {
	places := layers
	for _, on := range []bool{embedding, loss} {
		if on {
			places++
		}
	}
	each, err := evenly(places, pieces)
	if err != nil {
		return nil, err
	}
	counts := make([]int, pieces)
	for i := range counts {
		counts[i] = each
	}
	if embedding {
		counts[0]--
	}
	if loss {
		counts[pieces-1]--
	}
	return counts, nil
}

// letters is the layers of each piece of a layout.
func letters(layout string, stages, chunks int) ([]int, error) {
	pieces, err := workload.PipelinePieces(layout)
	switch {
	case err != nil:
		return nil, refuse("the layout %s %v", layout, err)
	case len(pieces) != stages*chunks:
		return nil, refuse("the layout %s has %d pieces, and %d stages of %d each run %d", layout, len(pieces), stages, chunks, stages*chunks)
	case strings.Contains(strings.Join(pieces, ""), "m"):
		return nil, parallel.NotModelled("layers that predict ahead (m in the layout %s) are not modelled for Megatron-LM", layout)
	}
	var counts []int
	for _, piece := range pieces {
		counts = append(counts, strings.Count(piece, "t"))
	}
	return counts, nil
}
