package floodmark

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// leaves are the paths of all that a workload can state.
func leaves(path string, of reflect.Type) []string {
	switch {
	case of == reflect.TypeFor[account.Figure]():
		return nil
	case of == reflect.TypeFor[dtype.Format](), of == reflect.TypeFor[workload.StateFormat]():
		return []string{path}
	case of == reflect.TypeFor[[]workload.Feature]():
		var all []string
		for _, f := range workload.Features() {
			all = append(all, path+"."+string(f))
		}
		return all
	case of == reflect.TypeFor[map[workload.Dimension]int64]():
		var all []string
		for _, d := range workload.Dimensions() {
			all = append(all, path+"."+string(d))
		}
		return all
	}
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return leaves(path, of.Elem())
	case reflect.Struct:
		var all []string
		for i := range of.NumField() {
			all = append(all, leaves(strings.TrimPrefix(path+"."+snake(of.Field(i).Name), "."), of.Field(i).Type)...)
		}
		return all
	}
	return []string{path}
}

// Every setting has a line that says who reads it, and no line is of no setting: a
// field that is added to the workload is not ignored in silence.
func TestEverySettingHasReaders(t *testing.T) {
	all, used := readerLines(), map[string]bool{}
	for _, path := range leaves("", reflect.TypeFor[workload.Workload]()) {
		at := path
		for ; at != "" && all[at].fate == ""; at = at[:max(0, strings.LastIndex(at, "."))] {
		}
		if used[at] = true; at == "" {
			t.Errorf("%s: no line of settings_readers.txt says who reads it", path)
		}
	}
	words := map[string]bool{"*": true, "load": true, "generate": true, "shared": true}
	for _, name := range Engines() {
		words[name] = true
	}
	for _, o := range workload.Operations() {
		words[string(o)] = true
	}
	for _, k := range workload.ShardingKinds() {
		words[string(k)] = true
	}
	for path, line := range all {
		if !used[path] {
			t.Errorf("%s: a line of no setting", path)
		}
		if line.fate != "refused" && line.fate != "open" && line.fate != "less" && line.fate != "said" {
			t.Errorf("%s: the fate %q is none", path, line.fate)
		}
		for _, w := range line.readers {
			if !words[w] {
				t.Errorf("%s: %q is no word of a reader", path, w)
			}
		}
	}
}

// Who is said to read a part of training, or of what serves, has it in its source.
func TestReadersNameWhatTheyRead(t *testing.T) {
	folders := map[string]string{"megatron": "estimate/megatron", "training": "estimate/training", "vllm": "estimate/vllm"}
	sources := map[string]string{}
	for reader, folder := range folders {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil && !strings.HasSuffix(file, "_test.go") {
				sources[reader] += string(text)
			}
		}
	}
	for path, line := range readerLines() {
		last := path[strings.LastIndex(path, ".")+1:]
		if !strings.HasPrefix(path, "training.") && !strings.HasPrefix(path, "serving.budget.") {
			continue
		}
		for _, reader := range line.readers {
			source, known := sources[reader]
			if field := "." + camel(last); known && !strings.Contains(source, field) {
				t.Errorf("%s: %s is said to read it, and nothing in %s names %s", path, reader, folders[reader], field)
			}
		}
	}
}

// camel is a name as Go spells it.
func camel(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// What a workload states and its engine does not read is refused, leaves the verdict
// open, or is said.
func TestSettingsThatAreNotRead(t *testing.T) {
	train := func(t workload.Train) workload.Workload {
		t.Optimizer = workload.Optimizer{Name: workload.AdamW}
		return workload.Workload{Operation: workload.Training, Training: &t}
	}
	inputs := func(o workload.Operation, d workload.Dimension) workload.Workload {
		w := workload.Workload{Operation: o, Inputs: []workload.Input{{Name: "a", Dimensions: map[workload.Dimension]int64{d: 900}}}}
		return w
	}
	shard := func(s workload.Sharding, ranks int) workload.Workload {
		w := train(workload.Train{Sharding: &s})
		w.Mesh.DataParallel = ranks
		return w
	}
	under := func(w workload.Workload, name string) workload.Workload { w.Engine.Name = name; return w }
	m, err := LoadModel("testdata/models/Llama-3.2-1B")
	if err != nil {
		t.Fatal(err)
	}
	plain := train(workload.Train{})
	for name, c := range map[string]struct {
		w    workload.Workload
		want string // refused: …, open: …, said: …, or nothing
	}{
		"recomputation of Megatron-LM":           {train(workload.Train{Recompute: &workload.Recompute{Modules: []string{"mlp"}}}), "open: training.recompute"},
		"a schedule":                             {train(workload.Train{Schedule: workload.Schedule{Kind: workload.GPipe}}), "open: training.schedule"},
		"sequence parallelism":                   {train(workload.Train{SequenceParallel: true}), "open: training.sequence_parallel"},
		"the same of Megatron-LM":                {under(train(workload.Train{SequenceParallel: true}), "megatron"), ""},
		"what only Megatron-LM is told":          {train(workload.Train{Megatron: &workload.Megatron{Capacity: 3}}), "refused: training.megatron"},
		"gathered parameters without a sharding": {shard(workload.Sharding{Kind: workload.DDP, KeepsGathered: true}, 2), "refused: training.sharding.keeps_gathered"},
		"gathered parameters of FSDP":            {shard(workload.Sharding{Kind: workload.FSDP2, KeepsGathered: true}, 2), ""},
		"a sharding of one rank":                 {shard(workload.Sharding{Kind: workload.ZeRO3}, 1), "open: training.sharding.kind"},
		"sequences in training":                  {inputs(workload.Training, workload.Sequences), "open: inputs.sequences"},
		"a micro-batch of generation":            {inputs(workload.Generation, workload.MicroBatch), "open: inputs.micro_batch"},
		"packing of transformers":                {train(workload.Train{Packed: true}), "open: training.packed"},
		"packing of torchtune":                   {under(train(workload.Train{Packed: true}), "torchtune"), ""},
		"a cache of training":                    {func() workload.Workload { w := plain; w.Cache = workload.Static; return w }(), "open: cache"},
		"an engine's share in plain generation":  {workload.Workload{Operation: workload.Generation, Serving: &workload.Serving{Budget: &workload.Budget{Utilization: 0.9}}}, "open: serving.utilization"},
		"a resident beside vLLM":                 {workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "vllm"}, Resident: []workload.Resident{{Name: "other"}}}, "open: residents"},
		"weights in another format":              {workload.Workload{Operation: workload.Generation, Precision: workload.Precision{Parameters: dtype.F32}}, "open: precision.parameters"},
		"moments in generation":                  {workload.Workload{Operation: workload.Generation, Precision: workload.Precision{FirstMoment: workload.In(dtype.F32)}}, "said: precision.first_moment"},
	} {
		e, err := engine(c.w)
		if err != nil {
			t.Fatal(name, err)
		}
		r, err := Request{Model: m, Workload: c.w}.read(e)
		got := ""
		switch {
		case err != nil:
			got = "refused: " + err.Error()
		case len(r.Workload.Open) > 0:
			got = "open: " + r.Workload.Open[0]
		case len(r.Warnings) > 0:
			got = "said: " + r.Warnings[0].Text
		}
		if got != c.want && (c.want == "" || !strings.HasPrefix(got, c.want+" is set")) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
