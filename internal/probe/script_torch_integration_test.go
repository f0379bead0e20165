//go:build integration

package probe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/checklist"
)

// These tests run real PyTorch on the CPU, with the stand-in in the place of the
// device. FLOODMARK_TEST_TORCH lists interpreters as PATH is written; without it
// the python3 of PATH is tried. scripts/integration.sh finds them.

// torches are the interpreters that can import all of these modules, and prints
// the versions that are really run.
func torches(t *testing.T, modules ...string) (list []string) {
	t.Helper()
	all := filepath.SplitList(os.Getenv("FLOODMARK_TEST_TORCH"))
	if len(all) == 0 {
		all = []string{"python3"}
	}
	for _, python := range all {
		versions := "import json, importlib, sys\nprint(json.dumps([[n, importlib.import_module(n).__version__] for n in sys.argv[1:]]))"
		out, err := exec.Command(python, append([]string{"-c", versions}, modules...)...).Output()
		var found [][]string
		if err != nil || json.Unmarshal(out, &found) != nil {
			continue
		}
		t.Logf("%v", found)
		list = append(list, python)
	}
	if len(list) == 0 {
		t.Skipf("NOT RUN: no interpreter has %s (pip install %s)", strings.Join(modules, ", "), strings.Join(modules, " "))
	}
	return list
}

// standIn puts the device of testdata/standin under a real PyTorch.
func standIn(t *testing.T, python string, args ...string) *run {
	return &run{python: python, paths: []string{absolute(t, "testdata/standin")}, args: args, env: []string{"STANDIN=1"}}
}

func program(t *testing.T, name string) string { return absolute(t, "testdata/programs/"+name) }

// The phases of the lab, and around each of them the whole order.
func TestLabPyTorch(t *testing.T) {
	checklist.Covers(t, 35, 36, 37, 92, 93, 94, 96, 97, 99, 101, 109, 110)
	for _, python := range torches(t, "torch") {
		for _, c := range []struct{ name, flags, want string }{
			{"inference", "--warmup 3 --repeats 2", "model_load inputs cold_forward/first warmup/warmup warm_forward/repeat warm_forward/repeat"},
			{"no warm-up", "--warmup 0 --repeats 1", "model_load inputs cold_forward/first warm_forward/repeat"},
			{"training", "--train --warmup 1 --repeats 1 --dtype float64", "model_load inputs forward/first loss/first backward/first optimizer_step/first " +
				"forward/warmup loss/warmup backward/warmup optimizer_step/warmup forward/repeat loss/repeat backward/repeat optimizer_step/repeat"},
		} {
			t.Run(c.name, func(t *testing.T) {
				args := append([]string{absolute(t, "floodmark_probe.py"), "lab", "--device", "cuda:0", "--width", "16", "--context", "4"}, strings.Fields(c.flags)...)
				r := standIn(t, python, args...)
				r.plain, r.env = true, append(r.env, "STANDIN_VISIBLE=1")
				s := r.start(t).only(t)
				s.faultless(t)
				var got, order []string
				for _, end := range s.of("end") {
					name := show(end["name"])
					if pass := show(end["pass"]); pass != "<nil>" {
						name += "/" + pass
					}
					got = append(got, name)
					order = append(order, "synchronize 0", "read 0", "reset 0", "synchronize 0", "read 0")
					if end["status"] != "ok" || end["readings"] != "protocol" {
						t.Errorf("%v", end)
					}
				}
				if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" || r.status != 0 {
					t.Errorf("status %d %s: %s", r.status, r.stderr, diff)
				}
				if diff := cmp.Diff(append(order, "read 0"), r.log); diff != "" { // the last is that of the exit
					t.Error(diff)
				}
				if lab := s.of("lab"); len(lab) != 1 || show(lab[0]["width"]) != "16" || lab[0]["empty_cache_between_repeats"] != false {
					t.Errorf("%v", lab)
				}
			})
		}
	}
}

