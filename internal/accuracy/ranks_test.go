package accuracy

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/oracle"
)

// families are the rows of data-parallel ranks, by the beginning of their ids;
// the others of several ranks are Megatron's, or of pipelines and experts.
func families() []string {
	return []string{"torchtitan-", "torchao-moe", "fsdpqlora-", "ds-", "litgpt-", "llamarecipes-", "stas-"}
}

// Each scored row of several ranks of these families has a row here.
func TestOracleRankRows(t *testing.T) {
	runs, err := rankRuns()
	if err != nil {
		t.Fatal(err)
	}
	err = lines(filepath.Join(oracle.Dir(t), "groundtruth", "training.jsonl"), func(data []byte) error {
		var r struct {
			ID    string
			GPUs  int
			Score bool
		}
		if err := json.Unmarshal(data, &r); err != nil || !r.Score || r.GPUs < 2 {
			return nil // a number of cards that is none is no row of ours
		}
		family := slices.ContainsFunc(families(), func(p string) bool { return strings.HasPrefix(r.ID, p) })
		if family && !slices.ContainsFunc(runs, func(x measuredRun) bool { return x.ID == r.ID }) {
			t.Errorf("%s is scored and has no row", r.ID)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Each row is predicted today as it was committed; of each framework with five
// rows or more the three figures are shown.
func TestRankRows(t *testing.T) {
	rows, err := Ranks()
	if err != nil {
		t.Fatal(err)
	}
	var counted, qlora []Row
	for _, r := range rows {
		if e, known := r.errorOf(); known {
			t.Logf("%-40s %-28s %+6.1f %%", r.Name, r.Quantity, 100*e)
		} else {
			t.Logf("%-40s %-28s %s", r.Name, r.Quantity, r.Why)
		}
		if r.Table != ranksTable {
			continue
		}
		counted = append(counted, r)
		if strings.HasPrefix(r.Name, "fsdpqlora-") {
			qlora = append(qlora, r)
		}
	}
	logShyness(t, counted)
	t.Log(scoreOf(counted))
	t.Log("fsdp_qlora: ", scoreOf(qlora))
	if s := scoreOf(counted); s.alarms > 0 {
		t.Errorf("%+v", s)
	}
}

// Sabotage: without one of its terms a prediction that was close is not.
func TestRanksMissATerm(t *testing.T) {
	runs, err := rankRuns()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(runs, func(r measuredRun) bool { return r.ID == "ds-bf16master-7b-z3-fp32master" && r.Phase == "" })
	run := runs[at]
	if whole := run.row(); whole.Status() != Inside {
		t.Fatalf("%+v", whole)
	}
	for _, id := range []account.TermID{account.TermWeights, account.TermMasterCopy, account.TermGradients, account.TermOptimizerState, account.TermTemporaries} {
		if cut := run.judged(Row{Want: run.row().Want}, id); cut.Status() == Inside {
			t.Errorf("the row is as close without %s", id)
		}
	}
}

// Sabotage: without the products that torchtitan's selective checkpointing keeps, the
// row that was measured with them is not inside.
func TestRanksMissTheKeptProducts(t *testing.T) {
	runs, err := rankRuns()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(runs, func(r measuredRun) bool {
		return r.ID == "torchtitan-pr165-llama7b-fsdp2-sac" && r.Field == "peak_active"
	})
	run := runs[at]
	whole := run.row()
	if whole.Status() != Inside {
		t.Fatalf("%+v", whole)
	}
	run.Workload = strings.Replace(run.Workload, "checkpointing: selective", "checkpointing: full", 1)
	if cut := run.row(); cut.Status() == Inside {
		t.Errorf("the row is as close without them: %+v", cut)
	}
}
