package state_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/state"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/workload"
)

// logged is one size that an engine printed for what it keeps of sequences.
type logged struct {
	id, field string
	printed   string // "1952.00 MiB": to its digits
	layers    int
	mixer     model.Mixer
	o         state.Options
	positions int64
	sequences int64
	tensor    int
}

func formats(keys, values dtype.Format) state.Options {
	return state.Options{Compute: dtype.F16, Keys: keys, Values: values}
}

// whole is an engine that gives windows the whole length.
func whole() state.Options { return state.Options{Compute: dtype.F16, WholeWindows: true} }

func mla() model.LatentAttention {
	return model.LatentAttention{QueryHeads: 128, KVRank: 512, NopeDim: 128, RopeDim: 64, ValueDim: 128}
}

func qwen36(sequences int64) logged {
	return logged{layers: 48, mixer: model.GatedDelta{KeyHeads: 16, ValueHeads: 48, KeyDim: 128, ValueDim: 128, Conv: 4},
		o: state.Options{Compute: dtype.F32}, sequences: sequences}
}

// llamaLogs is what llama.cpp and its forks printed.
func llamaLogs() []logged {
	f16, q8 := formats(dtype.F16, dtype.F16), formats(dtype.Q8_0, dtype.Q8_0)
	window := gqa(8, 64, 64)
	window.Window = 128
	gemma := gqa(16, 128, 128)
	gemma.Window = 1024
	delta := model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4}
	f32 := state.Options{Compute: dtype.F32}
	latent512 := model.LatentAttention{QueryHeads: 1, KVRank: 512}
	rs := func(id, field, printed string, sequences int64) logged {
		l := qwen36(sequences)
		l.id, l.field, l.printed = id, field, printed
		return l
	}
	return []logged{
		{id: "ik-370-glm-z1-32b-iq4xs-main", field: "kv_cuda0", printed: "1952.00 MiB", layers: 61, mixer: gqa(2, 128, 128), o: f16, positions: 32768},
		{id: "ik-370-qwen3-30b-a3b-iq4k", field: "kv_cuda0", printed: "3072.00 MiB", layers: 48, mixer: gqa(4, 128, 128), o: f16, positions: 32768},
		{id: "ik-370-qwen3-235b-q6k-2gpu-moe-cpu", field: "kv_total", printed: "1598.00 MiB", layers: 94, mixer: gqa(4, 128, 128), o: q8, positions: 16384},
		{id: "ik-260-deepseek-r1-16gpu-oom-fmla2", field: "kv_total", printed: "1098.00 MiB", layers: 61, mixer: mla(), o: f16, positions: 16384},
		{id: "ik-260-deepseek-r1-16gpu-oom-fmla2", field: "kv_cuda15", printed: "36.00 MiB", layers: 2, mixer: mla(), o: f16, positions: 16384},
		{id: "ik-103-llama31-8b-q5ks-mixedkv", field: "kv_cuda0", printed: "82.00 MiB", layers: 32, mixer: gqa(8, 128, 128), o: formats(dtype.IQ4_NL, dtype.F16), positions: 1024},
		{id: "ik-103-llama31-8b-q5ks-mixedkv", field: "kv_k", printed: "18.00 MiB", layers: 32, mixer: gqa(8, 128, 0), o: formats(dtype.IQ4_NL, dtype.F16), positions: 1024},
		{id: "ik-103-llama31-8b-q5ks-mixedkv", field: "kv_v", printed: "64.00 MiB", layers: 32, mixer: gqa(8, 0, 128), o: formats(dtype.IQ4_NL, dtype.F16), positions: 1024},
		{id: "ik-92-llama31-8b-q8q4-and-q5q5-kv", field: "kv_total_q8_0_iq4_nl", printed: "104.00 MiB", layers: 32, mixer: gqa(8, 128, 128), o: formats(dtype.Q8_0, dtype.IQ4_NL), positions: 2048},
		{id: "ik-92-llama31-8b-q8q4-and-q5q5-kv", field: "kv_total_q5_1_q5_0", printed: "92.00 MiB", layers: 32, mixer: gqa(8, 128, 128), o: formats(dtype.Q5_1, dtype.Q5_0), positions: 2048},
		{id: "ik-334-gemma3-27b-qat-q4km-no-swa-cache", field: "kv_cuda0", printed: "15872.00 MiB", layers: 62, mixer: gemma, o: whole(), positions: 32768},
		{id: "ik-398-qwen3-30b-a3b-q4km-2xT4", field: "kv_cuda0", printed: "1600.00 MiB", layers: 25, mixer: gqa(4, 128, 128), o: f16, positions: 32768},
		{id: "ik-398-qwen3-30b-a3b-q4km-2xT4", field: "kv_cuda1", printed: "1472.00 MiB", layers: 23, mixer: gqa(4, 128, 128), o: f16, positions: 32768},
		{id: "ik-398-deepseek-v3-0324-q3kxl-5gpu-mla1", field: "kv_total", printed: "2196.00 MiB", layers: 61, mixer: mla(), o: f16, positions: 32768},
		{id: "ik-398-deepseek-v3-0324-q3kxl-5gpu-mla1", field: "kv_cuda0", printed: "468.00 MiB", layers: 13, mixer: mla(), o: f16, positions: 32768},
		{id: "ik-398-deepseek-v3-0324-q3kxl-5gpu-mla1", field: "kv_cuda4", printed: "648.00 MiB", layers: 18, mixer: mla(), o: f16, positions: 32768},
		{id: "ik-629-qwen3-235b-iq3k-5090-4090", field: "kv_cuda0", printed: "3520.00 MiB", layers: 55, mixer: gqa(4, 128, 128), o: f16, positions: 32768},
		{id: "ik-629-qwen3-235b-iq3k-5090-4090", field: "kv_cuda1", printed: "2496.00 MiB", layers: 39, mixer: gqa(4, 128, 128), o: f16, positions: 32768},
		{id: "lcpp-qwen36-27b-udq4kxl-mtp-vision-5090", field: "kv_cuda0", printed: "4352.00 MiB", layers: 16, mixer: gqa(4, 256, 256), o: q8, positions: 131072},
		{id: "lcpp-qwen36-27b-udq4kxl-mtp-vision-5090", field: "mtp_kv", printed: "272.00 MiB", layers: 1, mixer: gqa(4, 256, 256), o: q8, positions: 131072},
		rs("lcpp-qwen36-27b-udq4kxl-mtp-vision-5090", "rs_cuda0", "598.50 MiB", 4),
		{id: "lcpp-qwen35-4b-q5kxl-mtp-131k-rtx5070m", field: "kv", printed: "2176 MiB", layers: 8, mixer: gqa(4, 256, 256), o: q8, positions: 131072},
		{id: "lcpp-qwen35-4b-q5kxl-mtp-131k-rtx5070m", field: "rs_no_mtp", printed: "50.25 MiB", layers: 24, mixer: delta, o: f32},
		{id: "lcpp-qwen35-4b-q5kxl-mtp-131k-rtx5070m", field: "rs_mtp", printed: "201.00 MiB", layers: 24, mixer: delta, o: f32, sequences: 4},
		{id: "lcpp-qwen25-7b-q4km-rtx5070m", field: "kv_q8", printed: "238 MiB", layers: 28, mixer: gqa(4, 128, 128), o: q8, positions: 8192},
		{id: "lcpp-qwen25-7b-q4km-rtx5070m", field: "kv_q4", printed: "126 MiB", layers: 28, mixer: gqa(4, 128, 128), o: formats(dtype.Q4_0, dtype.Q4_0), positions: 8192},
		{id: "ik-822-gpt-oss-20b-131k-oom", field: "kv_cuda0", printed: "6144.00 MiB", layers: 24, mixer: window, o: whole(), positions: 131072},
		{id: "lcpp-6122-command-r-35b-2gpu", field: "kv_cuda0", printed: "1536.00 MiB", layers: 12, mixer: gqa(64, 128, 128), o: f16, positions: 4096},
		{id: "lcpp-6122-command-r-35b-2gpu", field: "kv_cuda1", printed: "3584.00 MiB", layers: 28, mixer: gqa(64, 128, 128), o: f16, positions: 4096},
		{id: "lcpp-27680-dsv4-flash-swa-cells", field: "kv_swa", printed: "182.75 MiB", layers: 43, mixer: latent512, o: f16, positions: 4352},
		rs("lcpp-fork308-qwen-27b-turbo-kv", "rs", "448.88 MiB", 3),
		rs("lcpp-23792-qwen-27b-tp3-rs-split", "rs_total", "448.88 MiB", 3),
		{id: "lcpp-genie410-falcon-h1-15b", field: "kv_32k", printed: "768.00 MiB", layers: 24, mixer: gqa(2, 128, 128), o: f16, positions: 32768},
		{id: "lcpp-genie410-falcon-h1-15b", field: "kv_4k", printed: "96 MiB", layers: 24, mixer: gqa(2, 128, 128), o: f16, positions: 4096},
		{id: "lcpp-genie410-falcon-h1-15b", field: "qwen25_15b_kv_32k", printed: "896.00 MiB", layers: 28, mixer: gqa(2, 128, 128), o: f16, positions: 32768},
		{id: "lcpp-genie410-falcon-h1-15b", field: "rs", printed: "72.98 MiB", layers: 24, mixer: model.Mamba{Version: 2, Inner: 3072, Heads: 48, HeadDim: 64, State: 256, Groups: 1, Conv: 4}, o: f32},
		{id: "lcpp-genie410-falcon-h1-15b", field: "mamba14b_state", printed: "14.25 MiB", layers: 48, mixer: model.Mamba{Version: 1, Inner: 4096, State: 16, Conv: 4}, o: f32},
		{id: "lcpp-5328-mamba-28b-state", field: "state_per_slot", printed: "23.75 MiB", layers: 64, mixer: model.Mamba{Version: 1, Inner: 5120, State: 16, Conv: 4}, o: f32},
		{id: "lcpp-5328-mamba-28b-state", field: "state_512_slots", printed: "11.875 GiB", layers: 64, mixer: model.Mamba{Version: 1, Inner: 5120, State: 16, Conv: 4}, o: f32, sequences: 512},
		{id: "ik-235-deepseek-r1-q2k-mla2-noflash-compute", field: "run1_kv", printed: "1372.50 MiB", layers: 61, mixer: mla(), o: f16, positions: 20480},
		{id: "ik-235-deepseek-r1-q2k-mla2-noflash-compute", field: "run2_kv", printed: "2196.00 MiB", layers: 61, mixer: mla(), o: f16, positions: 32768},
	}
}

