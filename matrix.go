package floodmark

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"floodmark/fit"
	"floodmark/record"
	"floodmark/workload"
)

// Axis is the values of one dimension of a matrix, in the order in which they
// are shown.
type Axis struct {
	Field  workload.Dimension
	Values []int64
}

// maxMatrix bounds the points of a matrix.
const maxMatrix = 4096

// Doubling is the values from one to another in doubling steps, the last one
// included: 8, 16, 32, 48 for 8 to 48.
func Doubling(from, to int64) []int64 {
	var values []int64
	for v := max(1, from); v < to; v *= 2 {
		values = append(values, v)
		if v > to/2 {
			break
		}
	}
	return append(values, to)
}

// Matrix decides every combination of the values of two dimensions on the
// request's card: fits, cannot tell, does not fit.
func Matrix(ctx context.Context, r Request, rows, columns Axis) ([]record.Point, error) {
	r = r.running()
	switch {
	case r.Card == nil && r.Free == nil:
		return nil, &SettingsError{errors.New("there is no card to fit on: name one with --gpu")}
	case rows.Field == columns.Field:
		return nil, &SettingsError{fmt.Errorf("a matrix has two dimensions, and both are %s", rows.Field)}
	case len(rows.Values) == 0 || len(columns.Values) == 0 || len(rows.Values) > maxMatrix/len(columns.Values):
		return nil, &SettingsError{fmt.Errorf("a matrix of %d × %d values: expected 1 to %d points", len(rows.Values), len(columns.Values), maxMatrix)}
	}
	for _, axis := range []Axis{rows, columns} {
		if !slices.Contains(SolvableFields(r.Workload.Operation), axis.Field) {
			return nil, unsolvable(r.Workload.Operation, axis.Field)
		}
	}
	var points []record.Point
	for _, row := range rows.Values {
		across := SolveRequest{Request: r, Field: rows.Field}.with(row)
		for _, column := range columns.Values {
			p, err := Estimate(ctx, SolveRequest{Request: across, Field: columns.Field}.with(column))
			if err != nil {
				return nil, err
			}
			points = append(points, record.Point{Verdict: string(p.Verdict.Value),
				Values: map[string]int64{string(rows.Field): row, string(columns.Field): column}})
		}
	}
	return points, nil
}

// SolveMatrix is [Matrix] as an answer of its own, with the prediction at the
// largest values that fit; at the least values where none does.
func SolveMatrix(ctx context.Context, r Request, rows, columns Axis) (*Solved, error) {
	points, err := Matrix(ctx, r, rows, columns)
	if err != nil {
		return nil, err
	}
	best := points[0]
	for _, p := range points {
		if p.Verdict == string(fit.Fits) {
			best = p
		}
	}
	r = r.running()
	q := SolveRequest{Request: r, Field: rows.Field}.with(best.Values[string(rows.Field)])
	q = SolveRequest{Request: q, Field: columns.Field}.with(best.Values[string(columns.Field)])
	p, err := Estimate(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Solved{Field: rows.Field, Prediction: p, Solution: record.Solution{
		Field: string(rows.Field) + "," + string(columns.Field), Matrix: points, LimitReason: "a matrix has no single limit"}}, nil
}

func unsolvable(op workload.Operation, field workload.Dimension) error {
	own := "nothing that has a size"
	for i, d := range SolvableFields(op) {
		if i == 0 {
			own = string(d)
		} else {
			own += ", " + string(d)
		}
	}
	return &SettingsError{fmt.Errorf("%q cannot be solved for: choose of a %s %s; tensor_parallel, pipeline_parallel or gpus; utilization of an engine that fills a share of its card", field, op, own)}
}
