package dtype

import (
	"testing"

	"floodmark/internal/checklist"
)

func TestSize(t *testing.T) {
	checklist.Covers(t, 173)
	for _, c := range []struct {
		format Format
		shape  []int64
		want   int64
	}{
		{F32, nil, 4},
		{BF16, []int64{4096, 4096}, 33_554_432},
		{F16, []int64{7_000_000_000}, 14_000_000_000},
		{F8E4M3, []int64{3, 5}, 15},
		{I8, []int64{70_600_000_000}, 70_600_000_000},
		{U4, []int64{7_000_000_000}, 3_500_000_000},
		{U4, []int64{3, 5}, 9},
		{F32, []int64{0, 4}, 0},
	} {
		got, ok := c.format.Size(c.shape)
		if !ok || got != c.want {
			t.Errorf("%s%v = %d, %v; want %d", c.format, c.shape, got, ok, c.want)
		}
	}
	for _, shape := range [][]int64{{-1}, {1 << 40, 1 << 40}} {
		if _, ok := F32.Size(shape); ok {
			t.Errorf("F32%v was given a size", shape)
		}
	}
	if _, ok := Unknown.Size([]int64{1}); ok {
		t.Error("an unknown format was given a size")
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]Format{"torch.bfloat16": BF16, "BF16": BF16, "half": F16, "F8_E4M3": F8E4M3, "float8_e4m3fn": F8E4M3, "U8": U8, "float32": F32, "torch.uint16": U16, "q4_k": Q4_K} {
		if got, ok := Parse(name); !ok || got != want {
			t.Errorf("Parse(%q) = %s, %v", name, got, ok)
		}
	}
	for f := F64; f < formatCount; f++ {
		if got, ok := Parse(f.String()); !ok || got != f {
			t.Errorf("%s does not read back", f)
		}
	}
	if _, ok := Parse("auto"); ok {
		t.Error(`"auto" is not a format`)
	}
}
