package torch_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// TestNF4 packs a weight of 4096 × 11008, copies it, loads it and multiplies with it:
// what stands at once, and what stays.
func TestNF4(t *testing.T) {
	const elements = 4096 * 11008
	const blocks = elements / 64
	const stays = elements/2 + blocks + 2*blocks + 2 + 32 // words, scales, factors, the mean, the table
	m := torch.New(torch.Options{Device: torch.CPU()})
	levels := func(work func()) (peak, end int64) {
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		from := len(tl.Events)
		work()
		level := int64(0)
		for i, e := range tl.Events {
			switch size := tl.Allocs[e.Alloc].Requested; e.Kind {
			case timeline.Born:
				level += size
			case timeline.FreeCompleted:
				level -= size
			}
			if i >= from {
				peak = max(peak, level)
			}
		}
		return peak, level
	}
	m.Phase(account.PhaseModelLoad, 0)
	var weight, copied torch.Packed
	for _, c := range []struct {
		name      string
		work      func()
		peak, end int64
	}{
		// The weight, its scaled copy, the distances before and after abs, and the
		// largest of each block; the words are not there yet.
		{"pack", func() {
			wide := m.Parameter(dtype.BF16, false, 11008, 4096)
			weight = m.ToNF4(wide)
			m.Drop(wide)
		}, (2+2+32+32)*elements + 2*blocks + 3*blocks + 2 + 32, stays},
		// The same beside the first.
		{"clone", func() { copied = m.CloneNF4(weight) }, stays + (2+2+32+32)*elements + 2*blocks + 3*blocks + 2 + 32, 2 * stays},
		{"load", func() { m.LoadNF4(&copied) }, 2*stays + (2+2+32+32)*elements + 2*blocks + 3*blocks + 2 + 32, 2 * stays},
		// Indices of both halves in 64 bits, their values twice, the scales, and the
		// weight; the output comes when all but the weight is gone.
		{"product", func() {
			x := m.Input(dtype.BF16, 8, 4096)
			m.Drop(m.Keep(m.Linear4Bit(x, copied, torch.Tensor{})), x)
		}, 2*stays + 8*4096*2 + (8+2+2+2)*elements + 2*blocks, 2 * stays},
		// The table goes first.
		{"drop", func() { m.DropNF4(weight); m.DropNF4(copied) }, 2*stays - 32, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if peak, end := levels(c.work); peak != c.peak || end != c.end {
				t.Errorf("peak %d and then %d, want %d and %d", peak, end, c.peak, c.end)
			}
		})
	}
}
