package hfmodel_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// published is one line of scored.jsonl: a published total.
type published struct {
	Dir   string `json:"dir"`
	Unit  string `json:"unit"`
	Value int64  `json:"value"`
}

// wrongOracles is the rows whose published total is no sum of tensors. The
// evidence lies in internal/accuracy/causes.yaml, and must lie there.
func wrongOracles(t *testing.T) map[string]bool {
	t.Helper()
	rows := map[string]bool{"cyankiwi__gemma-4-26B-A4B-it-AWQ-4bit": true}
	causes, err := os.ReadFile(filepath.Join("..", "..", "internal", "accuracy", "causes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range rows {
		if !strings.Contains(string(causes), "name: "+name) {
			t.Errorf("%s: causes.yaml does not say why its published total is wrong", name)
		}
	}
	return rows
}

// TestOracleZoo scores the reader on published totals, when ORACLES names the
// folder that holds them. The reader sees config.json and the quantisation file
// beside it, and never the name of the model.
func TestOracleZoo(t *testing.T) {
	shared := oracle.Dir(t)
	zoo := filepath.Join(shared, "zoo")
	rows := oracles(t, filepath.Join(zoo, "scored.jsonl"))
	var exact, wrong, unknown int
	excused := wrongOracles(t)
	for _, o := range rows {
		m, err := readFolder(filepath.Join(zoo, o.Dir))
		if err != nil {
			t.Errorf("%s: %v", o.Dir, err)
			continue
		}
		figure := m.Parameters()
		if o.Unit == "bytes" {
			figure = m.WeightsBytes()
		}
		got, isExact := figure.IsExact()
		switch {
		case !isExact:
			unknown++
			t.Logf("unknown  %-55s at least %d of %d (%+d): %s", o.Dir, figure.Low(), o.Value, figure.Low()-o.Value, doubts(m))
		case got == o.Value:
			exact++
		default:
			if !excused[o.Dir] {
				wrong++
			}
			t.Logf("WRONG    %-55s %d, published %d (%+d %s)", o.Dir, got, o.Value, got-o.Value, o.Unit)
		}
	}
	t.Logf("of %d: exact %d, unknown %d, wrong %d beside %d whose published total is", len(rows), exact, unknown, wrong, len(excused))
	if exact < 64 || wrong > 2 {
		t.Errorf("at least 64 exact and at most 2 wrong are required")
	}
	folders, err := filepath.Glob(filepath.Join(zoo, "*", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range folders {
		m, err := readFolder(filepath.Dir(path))
		if err == nil && len(m.Tensors) == 0 && len(m.Unknown) == 0 {
			t.Errorf("%s: neither known nor said to be unknown", path)
		}
		var f *source.FormatError
		if err != nil && !errors.Is(err, source.ErrNotThisFormat) && !errors.As(err, &f) {
			t.Errorf("%s: %v", path, err)
		}
		if testing.Verbose() && err == nil {
			t.Logf("%-55s parameters %d, bytes %d, unknown: %s", filepath.Base(filepath.Dir(path)), m.Parameters().Low(), m.WeightsBytes().Low(), doubts(m))
		}
	}
}

func doubts(m *model.Model) string {
	var b strings.Builder
	for _, u := range m.Unknown {
		b.WriteString(u.Field + "=" + u.Value + "; ")
	}
	return b.String()
}

func oracles(t *testing.T, path string) []published {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var rows []published
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var o published
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, o)
	}
	return rows
}

// readFolder reads a folder's config.json with the quantisation file beside
// it. The source is called config.json, whatever the folder is called.
func readFolder(folder string) (*model.Model, error) {
	data, err := os.ReadFile(filepath.Join(folder, "config.json"))
	if err != nil {
		return nil, err
	}
	var extra []source.Source
	for _, name := range []string{"hf_quant_config.json", "quantize_config.json"} {
		if more, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
			extra = append(extra, source.Bytes(name, more))
		}
	}
	return hfmodel.Read(source.Bytes("config.json", data), extra...)
}
