package report

import (
	"strings"
	"testing"

	"floodmark/record"
)

// A log without a failure lists what it says; a rank has a column where a text
// gives one.
func TestLogWithoutFailure(t *testing.T) {
	bytes, rank, device := int64(7)<<30, 1, 0
	log := &record.Log{Source: "serve.log", Lines: 12, NotUnderstood: 10, Components: []record.Component{
		{Component: "vllm Worker_TP1", Rank: &rank, Kind: "weights", Bytes: &bytes, Printed: "7.00 GiB", Line: 3},
		{Component: "vllm EngineCore", Kind: "kv_cache_tokens", Printed: "2,591,776 tokens", Line: 7},
		{Component: "llama.cpp CUDA0", Device: &device, Kind: "unaccounted", Printed: "-12 MiB", Line: 9},
		{Component: "device", Device: &device, Kind: "in_use", Printed: "9223372036854775794", Line: 11},
	}}
	for _, want := range []string{
		"serve.log · 12 lines, of which 10 say nothing about memory\n",
		"7.00  GiB     weights             1       —     3  vllm Worker_TP1",
		"2,591,776  tokens  kv cache tokens     —       —     7  vllm EngineCore",
		"-12  MiB     unaccounted         —       0     9  llama.cpp CUDA0",
		"—          in use              —       0    11  device", // DCGM's blank is no number
	} {
		var got strings.Builder
		if err := Text(&got, log, Style{Width: 100}); err != nil || !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s (%v)", want, got.String(), err)
		}
	}
}
