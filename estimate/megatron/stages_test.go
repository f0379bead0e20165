package megatron

import (
	"slices"
	"testing"

	"floodmark/workload"
)

// Layers that stages share otherwise than evenly.
func TestDivision(t *testing.T) {
	for _, c := range []struct {
		layers, stages, chunks int
		m                      workload.Megatron
		want                   []int // nil where it is refused
	}{
		{15, 2, 4, workload.Megatron{Layout: "Et*3|(tt|)*6L"}, []int{3, 2, 2, 2, 2, 2, 2, 0}},
		{61, 4, 1, workload.Megatron{LastLayers: 13}, []int{16, 16, 16, 13}},
		{12, 4, 1, workload.Megatron{FirstLayers: 2, LastLayers: 4}, []int{2, 3, 3, 4}},
		{20, 4, 2, workload.Megatron{FirstLayers: 4, LastLayers: 4}, []int{2, 3, 3, 2, 2, 3, 3, 2}},
		{20, 2, 1, workload.Megatron{FirstLayers: 8, LastLayers: 12}, []int{8, 12}},
		{6, 4, 2, workload.Megatron{CountEmbedding: true, CountLoss: true}, []int{0, 1, 1, 1, 1, 1, 1, 0}},
		{7, 4, 1, workload.Megatron{CountLoss: true}, []int{2, 2, 2, 1}},
		{8, 4, 1, workload.Megatron{CountLoss: true}, nil},
		{12, 4, 2, workload.Megatron{FirstLayers: 3}, nil},
		{12, 4, 1, workload.Megatron{FirstLayers: 20}, nil},
		{12, 4, 1, workload.Megatron{FirstLayers: 3, CountLoss: true}, nil},
	} {
		got, err := division(c.stages, c.chunks, c.m)(c.layers)
		if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%d layers over %d × %d, %+v: %v (%v), want %v", c.layers, c.stages, c.chunks, c.m, got, err, c.want)
		}
	}
}