// poolLogs is what SGLang and TensorRT-LLM printed.
func poolLogs() []logged {
	half := state.Options{Compute: dtype.BF16}
	sparse := mla()
	sparse.Indexer = &model.Indexer{Heads: 32, KeyDim: 128, TopK: 2048}
	granite := model.Mamba{Version: 2, Inner: 4096, Heads: 64, HeadDim: 64, State: 128, Groups: 1}
	convolution := granite
	convolution.State, convolution.Heads, convolution.Inner, convolution.Conv, convolution.Groups = 0, 0, 4096+256, 4, 0
	return []logged{
		{id: "sglang-21348-qwen3-235b-fp8-tp4-h100", field: "k_size", printed: "8.23 GiB", layers: 94, mixer: gqa(4, 128, 0), o: half, positions: 367404, tensor: 4},
		{id: "sglang-21348-qwen3-235b-fp8-tp4-h100", field: "v_size", printed: "8.23 GiB", layers: 94, mixer: gqa(4, 0, 128), o: half, positions: 367404, tensor: 4},
		{id: "sglang-kimi-k25-tp8-mi355x", field: "kv_size", printed: "160.63 GiB", layers: 61, mixer: mla(), o: half, positions: 2454421, tensor: 8},
		{id: "sglang-granite40-h-micro", field: "k_size", printed: "1.52 GiB", layers: 4, mixer: gqa(8, 64, 0), o: half, positions: 399740},
		{id: "sglang-granite40-h-micro", field: "v_size", printed: "1.52 GiB", layers: 4, mixer: gqa(8, 0, 64), o: half, positions: 399740},
		{id: "sglang-granite40-h-micro", field: "ssm_state", printed: "2.74 GiB", layers: 36, mixer: granite, o: state.Options{Compute: dtype.BF16, Recurrent: dtype.F32}, sequences: 39},
		{id: "sglang-granite40-h-micro", field: "conv_state", printed: "0.03 GiB", layers: 36, mixer: convolution, o: half, sequences: 39},
		{id: "sglang-r1-distill-qwen7b-3090", field: "k_size", printed: "2.82 GiB", layers: 28, mixer: gqa(4, 128, 0), o: half, positions: 105531},
		{id: "sglang-r1-distill-qwen7b-3090", field: "v_size", printed: "2.82 GiB", layers: 28, mixer: gqa(4, 0, 128), o: half, positions: 105531},
		{id: "sglang-18039-mimo-v2-flash-tp4-ratio08", field: "swa_k_size", printed: "8.38 GiB", layers: 39, mixer: gqa(8, 192, 0), o: half, positions: 300288, tensor: 4},
		{id: "sglang-dsv3-dp-ep-docstring", field: "kv", printed: "17.16 GiB", layers: 61, mixer: mla(), o: formats(dtype.F8E4M3, dtype.F8E4M3), positions: 524288},
		{id: "sglang-glm5-class-dsa-gb10", field: "kv_131k", printed: "7.51 GiB", layers: 78, mixer: sparse, o: state.Options{Layout: state.FP8Latent}, positions: 131072 + 64},
		{id: "sglang-glm5-class-dsa-gb10", field: "kv_256k", printed: "15.01 GiB", layers: 78, mixer: sparse, o: state.Options{Layout: state.FP8Latent}, positions: 262144 + 64},
		{id: "trtllm-1400-llama7b-sq-a100", field: "kv_bytes", printed: "69524783104 bytes", layers: 32, mixer: gqa(32, 128, 128), o: half, positions: 132608},
		{id: "trtllm-dynamo-llama8b-kv", field: "kv", printed: "26.91 GiB", layers: 32, mixer: gqa(8, 128, 128), o: half, positions: 220480},
		{id: "trtllm-tutorial150-tinyllama-kv", field: "kv", printed: "78.3 GiB", layers: 22, mixer: gqa(4, 64, 64), o: half, positions: 116617 * 32},
	}
}

