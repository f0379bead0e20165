package accuracy

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
)

//go:embed causes.yaml
var causesYAML []byte

// Cause says why a row misses, with its evidence.
type Cause struct {
	Table    string `yaml:"table"`
	Name     string `yaml:"name"`
	Quantity string `yaml:"quantity"` // empty for every quantity of that name
	Cause    string `yaml:"cause"`
	Evidence string `yaml:"evidence"`
}

// Causes reads causes.yaml. A cause without evidence is an error: it would make
// an unexplained miss look explained.
func Causes() ([]Cause, error) {
	var list []Cause
	err := yaml.NewDecoder(bytes.NewReader(causesYAML), yaml.Strict()).Decode(&list)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("causes.yaml: %w", err)
	}
	for i, c := range list {
		if c.Table == "" || c.Name == "" || c.Cause == "" || c.Evidence == "" {
			return nil, fmt.Errorf("causes.yaml: entry %d lacks table, name, cause or evidence", i+1)
		}
	}
	return list, nil
}

// explain finds the cause of a row.
func explain(r Row, causes []Cause) (Cause, bool) {
	for _, c := range causes {
		if c.Table == r.Table && c.Name == r.Name && (c.Quantity == "" || c.Quantity == r.Quantity) {
			return c, true
		}
	}
	return Cause{}, false
}
