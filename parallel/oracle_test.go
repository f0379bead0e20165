package parallel_test

import (
	"errors"
	"path/filepath"
	"testing"

	"floodmark/account"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/parallel"
	"floodmark/workload"
)

// held is what one rank holds.
func held(m *model.Model, p parallel.RankPlan) account.Figure {
	var parts []account.Figure
	for _, l := range p.Tensors {
		parts = append(parts, l.Bytes(m.Tensors[l.Tensor]))
	}
	return account.Sum(account.Provenance{}, parts...)
}

// TestOracleZooOverRanks divides every published configuration: a rank of n
// holds at least an nth of the whole and at most all of it, or the broken rule
// is named.
func TestOracleZooOverRanks(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(oracle.Dir(t), "zoo", "*", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	divided, refused := 0, 0
	for _, path := range paths {
		m, err := load.Open(path)
		if err != nil || len(m.Tensors) == 0 {
			continue
		}
		alone, err := parallel.VLLM().Plan(m, workload.Single())
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		whole := held(m, alone[0])
		for _, tensor := range []int{2, 3, 8} {
			plans, err := parallel.VLLM().Plan(m, workload.Mesh{TensorParallel: tensor})
			var broken *parallel.NotSupportedError
			if errors.As(err, &broken) && broken.Rule != "" {
				refused++
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			divided++
			part := held(m, plans[0])
			high, known := part.High()
			most, all := whole.High()
			// A part of a tensor that may be divided is rounded down to a byte.
			rounding := int64(len(m.Tensors) * tensor)
			if part.Low()*int64(tensor)+rounding < whole.Low() || known && all && high > most {
				t.Errorf("%s over %d: %d to %d of %d", path, tensor, part.Low(), high, most)
			}
		}
	}
	t.Logf("%d divided, %d refused", divided, refused)
	if divided < 300 {
		t.Errorf("only %d layouts", divided)
	}
}