// bytes is what this package says of a logged size.
func (l logged) bytes(t *testing.T) int64 {
	t.Helper()
	m := stackOf(l.layers, l.mixer)
	s := state.Of(m, on(t, m, workload.Mesh{TensorParallel: max(1, l.tensor)}), l.o, state.Lengths{Sequences: max(1, l.sequences), Positions: l.positions})
	n, known := account.Sum(s.Reserved.Provenance, s.Reserved, s.Recurrent).IsExact()
	if !known {
		t.Fatalf("%s %s is not exact", l.id, l.field)
	}
	return n
}

// to writes bytes in the unit and to the decimals of a printed size.
func to(bytes int64, printed string) string {
	number, unit, _ := strings.Cut(printed, " ")
	_, decimals, _ := strings.Cut(number, ".")
	divisor := map[string]float64{"MiB": 1 << 20, "GiB": 1 << 30, "bytes": 1}[unit]
	return strconv.FormatFloat(float64(bytes)/divisor, 'f', len(decimals), 64) + " " + unit
}

// Sizes that engines printed, to the printed digits.
func TestEngineLogs(t *testing.T) {
	for _, l := range append(llamaLogs(), poolLogs()...) {
		if got := to(l.bytes(t), l.printed); got != l.printed {
			t.Errorf("%s %s: %s, printed %s", l.id, l.field, got, l.printed)
		}
	}
}

