package modules_test

import (
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/model/hfmodel"
)

// TestOracleZoo trains one small batch of every configuration of the published
// zoo: each has a program, or a reason why not.
func TestOracleZoo(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(oracle.Dir(t), "zoo", "*", "config.json"))
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	predicted, reasons := 0, map[string]int{}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := hfmodel.Read(source.Bytes(path, data))
		if err != nil {
			continue // the reader's own tests speak of it
		}
		switch why, err := trainOnce(m); {
		case err != nil:
			t.Errorf("%s: %v", filepath.Base(filepath.Dir(path)), err)
		case why == "":
			predicted++
		default:
			reasons[why]++
		}
	}
	t.Logf("%d of %d have programs; the others: %v", predicted, len(files), reasons)
}
