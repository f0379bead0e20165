package enginelog

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/internal/oracle"
	"floodmark/internal/source"
)

// figures is what a person finds in the log of a start, by the columns of the table
// that somebody made of them.
func figures() map[string]Kind {
	return map[string]Kind{
		"init_free_memory_gib": KindFreeAtStart, "init_total_memory_gib": KindCapacity, "init_cuda_memory_gib": KindInUse, "init_non_torch_memory_gib": KindOutside,
		"requested_memory_gib": KindBudget, "weight_memory_gib": KindWeights, "activation_memory_gib": KindPeakActivation, "non_torch_forward_gib": KindNonTorch,
		"total_non_kv_cache_gib": KindNonKVCache, "cuda_graph_estimated_gib": KindGraphsEstimated, "cuda_graph_actual_gib": KindGraphs,
		"kv_cache_memory_gib": KindKVCacheAvailable, "kv_cache_tokens": KindKVCacheTokens,
	}
}

// Every figure that was taken from a log by hand is among those that are read of
// it, and no log makes the reader fail.
func TestOracleStartupLogs(t *testing.T) {
	dir := filepath.Join(oracle.Dir(t), "groundtruth")
	f, err := os.Open(filepath.Join(dir, "vllm_0.19_h100_startups.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	logs, found, wanted := 0, 0, 0
	for _, row := range rows[1:] {
		src, err := source.Open(filepath.Join(dir, "vllm_logs", row[0]))
		if err != nil {
			continue // not every log is there
		}
		log, err := Read(src)
		src.Close()
		if strings.Contains(row[0], "tp5") && log == nil {
			continue // it was refused before anything was printed about memory
		}
		if err != nil {
			t.Errorf("%s: %v", row[0], err)
			continue
		}
		logs++
		for i, column := range rows[0] {
			kind, is := figures()[column]
			if !is || row[i] == "" {
				continue
			}
			wanted++
			if has(log, kind, row[i]) {
				found++
			} else {
				t.Errorf("%s: %s %s is not read", row[0], column, row[i])
			}
		}
	}
	t.Logf("%d logs: %d of %d figures", logs, found, wanted)
	if logs < 10 {
		t.Errorf("%d logs, want ten at least", logs)
	}
}

// has reports a reading of a kind that prints a number.
func has(l *Log, kind Kind, number string) bool {
	want, _ := strconv.ParseFloat(number, 64)
	for _, c := range l.Components {
		text, _, _ := strings.Cut(strings.ReplaceAll(c.Printed, ",", ""), " ")
		if got, err := strconv.ParseFloat(text, 64); err == nil && c.Kind == kind && got == want {
			return true
		}
	}
	return false
}
