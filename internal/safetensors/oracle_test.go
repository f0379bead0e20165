package safetensors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/internal/source"
)

// TestOracles reads every header and index of a folder of published files when
// the variable ORACLES names it: zoo/headers with its INDEX.jsonl of sizes, and
// zoo/*/*.index.json.
func TestOracles(t *testing.T) {
	root := oracle.Dir(t)
	t.Run("headers", func(t *testing.T) { oracleHeaders(t, filepath.Join(root, "zoo")) })
	t.Run("indexes", func(t *testing.T) { oracleIndexes(t, filepath.Join(root, "zoo")) })
}

func oracleHeaders(t *testing.T, zoo string) {
	rows, err := os.ReadFile(filepath.Join(zoo, "headers/INDEX.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(rows))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row struct {
			File    string            `json:"header_file"`
			Header  int64             `json:"header_bytes"`
			Data    int64             `json:"data_bytes"`
			Tensors int               `json:"n_tensors"`
			Meta    map[string]string `json:"metadata"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(zoo, row.File))
		if err != nil {
			t.Fatal(err)
		}
		h, err := ParseHeader(row.File, string(text))
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if h.Length != row.Header || h.Data != row.Data || len(h.Tensors) != row.Tensors || len(h.Metadata) != len(row.Meta) {
			t.Errorf("%s: length %d, data %d, %d tensors; want %+v", row.File, h.Length, h.Data, len(h.Tensors), row)
		}
	}
}

func oracleIndexes(t *testing.T, zoo string) {
	files, err := filepath.Glob(filepath.Join(zoo, "*/*.index.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no indexes", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Map map[string]string `json:"weight_map"`
		}
		valid := json.Unmarshal(text, &want) == nil && len(want.Map) > 0
		index, err := ReadIndex(source.Bytes(file, text))
		if valid != (err == nil) {
			t.Errorf("%s: %v, want it read: %v", file, err, valid)
		}
		if err != nil {
			t.Logf("refused: %v", err)
			continue
		}
		if len(index.Entries) != len(want.Map) {
			t.Errorf("%s: %d entries, want %d", file, len(index.Entries), len(want.Map))
		}
		for _, e := range index.Entries {
			if index.Shards[e.Shard] != want.Map[e.Name] {
				t.Errorf("%s: %s is in %q, want %q", file, e.Name, index.Shards[e.Shard], want.Map[e.Name])
			}
		}
	}
}