// A PyTorch without a device stops with 2 and says what is missing.
func TestLabGuardPyTorch(t *testing.T) {
	checklist.Covers(t, 106, 115)
	for _, python := range torches(t, "torch") {
		r := &run{python: python, plain: true, args: []string{absolute(t, "floodmark_probe.py"), "lab", "--device", "cuda:0"},
			env: []string{"CUDA_VISIBLE_DEVICES="}}
		lines := r.start(t).only(t).of("impossible")
		if r.status != 2 || len(lines) != 1 || lines[0]["missing"] != "cuda" {
			t.Errorf("%s: status %d, %v: %s", python, r.status, lines, r.stderr)
		}
	}
}

// Programs that know nothing of the probe: their phases, in the order of their beginning,
// with what is inside in brackets. The lists are written by hand from the programs.
func TestProgramsTransformers(t *testing.T) {
	checklist.Covers(t, 12, 35, 37, 39, 52)
	step := "inputs forward(loss) backward optimizer_step"
	evaluation := "evaluation(inputs forward(loss) inputs forward(loss))"
	for _, c := range []struct {
		name, env string
		modules   []string
		want      string
	}{
		// The Trainer moves the model when it is made, and once more when it trains.
		{"trainer.py", "", []string{"torch", "transformers", "accelerate"},
			"transfer transfer " + step + " " + step + " " + evaluation + " save"},
		{"trainer.py", EnvFirst + "=save,evaluation", []string{"torch", "transformers", "accelerate"},
			"transfer transfer " + step + " " + evaluation + " save " + step + " " + evaluation + " save"},
		{"trainer.py", EnvSteps + "=1", []string{"torch", "transformers", "accelerate"}, "transfer transfer " + step},
		{"generate.py", "", []string{"torch", "transformers"}, "generate(prefill decode) generate(prefill decode) generate(prefill)"},
		{"saving.py", "", []string{"torch", "transformers", "safetensors"}, "save model_load save save model_load?"},
		{"tokens.py", "", []string{"torch", "transformers", "tokenizers"}, "forward forward forward"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, python := range torches(t, c.modules...) {
				r := standIn(t, python, program(t, c.name), t.TempDir())
				r.env = append(r.env, c.env)
				s := r.start(t).only(t)
				s.faultless(t)
				if diff := cmp.Diff(c.want, s.tree()); diff != "" || r.status != 0 {
					t.Errorf("status %d: %s\n%s", r.status, diff, r.stderr)
				}
				if missing := s.of("missing"); len(missing) > 0 {
					t.Errorf("missing: %v", missing)
				}
			}
		})
	}
}

// A compiled model is one forward like any other. A forward inside of what is compiled as a whole
// cannot be seen: it is missing, and nothing is put in its place. fullgraph in the program
// proves that the hooks break no graph.
func TestCompiledPyTorch(t *testing.T) {
	for _, python := range torches(t, "torch") {
		if exec.Command(python, "-c", "import torch; torch.compile").Run() != nil {
			t.Logf("NOT RUN under %s: this PyTorch compiles nothing", filepath.Base(python))
			continue
		}
		r := standIn(t, python, program(t, "compiled.py"), t.TempDir()).start(t)
		s := r.only(t)
		s.faultless(t)
		want := "forward backward optimizer_step forward backward optimizer_step backward optimizer_step"
		if diff := cmp.Diff(want, s.tree()); diff != "" || r.status != 0 {
			t.Errorf("status %d: %s\n%s", r.status, diff, r.stderr)
		}
		if missing := s.of("missing"); len(missing) != 1 || missing[0]["name"] != "forward" || show(missing[0]["step"]) != "3" {
			t.Errorf("missing: %v, want the forward of step 3", missing)
		}
	}
}

