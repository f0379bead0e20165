package account

import (
	"math"
	"testing"
)

func ends(f Figure) [3]int64 {
	high, known := f.High()
	if !known {
		high = -1
	}
	return [3]int64{f.Low(), high, int64(len(f.Reason()))}
}

func TestZeroFigureIsUnknown(t *testing.T) {
	var f Figure
	if f.Status() != StatusUnknown || f.Known() {
		t.Errorf("the zero Figure is %s", f.Status())
	}
}

func TestSum(t *testing.T) {
	p := Provenance{Scope: Process}
	for _, c := range []struct {
		name string
		in   []Figure
		want [3]int64
	}{
		{"nothing is exactly zero", nil, [3]int64{0, 0, 0}},
		{"exact", []Figure{Exact(2, p), Exact(3, p)}, [3]int64{5, 5, 0}},
		{"intervals", []Figure{Between(1, 4, p), Between(7, 2, p)}, [3]int64{3, 11, 0}},
		{"a zero with its reason adds nothing", []Figure{Exact(5, p), Zero("frozen", p)}, [3]int64{5, 5, 0}},
		{"an unknown keeps the lows and gives its reason", []Figure{Exact(5, p), Unknown("why", p), AtLeast(2, "later", p)}, [3]int64{7, -1, 3}},
		{"overflow is unknown", []Figure{Exact(math.MaxInt64, p), Exact(1, p)}, [3]int64{0, -1, 0}},
	} {
		got := Sum(p, c.in...)
		want := c.want
		if c.name == "overflow is unknown" {
			want[2] = int64(len(got.Reason()))
			if got.Reason() == "" {
				t.Error("an overflow gives no reason")
			}
		}
		if ends(got) != want {
			t.Errorf("%s: %v, want %v", c.name, ends(got), want)
		}
	}
}

// What is taken only because it is free has no high, and needs what it needs; with
// an unknown beside it nobody can say that either.
func TestNeed(t *testing.T) {
	p := Provenance{}
	yields := Yielding(2, 5, "workspaces", p)
	for _, c := range []struct {
		name string
		f    Figure
		want int64 // -1: nobody can say
	}{
		{"a bounded figure needs its high", Between(1, 4, p), 4},
		{"less than may be taken", yields, 5},
		{"not less than its low", Yielding(7, 5, "", p), 7},
		{"a sum", Sum(p, Between(1, 4, p), yields, yields), 14},
		{"a sum with an unknown", Sum(p, yields, Unknown("", p)), -1},
		{"a sum that overflows", Sum(p, yields, Exact(math.MaxInt64, p)), -1},
		{"the higher of two", Highest(p, Exact(9, p), yields), 9},
		{"the higher of two, one unknown", Highest(p, yields, AtLeast(9, "", p)), -1},
		{"copies", yields.Times(3), 15},
		{"without what is free", yields.Needed(), 5},
	} {
		need, known := c.f.Need()
		if !known {
			need = -1
		}
		if need != c.want {
			t.Errorf("%s: %d, want %d", c.name, need, c.want)
		}
	}
	if yields.Known() || Sum(p, yields, Exact(1, p)).Known() || !yields.Needed().Known() {
		t.Error("what may be taken is said to be known")
	}
}

func TestMinus(t *testing.T) {
	p := Provenance{}
	got := Between(100, 110, p).Minus(Between(30, 60, p), p)
	if ends(got) != [3]int64{40, 80, 0} {
		t.Errorf("headroom is %v", ends(got))
	}
	if got := Exact(1, p).Minus(Unknown("nobody measured it", p), p); got.Known() || got.Reason() != "nobody measured it" {
		t.Errorf("taking away an unknown gave %v %q", ends(got), got.Reason())
	}
	if got := Exact(10, p).Minus(Exact(30, p), p); got.Low() != -20 {
		t.Errorf("headroom cannot be negative: %v", ends(got))
	}
}

func TestHighest(t *testing.T) {
	p := Provenance{}
	if got := Highest(p, Between(1, 9, p), Exact(5, p)); ends(got) != [3]int64{5, 9, 0} {
		t.Errorf("highest is %v", ends(got))
	}
	if got := Highest(p, Exact(5, p), AtLeast(7, "partial", p)); got.Known() || got.Low() != 7 {
		t.Errorf("highest with an unknown is %v", ends(got))
	}
}

func TestTimes(t *testing.T) {
	p := Provenance{}
	if got := Exact(1<<30, p).Times(4); got.Low() != 4<<30 {
		t.Errorf("four sequences hold %d", got.Low())
	}
	if got := Exact(1<<62, p).Times(4); got.Known() {
		t.Error("2⁶⁴ bytes were taken for a number")
	}
}

func TestLevels(t *testing.T) {
	var l Levels
	for i, s := range Scopes() {
		l.Set(Exact(int64(i+1), Provenance{Scope: s}))
	}
	for i, s := range Scopes() {
		if n, ok := l.In(s).IsExact(); !ok || n != int64(i+1) {
			t.Errorf("level of %s is %d, %v", s, n, ok)
		}
	}
}
