package load_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/model/load"
)

// TestOracleFolders opens every folder of the zoo, configuration and index
// alone. Each is a model, or an error with a place and a hint; an index whose
// total the configuration does not reach is told as a warning with both
// numbers.
func TestOracleFolders(t *testing.T) {
	zoo := filepath.Join(oracle.Dir(t), "zoo")
	folders, err := os.ReadDir(zoo)
	if err != nil {
		t.Fatal(err)
	}
	var opened, refused, agreeing, differing int
	for _, f := range folders {
		path := filepath.Join(zoo, f.Name())
		indexes, _ := filepath.Glob(filepath.Join(path, "*.index.json"))
		configs, _ := filepath.Glob(filepath.Join(path, "config.json"))
		if len(indexes)+len(configs) == 0 {
			continue
		}
		m, err := load.Open(path)
		var e *source.FormatError
		switch {
		case errors.As(err, &e) && e.Hint != "" && strings.Contains(err.Error(), f.Name()):
			refused++
			t.Logf("%v (%s)", err, e.Hint)
			continue
		case err != nil:
			t.Errorf("%s: an error without file or hint: %v", f.Name(), err)
			continue
		}
		opened++
		told := codes(m)
		if len(indexes) == 0 {
			continue
		}
		if slices.Contains(told, "total_size_differs") || slices.Contains(told, "total_size_alone") {
			differing++
			t.Logf("%s: %v", f.Name(), m.Warnings)
		} else {
			agreeing++
		}
	}
	t.Logf("%d opened, %d refused; %d indexes agree, %d differ", opened, refused, agreeing, differing)
	if opened < 225 || refused > 5 || agreeing < 40 {
		t.Errorf("at least 225 folders must open and 40 indexes agree")
	}
}
