package report

import (
	"math"
	"testing"
)

// A table gives way in this order: prose, headings, names; at last each row
// becomes lines.
func TestTableGivesWay(t *testing.T) {
	layOut := func(width int) string {
		g := grid{columns: []column{{title: "name"}, {title: "peak, bytes", align: right}, {title: "", prose: true}}}
		g.row("weights of a model", "1,000", "counted tensor by tensor")
		g.row("cache", "20", "")
		return g.render(Style{Width: width})
	}
	for _, c := range []struct {
		width int
		want  string
	}{
		{80, "name                peak, bytes\n" +
			"weights of a model        1,000  counted tensor by tensor\n" +
			"cache                        20\n"},
		{50, "name                peak, bytes\n" +
			"weights of a model        1,000  counted tensor by\n" +
			"                                 tensor\n" +
			"cache                        20\n"},
		{43, "name                peak,\n" +
			"                    bytes\n" +
			"weights of a model  1,000  counted tensor\n" +
			"                           by tensor\n" +
			"cache                  20\n"},
		{38, "name           peak,\n" +
			"               bytes\n" +
			"weights of a   1,000  counted tensor\n" +
			"model                 by tensor\n" +
			"cache             20\n"},
		{30, "name: weights of a model\n" +
			"  peak, bytes: 1,000\n" +
			"  counted tensor by tensor\n" +
			"name: cache\n" +
			"  peak, bytes: 20\n"},
	} {
		if got := layOut(c.width); got != c.want {
			t.Errorf("in %d columns:\n%swant\n%s", c.width, got, c.want)
		}
	}
}

// A column that can be spared is left out before rows become lines.
func TestSpareColumn(t *testing.T) {
	g := grid{columns: []column{{title: "phase"}, {title: "start", align: right, spare: true}, {title: "peak", align: right}}}
	g.row("backward", "14.39–14.40", "22.09–22.10")
	for width, want := range map[int]string{
		40: "phase           start         peak\nbackward  14.39–14.40  22.09–22.10\n",
		30: "phase            peak\nbackward  22.09–22.10\n",
		15: "phase: backward\n  peak:\n    22.09–22.10\n",
	} {
		if got := g.within(width).render(Style{Width: width}); got != want {
			t.Errorf("in %d columns:\n%swant\n%s", width, got, want)
		}
	}
}

// A unit that has a column of its own stays with its number.
func TestStackedUnits(t *testing.T) {
	g := grid{columns: []column{{title: "printed", align: right}, {title: ""}, {title: "what"}, {title: "", prose: true}}}
	g.row("546.00", "MiB", "request of one tensor", "as the text has it")
	want := "printed: 546.00 MiB\n  what: request of one\n    tensor\n  as the text has it\n"
	if got := g.render(Style{Width: 26}); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRanges(t *testing.T) {
	for _, c := range []struct {
		list []int
		want string
	}{
		{nil, ""},
		{[]int{0}, "0"},
		{[]int{0, 1}, "0, 1"},
		{[]int{0, 2, 3, 4, 7}, "0, 2 to 4, 7"},
	} {
		if got := ranges("", c.list); got != c.want {
			t.Errorf("%v is %q, want %q", c.list, got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 bits", 1: "1 bit", 1031: "1,031 bits"} {
		if got := count(n, "bit"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A shortage is a figure like any other, in a unit that fits it.
func TestNegativeAmounts(t *testing.T) {
	for _, c := range []struct {
		low, high int64
		want      string
	}{
		{-252_417_476_830, -142_011_944_130, "-235.08 to -132.26 GiB"},
		{-1 << 30, 1 << 40, "0.00 to 1.00 TiB"},
		{1 << 30, 2 << 30, "1.00–2.00 GiB"},
		{math.MinInt64, 0, "-8,388,608.00 to 0.00 TiB"},
	} {
		if got := (Style{}).amount(quantity{low: &c.low, high: &c.high}); got != c.want {
			t.Errorf("%d to %d is %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"a word and another", 10, "a word and\nanother"},
		{"write --reserve-gib here", 13, "write\n--reserve-gib\nhere"},
		{"  indented text", 10, "  indented\ntext"},
		{"abcdefghij", 4, "abcd\nefgh\nij"},
		{"optimizer_step", 12, "optimizer_\nstep"},
		{"precision=bf16-params-bf16-grads", 20, "precision=bf16-\nparams-bf16-grads"},
		{"a_bcdefghijkl", 10, "a_bcdefghi\njkl"}, // a joint that leaves the line empty
		{"x abcdefghij y", 4, "x\nabcd\nefgh\nij y"},
		{"größe größe", 5, "größe\ngröße"},
		{"日本語日本語", 4, "日本\n語日\n本語"},
		{"\x1b[1mbold words\x1b[m end", 10, "\x1b[1mbold words\x1b[m\nend"},
		{"", 5, ""},
	} {
		if got := Wrap(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
