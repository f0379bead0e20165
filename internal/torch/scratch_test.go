package torch

import (
	"testing"

	"floodmark/dtype"
)

// TestReductionScratch: partial results and semaphores of sums over rows, as four
// traces recorded them. The last is a sum over everything.
func TestReductionScratch(t *testing.T) {
	for _, c := range []struct {
		device              Device
		rows, columns       int64
		all                 bool
		partial, semaphores int64
	}{
		{A100(), 512, 1024, false, 0, 0},
		{A100(), 1024, 1024, false, 8388608, 32},
		{A100(), 2048, 1024, false, 16777216, 32},
		{A100(), 4096, 1024, false, 33554432, 32},
		{H100(), 4096, 1024, false, 33554432, 32},
		{A100(), 8192, 768, false, 50331648, 24},
		{A100(), 32768, 16, true, 256, 4},
		{RTX4090(), 1024, 10000, true, 1536, 4},
		{CPU(), 4096, 1024, false, 0, 0},
	} {
		m := New(Options{Device: c.device})
		x := m.empty(dtype.F32, []int64{c.rows, c.columns})
		over := [maxDims]bool{true, c.all}
		partial, semaphores := c.device.reductionScratch(x, over)
		if c.device.CPU {
			partial, semaphores = 0, 0
		}
		if partial != c.partial || semaphores != c.semaphores {
			t.Errorf("%s [%d, %d]: %d and %d bytes, recorded %d and %d", c.device.Name, c.rows, c.columns, partial, semaphores, c.partial, c.semaphores)
		}
	}
}

func TestSortScratch(t *testing.T) {
	for n, want := range map[int64]int64{2048: 1, 4096: 72191, 8192: 138751} {
		if got := A100().sortScratch(n); got != want {
			t.Errorf("%d pairs: %d bytes, recorded %d", n, got, want)
		}
	}
}

// TestSplits: one part where queries fill the device, more where they do not.
func TestSplits(t *testing.T) {
	for _, c := range []struct{ blocks, keys, want int64 }{
		{32 * 64, 32, 1}, // a prefill of 4,096 positions over 32 heads
		{32, 32, 6},      // one position over 4,096: 32 × 6 blocks for 216 slots
		{1, 1, 1},
	} {
		if got := A100().splits(c.blocks, c.keys); got != c.want {
			t.Errorf("%d blocks, %d blocks of keys: %d parts, want %d", c.blocks, c.keys, got, c.want)
		}
	}
}

// TestSortedEmbedding is the worked number of its comment: 8,192 ids of a table
// of [128,256, 4,096] in 16 bits.
func TestSortedEmbedding(t *testing.T) {
	m := New(Options{Device: H100()})
	m.before = false
	m.drop(m.sortedEmbedding(dtype.BF16, []int64{128256, 4096}, 8192))
	peak, _ := m.tl.PeakRequested()
	const table, sums, ids = 128256 * 4096 * 2, (8192/10 + 8192) * 4096 * 4, 8 * 8192
	if over := peak - table - sums; over < 5*ids || over > 8*ids {
		t.Errorf("the peak is %d bytes, the table and the sums are %d", peak, table+sums)
	}
}
