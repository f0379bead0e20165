package accuracy

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/internal/oracle"
)

// The rows of training are those that count of the published list, and say what
// it says.
func TestOracleTrainingRows(t *testing.T) {
	all, err := published(filepath.Join(oracle.Dir(t), "groundtruth", "training.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := trainingRuns()
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		if why := all[id]; why != "" {
			reasons[why]++
			t.Logf("%s is not counted: %s", id, why)
			continue
		}
		if !slices.ContainsFunc(runs, func(r measuredRun) bool { return r.ID == id }) {
			t.Errorf("%s counts and has no row", id)
		}
	}
	for _, r := range runs {
		if why, has := all[r.ID]; !has || why != "" {
			t.Errorf("%s is no row that counts: %s", r.ID, why)
		}
	}
	if len(all) != 63 || len(runs) != 40 {
		t.Errorf("%d rows, %d of them counted, want 63 and 40: %v", len(all), len(runs), reasons)
	}
}

// Each row is predicted today as it was committed.
func TestTrainingRows(t *testing.T) {
	rows, err := Training()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if e, known := r.errorOf(); known {
			t.Logf("%-45s %-40s %+6.1f %%", r.Name, r.Quantity, 100*e)
		} else {
			t.Logf("%-45s %-40s %s", r.Name, r.Quantity, r.Why)
		}
	}
	logShyness(t, rows)
	t.Log(scoreOf(rows))
	if s := scoreOf(rows); s.falseFits > 0 && s.rows != 40 {
		t.Errorf("%+v", s)
	}
}

// logShyness says of every row that is not said to fit at 1.25 times its
// measurement why not.
func logShyness(t *testing.T, rows []Row) {
	t.Helper()
	for _, r := range rows {
		if why := r.shyness(1.25); why != "" {
			t.Logf("not said to fit at 1.25: %-45s %s", r.Name, why)
		}
	}
}

// Sabotage: without one of its terms a prediction that was close is not.
func TestTrainingMissesATerm(t *testing.T) {
	runs, err := trainingRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []account.TermID{account.TermWeights, account.TermGradients, account.TermOptimizerState} {
		lost := 0
		for _, r := range runs {
			if r.ID != "torchtune-pr389-llama2-7b-adamw-noforeach" && r.ID != "torchao-llama2-7b-fused" {
				continue
			}
			whole := r.row()
			if whole.Status() != Inside {
				t.Fatalf("%+v", whole)
			}
			if cut := r.judged(Row{Table: whole.Table, Name: whole.Name, Want: whole.Want}, id); cut.Status() != Inside {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("every row is as close without %s", id)
		}
	}
}
