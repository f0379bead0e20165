package cli

import (
	"fmt"
	"strings"

	"floodmark"
	"floodmark/workload"
)

// axes reads the two dimensions of a matrix: "context=8Ki..128Ki,sequences=1..64".
// Two dots stand for doubling steps.
func axes(text string) (rows, columns floodmark.Axis, err error) {
	parts := strings.Split(text, ",")
	if len(parts) != 2 {
		return rows, columns, &usageError{err: fmt.Errorf("--matrix: %q has no two dimensions", text), hint: "write context=8Ki..128Ki,sequences=1..64"}
	}
	if rows, err = axis(parts[0]); err != nil {
		return rows, columns, err
	}
	columns, err = axis(parts[1])
	return rows, columns, err
}

func axis(text string) (floodmark.Axis, error) {
	name, span, ok := strings.Cut(strings.TrimSpace(text), "=")
	if !ok {
		return floodmark.Axis{}, &usageError{err: fmt.Errorf("--matrix: %q gives no values", text), hint: "write context=8Ki..128Ki,sequences=1..64"}
	}
	first, last, several := strings.Cut(span, "..")
	from, err := count("--matrix", first)
	if err != nil {
		return floodmark.Axis{}, err
	}
	to := from
	if several {
		if to, err = count("--matrix", last); err != nil {
			return floodmark.Axis{}, err
		}
	}
	if from < 1 || to < from {
		return floodmark.Axis{}, &usageError{err: fmt.Errorf("--matrix: %q goes from %d to %d", text, from, to)}
	}
	return floodmark.Axis{Field: workload.Dimension(name), Values: floodmark.Doubling(from, to)}, nil
}
