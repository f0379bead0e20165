package accuracy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"floodmark"
	"floodmark/account"
	"floodmark/model"
)

// Parameters scores the list in dir/scored.jsonl (one line a model: dir, unit,
// value), reading each model from its config.json alone.
func Parameters(dir string) ([]Row, error) {
	var rows []Row
	err := lines(filepath.Join(dir, "scored.jsonl"), func(data []byte) error {
		var fact struct {
			Dir, Unit string
			Value     int64
		}
		if err := json.Unmarshal(data, &fact); err != nil {
			return err
		}
		row := Row{Table: "parameters", Name: fact.Dir, Quantity: fact.Unit, Want: fact.Value}
		m, err := alone(filepath.Join(dir, fact.Dir))
		if err != nil {
			row.Why = err.Error()
		} else {
			row.Got, row.Why = score(m, fact.Unit)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// alone reads a model from copies of its configuration files in a folder whose
// name and other files tell nothing.
func alone(folder string) (*model.Model, error) {
	bare, err := os.MkdirTemp("", "model")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(bare)
	for _, name := range []string{"config.json", "hf_quant_config.json", "quantize_config.json"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if os.IsNotExist(err) && name != "config.json" {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(bare, name), data, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	return floodmark.LoadModel(bare)
}

// score is the model's total in the fact's unit, or why it has none.
func score(m *model.Model, unit string) (*int64, string) {
	figure := account.Figure{}
	switch unit {
	case "bytes":
		figure = m.WeightsBytes()
	case "parameters":
		figure = m.Parameters()
	default:
		return nil, "no figure in " + unit
	}
	if n, ok := figure.IsExact(); ok {
		return &n, ""
	}
	return nil, figure.Reason()
}

// lines hands each line of a JSON-lines file to take.
func lines(path string, take func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for n := 1; ; n++ {
		data, err := r.ReadBytes('\n')
		if len(data) > 1 {
			if err := take(data); err != nil {
				return fmt.Errorf("%s:%d: %w", path, n, err)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