// What a phase processed: shapes after the preparation, a hash of the contents, the loss, what was cut off.
func TestObservedTransformers(t *testing.T) {
	checklist.Covers(t, 11, 12, 13, 146)
	for _, python := range torches(t, "torch", "transformers", "tokenizers") {
		first := standIn(t, python, program(t, "tokens.py")).start(t)
		ends := first.only(t).of("end")
		if len(ends) != 3 {
			t.Fatalf("%d phases: %s", len(ends), first.stderr)
		}
		for i, want := range []string{"9", "0", "<nil>"} {
			if got := show(ends[i]["truncated_tokens"]); got != want {
				t.Errorf("forward %d: %s tokens were cut off, want %s", i+1, got, want)
			}
		}
		if got := get(ends[0], "inputs", "tensors", 0, "shape"); !cmp.Equal(got, []any{3., 4.}) {
			t.Errorf("shape %v, want 3 texts of 4 tokens", got)
		}
		tokens := first.only(t).of("tokens")
		if len(tokens) == 0 || show(tokens[0]["truncated"]) != "9" || show(tokens[0]["sequences"]) != "2" {
			t.Errorf("%v", tokens)
		}

		hashes := map[any]bool{}
		for range 2 {
			again := standIn(t, python, program(t, "generate.py")).start(t).only(t)
			for _, end := range again.of("end") {
				if end["name"] == "generate" && show(end["step"]) == "1" {
					hashes[get(end, "inputs", "sha256")], hashes[get(end, "result", "sha256")] = true, true
					if show(get(end, "result", "generated_tokens")) != "4" {
						t.Errorf("%v", end["result"])
					}
				}
			}
		}
		if len(hashes) != 2 || hashes[nil] {
			t.Errorf("inputs and outputs of two runs have the hashes %v, want the same two", hashes)
		}
	}
}

func TestCallbackTransformers(t *testing.T) {
	for _, python := range torches(t, "torch", "transformers", "accelerate") {
		r := standIn(t, python, program(t, "callback.py"), t.TempDir())
		r.plain = true
		s := r.start(t).only(t)
		s.faultless(t)
		want := "transfer transfer inputs forward(loss) backward optimizer_step evaluation(inputs forward(loss)) save"
		if diff := cmp.Diff(want, s.tree()); diff != "" || r.status != 0 {
			t.Errorf("status %d: %s\n%s", r.status, diff, r.stderr)
		}
	}
}

// Two ranks, of which the second is killed in its second step, before its optimizer.
func TestRanksPyTorch(t *testing.T) {
	step := []string{"forward", "backward", "optimizer_step"}
	for _, python := range torches(t, "torch") {
		if exec.Command(python, "-m", "torch.distributed.run", "--nproc_per_node", "1", "--no_python", "true").Run() != nil {
			t.Logf("NOT RUN under %s: its torch.distributed.run does not run by itself", filepath.Base(python))
			continue
		}
		r := standIn(t, python, "-m", "torch.distributed.run", "--nproc_per_node", "2", program(t, "ranks.py")).start(t)
		if r.status == 0 {
			t.Error("the launcher did not notice")
		}
		ranks := map[string]stream{}
		for _, s := range r.streams {
			s.faultless(t)
			ranks[show(s.lines[0]["rank"])] = s
		}
		if len(ranks) != 3 { // the launcher has none
			t.Fatalf("%d streams: %s", len(ranks), r.stderr)
		}
		if got, want := ranks["1"].tree(), strings.Join(step, " ")+" forward backward"; got != want || len(ranks["1"].of("exit")) != 0 {
			t.Errorf("rank 1: %s, want %s and no exit", got, want)
		}
		// The other may be stopped by the launcher at any moment after.
		most := strings.Join(step, " ") + " " + strings.Join(step, " ") + " forward backward"
		if got := ranks["0"].tree(); !strings.HasPrefix(most, strings.TrimRight(got, "…")) || len(got) < len("forward backward optimizer_step forward backward") {
			t.Errorf("rank 0: %s, want %s or less", got, most)
		}
		if got := ranks["<nil>"].tree(); got != "" {
			t.Errorf("the launcher has phases: %s", got)
		}
		if show(ranks["0"].lines[0]["world_size"]) != "2" || show(ranks["1"].lines[0]["local_rank"]) != "1" {
			t.Errorf("%v %v", ranks["0"].lines[0], ranks["1"].lines[0])
		}
	}
}