// notModelled is the fields that these engines print and this package does not
// predict, by what they begin with, with the reason.
func notModelled() map[string]string {
	return map[string]string{
		"weights": "the weight file is not in the row", "model": "the weight file is not in the row", "engine": "the engine file is not in the row",
		"compute": "a compute buffer, scored in estimate/llamacpp", "output": "llama.cpp's output buffer", "host": "main memory", "cuda_context": "outside the allocator",
		"avail": "a reading of the card", "free": "a reading of the card", "total": "a reading of the card", "nvidia_smi": "a reading of the card", "after_context": "a reading of the card",
		"available": "a reading of the card", "peak": "a reading of the card", "vram": "a reading of the card", "failed_alloc": "llama.cpp's compute buffer",
		"min_fraction": "no bytes", "mamba_slots": "given, not predicted", "kv_tokens": "given, not predicted", "full_tokens": "given, not predicted", "swa_tokens": "given, not predicted",
		"blocks": "given, not predicted", "cuda_graph": "captured graphs", "mmproj": "a vision tower's file", "mtp_compute": "llama.cpp's compute buffer", "mtp_weights": "the weight file is not in the row",
		"mtp_context": "a sum with a compute buffer", "exec_context": "TensorRT's activations", "runtime_buffers": "TensorRT's buffers", "run1_compute": "llama.cpp's compute buffer", "run2_compute": "llama.cpp's compute buffer",
		"run1_weights": "the weight file is not in the row", "context": "a sum of the cache and other buffers", "self": "a cache and a state together; see the next test",
		"rs_S": "a part of rs", "rs_R": "a part of rs", "rs_per_device": "a third of 16 key heads is no whole number",
		"kv_cuda0": "CUDA pads rows of quantised keys to 512 elements", "kv_cuda1": "CUDA pads rows of quantised keys to 512 elements",
		"kv": "a format of a fork", "kv_nonswa": "a compressed cache", "swa_v_size": "5.584 GiB are printed as 5.59",
	}
}

