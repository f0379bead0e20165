package bytesize

import "testing"

func TestParsePrinted(t *testing.T) {
	for _, c := range []struct {
		text      string
		low, high int64
	}{
		{"80GiB", 80 << 30, 80 << 30},
		{"85038989312", 85038989312, 85038989312},
		{"79.2 GiB", 84986665369, 85094039551},
		{"0.5kB", 450, 550},
		{"1.0B", 1, 1},
	} {
		low, high, err := ParsePrinted(c.text)
		if err != nil || low != c.low || high != c.high {
			t.Errorf("%s: %d to %d, %v; want %d to %d", c.text, low, high, err, c.low, c.high)
		}
	}
	for _, text := range []string{"80G", "", "9e99GiB"} {
		if low, high, err := ParsePrinted(text); err == nil {
			t.Errorf("%q is %d to %d", text, low, high)
		}
	}
}
