package floodmark

import (
	"context"
	"errors"
	"slices"
	"testing"

	"floodmark/fit"
	"floodmark/workload"
)

func TestDoubling(t *testing.T) {
	for _, c := range []struct {
		from, to int64
		want     []int64
	}{
		{8, 64, []int64{8, 16, 32, 64}}, {8, 48, []int64{8, 16, 32, 48}}, {5, 5, []int64{5}}, {0, 2, []int64{1, 2}},
		{1 << 61, 1<<63 - 1, []int64{1 << 61, 1 << 62, 1<<63 - 1}},
	} {
		if got := Doubling(c.from, c.to); !slices.Equal(got, c.want) {
			t.Errorf("%d to %d: %d, want %d", c.from, c.to, got, c.want)
		}
	}
}

// A matrix agrees with the estimate at each point, and more never turns what
// does not fit into what fits.
func TestMatrix(t *testing.T) {
	r := generation(t, "serving")
	card, err := FindCard("rtx-4090")
	if err != nil {
		t.Fatal(err)
	}
	r.Card = &card
	rows := Axis{workload.Context, Doubling(1024, 65536)}
	columns := Axis{workload.Sequences, Doubling(1, 64)}
	points, err := Matrix(context.Background(), r, rows, columns)
	if err != nil || len(points) != len(rows.Values)*len(columns.Values) {
		t.Fatalf("%d points, %v", len(points), err)
	}
	seen := map[string]bool{}
	for i, p := range points {
		seen[p.Verdict] = true
		if p.Values["context"] != rows.Values[i/len(columns.Values)] || p.Values["sequences"] != columns.Values[i%len(columns.Values)] {
			t.Fatalf("point %d is %v", i, p.Values)
		}
		if left := i - 1; i%len(columns.Values) > 0 && gravity(fit.Value(p.Verdict)) < gravity(fit.Value(points[left].Verdict)) {
			t.Errorf("%v %s though %v %s", p.Values, p.Verdict, points[left].Values, points[left].Verdict)
		}
	}
	if !seen["fits"] || !seen["does_not_fit"] {
		t.Errorf("the matrix has only %v", seen)
	}
	solved, err := SolveMatrix(context.Background(), r, rows, columns)
	if err != nil || solved.Prediction.Verdict.Value != fit.Fits || len(solved.Solution.Matrix) != len(points) {
		t.Errorf("%+v, %v", solved, err)
	}
}

func TestMatrixRefuses(t *testing.T) {
	r := generation(t, "serving")
	one := Axis{workload.Context, []int64{1}}
	other := Axis{workload.Sequences, []int64{1}}
	card, err := FindCard("h100")
	if err != nil {
		t.Fatal(err)
	}
	with := r
	with.Card = &card
	for _, c := range []struct {
		name          string
		request       Request
		rows, columns Axis
	}{
		{"no card", r, one, other},
		{"one dimension twice", with, one, one},
		{"a dimension that is none", with, one, Axis{workload.Images, []int64{1}}},
		{"no values", with, one, Axis{workload.Sequences, nil}},
		{"too many values", with, Axis{workload.Context, make([]int64, 5000)}, other},
	} {
		_, err := Matrix(context.Background(), c.request, c.rows, c.columns)
		var settings *SettingsError
		if !errors.As(err, &settings) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
