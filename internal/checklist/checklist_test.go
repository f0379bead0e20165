package checklist

import (
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// witness is a test that counts its errors.
type witness struct {
	testing.TB
	errors int
}

func (w *witness) Helper()               {}
func (w *witness) Error(...any)          { w.errors++ }
func (w *witness) Errorf(string, ...any) { w.errors++ }

func TestCovers(t *testing.T) {
	for _, c := range []struct {
		name    string
		numbers []int
		errors  int
	}{
		{"the first and the last", []int{1, 225}, 0},
		{"none", nil, 1},
		{"below and above", []int{0, 7, 226, -1}, 3},
	} {
		w := &witness{TB: t}
		Covers(w, c.numbers...)
		if w.errors != c.errors {
			t.Errorf("%s: %d errors, want %d", c.name, w.errors, c.errors)
		}
	}
}

func TestCoverageReadsSources(t *testing.T) {
	for _, c := range []struct {
		name, body string
		covered    []int
		fault      string
	}{
		{"a call", "func TestA(t *testing.T) { checklist.Covers(t, 20, 24) }", []int{20, 24}, ""},
		{"twice in one test", "func TestA(t *testing.T) { checklist.Covers(t, 20); checklist.Covers(t, 20) }", []int{20}, ""},
		{"in a subtest", `func TestA(t *testing.T) { t.Run("", func(t *testing.T) { checklist.Covers(t, 3) }) }`, []int{3}, ""},
		{"another Covers", "func TestA(t *testing.T) { rect.Covers(t, 3) }", nil, ""},
		{"a number that is computed", "func TestA(t *testing.T) { checklist.Covers(t, n) }", nil, "plain integers"},
		{"outside a test", "func check(t *testing.T) { checklist.Covers(t, 3) }", []int{3}, "in the test itself"},
	} {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "p_test.go", "package p\n"+c.body, 0)
		if err != nil {
			t.Fatal(err)
		}
		got := coverage{}
		faults := strings.Join(got.read("p", set, f), "\n")
		if numbers := slices.Sorted(maps.Keys(got)); !slices.Equal(numbers, c.covered) {
			t.Errorf("%s: covers %v, want %v", c.name, numbers, c.covered)
		}
		if (faults == "") != (c.fault == "") || !strings.Contains(faults, c.fault) {
			t.Errorf("%s: %q, want %q", c.name, faults, c.fault)
		}
		for _, tests := range got {
			if len(tests) != 1 {
				t.Errorf("%s: a test is listed %d times", c.name, len(tests))
			}
		}
	}
}
