package accuracy

import (
	_ "embed"
	"fmt"

	"github.com/goccy/go-yaml"
)

//go:embed ranks.yaml
var ranksYAML []byte

// The tables of training over data-parallel ranks: of the rows that count, and of
// those that are shown beside them.
const (
	ranksTable  = "ranks"
	listedTable = "ranks, not counted"
)

// Ranks predicts every published measurement of training over data-parallel ranks
// in PyTorch and DeepSpeed, at its own counter.
func Ranks() ([]Row, error) {
	runs, err := rankRuns()
	if err != nil {
		return nil, err
	}
	var rows []Row
	for _, run := range runs {
		row := run.row()
		row.Table = ranksTable
		if run.Listed != "" {
			row.Table = listedTable
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func rankRuns() ([]measuredRun, error) {
	var runs []measuredRun
	if err := yaml.UnmarshalWithOptions(ranksYAML, &runs, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("ranks.yaml: %w", err)
	}
	return runs, nil
}
