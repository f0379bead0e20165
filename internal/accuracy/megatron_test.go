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

// Each run is predicted today as it was committed: the rows that are inside their
// tolerance, and the others, by name.
func TestMegatronRows(t *testing.T) {
	rows, err := Megatron()
	if err != nil {
		t.Fatal(err)
	}
	inside := 0
	for _, r := range rows {
		if e, known := r.errorOf(); known {
			t.Logf("%-75s %-30s %+7.2f %% %d %s", r.Name, r.Quantity, 100*e, *r.Low-r.Want, r.Status())
		} else {
			t.Logf("%-75s %-30s %s", r.Name, r.Quantity, r.Why)
		}
		if r.Status() == Inside {
			inside++
		}
	}
	t.Log(scoreOf(rows))
	if len(rows) != 112 || inside < 110 {
		t.Errorf("%d of %d rows are inside, want 110 of 112", inside, len(rows))
	}
}

// What a source leaves open makes a figure that reaches over all of it: with ranks from
// 64 to 8,192 the least is that of the most ranks, and the most that of the fewest.
func TestMegatronAlternatives(t *testing.T) {
	runs, err := megatronRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		if r.Or == nil {
			continue
		}
		all := r.rows()
		r.Or = nil
		for i, one := range r.rows() {
			if *all[i].High != *one.High || *all[i].Low >= *one.Low {
				t.Errorf("%s, %s: %d to %d over all, %d to %d with the fewest ranks", r.ID, one.Quantity, *all[i].Low, *all[i].High, *one.Low, *one.High)
			}
		}
	}
}

// Sabotage: without one of its terms a peak that was close is not.
func TestMegatronMissesATerm(t *testing.T) {
	runs, err := megatronRuns()
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []account.TermID{account.TermWeights, account.TermGradients, account.TermMasterCopy, account.TermOptimizerState, account.TermActivations, account.TermWorkspace} {
		lost := 0
		for _, r := range runs {
			if r.ID != "megatron-golden-gpt3-7b-tp4-pp1-memory-speed-h100" && r.ID != "simumax-b200-llama3-70b-l12-tp1-pp2-dp4-mbc4-cef" {
				continue
			}
			for _, row := range r.rows(id) {
				if strings.HasPrefix(row.Quantity, "peak") && row.Status() != Inside {
					lost++
				}
			}
		}
		if lost == 0 {
			t.Errorf("every peak is as close without %s", id)
		}
	}
}

// The rows are those that count of the published list, and say what it says.
func TestOracleMegatronRows(t *testing.T) {
	runs, err := megatronRuns()
	if err != nil {
		t.Fatal(err)
	}
	scored := map[string]bool{}
	err = lines(filepath.Join(oracle.Dir(t), "groundtruth", "training.jsonl"), func(data []byte) error {
		var r struct {
			ID    string
			Score bool
		}
		err := json.Unmarshal(data, &r)
		for _, family := range []string{"megatron-golden", "simumax", "mbridge"} {
			if r.Score && strings.HasPrefix(r.ID, family) {
				scored[r.ID] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for id := range scored {
		if !slices.ContainsFunc(runs, func(r megatronRun) bool { return r.ID == id }) {
			t.Errorf("%s counts and has no row", id)
		}
	}
	for _, r := range runs {
		if !scored[r.ID] {
			t.Errorf("%s does not count", r.ID)
		}
	}
}

// Sabotage: without one of the rules of adapters beside frozen modules a figure that was
// close is not.
func TestAdaptersOnMegatronMissARule(t *testing.T) {
	runs, err := megatronRuns()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(runs, func(r megatronRun) bool { return r.ID == "mbridge-lora-regather-qwen3-8b-tp2-s8192" })
	for rule, settings := range map[string]map[string]any{
		"kept input":   {"input_regather": true},
		"gathered one": {"input_regather": false},
		"activation":   {"unfused": []string{}},
		"loss":         {"cross_entropy": "unfused"},
	} {
		r, lost := runs[at], 0
		r.Figures = slices.Clone(r.Figures)
		for i := range r.Figures {
			with := map[string]any{}
			putOver(with, r.Figures[i].With)
			putOver(with, map[string]any{"training": map[string]any{"megatron": settings}})
			r.Figures[i].With = with
		}
		for _, row := range r.rows() {
			if row.Status() != Inside {
				lost++
			}
		}
		if lost == 0 {
			t.Errorf("both figures are as close without the rule of the %s", rule)
		}
	}
}