func whyNot(field string) string {
	longest := ""
	for name := range notModelled() {
		if strings.HasPrefix(field, name) && len(name) > len(longest) {
			longest = name
		}
	}
	return notModelled()[longest]
}

// Qwen3.5-9B prints cache and state as one.
func TestCacheAndStateTogether(t *testing.T) {
	m := stackOf(8, gqa(4, 256, 256), model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4},
		model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4}, model.GatedDelta{KeyHeads: 16, ValueHeads: 32, KeyDim: 128, ValueDim: 128, Conv: 4})
	for positions, want := range map[int64]string{4096: "178 MiB", 32768: "1074 MiB", 131072: "4146 MiB"} {
		s := state.Of(m, on(t, m, workload.Single()), state.Options{Compute: dtype.F32, Keys: dtype.F16}, state.Lengths{Sequences: 1, Positions: positions})
		if got := to(s.Payload.Low()+s.Recurrent.Low(), want); got != want {
			t.Errorf("%d positions: %s, printed %s", positions, got, want)
		}
	}
}

// TestOracleEngineLogs holds the table above against the published rows, and
// lists what none of it predicts.
func TestOracleEngineLogs(t *testing.T) {
	file, err := os.Open(filepath.Join(oracle.Dir(t), "groundtruth", "inference.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	mine := map[string]string{}
	for _, l := range append(llamaLogs(), poolLogs()...) {
		mine[l.id+" "+l.field] = l.printed
	}
	rows, predicted, left := 0, 0, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r struct {
			ID, Engine string
			Score      bool
			Reported   map[string]struct {
				Value any
				Unit  string
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		engine := strings.ToLower(r.Engine)
		if !r.Score || !strings.Contains(engine, "llama.cpp") && !strings.Contains(engine, "sglang") && !strings.Contains(engine, "tensorrt") {
			continue
		}
		rows++
		for field, v := range r.Reported {
			printed, ok := mine[r.ID+" "+field]
			delete(mine, r.ID+" "+field)
			if !ok {
				left++
				t.Logf("not modelled: %s %s %v %s: %s", r.ID, field, v.Value, v.Unit, whyNot(field))
				if whyNot(field) == "" {
					t.Errorf("%s %s: neither predicted nor listed", r.ID, field)
				}
				continue
			}
			predicted++
			if number, err := strconv.ParseFloat(strings.Fields(printed)[0], 64); err != nil || v.Value != number {
				t.Errorf("%s %s: the table has %s, published %v %s", r.ID, field, printed, v.Value, v.Unit)
			}
		}
	}
	t.Logf("%d rows: %d sizes predicted to the printed digits, %d not modelled", rows, predicted, left)
	if rows != 39 || len(mine) != 0 {
		t.Errorf("%d rows; not found: %v", rows, mine)
	}
}

// A table that a layer could be missing from without a trace would prove
// nothing.
func TestEngineLogsMissALayer(t *testing.T) {
	for _, l := range append(llamaLogs(), poolLogs()...) {
		l.layers--
		if l.id == "sglang-granite40-h-micro" && l.field == "conv_state" {
			continue // printed as 0.03 GiB, in which one layer of 36 is lost
		}
		if got := to(l.bytes(t), l.printed); got == l.printed {
			t.Errorf("%s %s: %s is printed without a layer too", l.id, l.field, got)
		}
	}
}
