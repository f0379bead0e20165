package bytesize

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"80 GB", 80_000_000_000},
		{"80 GiB", 85_899_345_920},
		{"80gib", 85_899_345_920},
		{"60.33GiB", 64_778_844_241},
		{"1024", 1024},
		{"0 B", 0},
		{"-1 KiB", -1024},
	} {
		got, err := Parse(c.text)
		if err != nil || got != c.want {
			t.Errorf("Parse(%q) = %d, %v; want %d", c.text, got, err, c.want)
		}
	}
	for _, text := range []string{"", "80G", "80g", "8 K", "GiB", "80 GX", "1e3 GiB", "1_000", "9000000 TiB", "99999999999999999999", "1.2.3 GB"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("Parse(%q) = %d, want an error", text, got)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		bytes int64
		unit  Unit
		want  string
	}{
		{14_000_000_000, GB, "14 GB"},
		{14_000_000_000, GiB, "13.04 GiB"},
		{18_294_967_296, GiB, "17.04 GiB"},
		{3_500_000_000, GB, "3.5 GB"},
		{3_500_000_000, GiB, "3.26 GiB"},
		{85_899_345_920, GiB, "80 GiB"},
		{85_899_345_920, GB, "85.90 GB"},
		{141_200_000_000, GB, "141.2 GB"},
		{141_200_000_000, GiB, "131.50 GiB"},
		{1_129_600_000_000, TB, "1.1296 TB"},
		{327_680, KiB, "320 KiB"},
		{0, GiB, "0 GiB"},
		{-1536, KiB, "-1.5 KiB"},
		{10, B, "10 B"},
		{math.MaxInt64, B, "9223372036854775807 B"},
	} {
		if got := Format(c.bytes, c.unit); got != c.want {
			t.Errorf("Format(%d, %s) = %q, want %q", c.bytes, c.unit, got, c.want)
		}
	}
}

func TestMulOverflow(t *testing.T) {
	if n, ok := Mul(32, 8, 128, 8192, 2, 2); !ok || n != 1<<30 {
		t.Errorf("Mul = %d, %v", n, ok)
	}
	if _, ok := Mul(1<<40, 1<<40); ok {
		t.Error("2⁸⁰ was said to fit")
	}
	if _, ok := Mul(1<<62, 4, 1); ok {
		t.Error("an overflow did not stay")
	}
	if n, ok := Mul(1<<62, 4, 0); !ok || n != 0 {
		t.Errorf("a zero factor: %d, %v", n, ok)
	}
	if _, ok := Mul(-1, 5); ok {
		t.Error("a negative factor was taken")
	}
	if _, ok := Add(math.MaxInt64, 1); ok {
		t.Error("MaxInt64+1 was said to fit")
	}
}

func TestGroup(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -14_000_000_000: "-14,000,000,000"} {
		if got := Group(n); got != want {
			t.Errorf("Group(%d) = %q, want %q", n, got, want)
		}
	}
}
