package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/checklist"
	"floodmark/internal/source"
)

const serving = `
model: ./Llama-3.1-70B-Instruct
operation: generation
engine: {name: eager}
inputs:
  limit:   {context: 16384, generated: 1024, sequences: 32}
  typical: {context: 2048, generated: 256, sequences: 8}
  long:    {context: 8192, generated: 1024, sequences: 32, images: 2, resolution: 448}
precision: {compute: bf16, cache: fp8}
layout: {tensor_parallel: 8}
admission: {max_requests: 32, max_length: 9216, policy: preempt}
residents:
  - {name: reranker, what: a second model that stays loaded}
gpu: h100
host_capacity: 256 GiB
`

func read(text string) (*File, error) { return ReadFile(source.Bytes("w.yaml", []byte(text))) }

func TestReadFile(t *testing.T) {
	checklist.Covers(t, 6, 10, 14, 17, 197, 200)
	f, err := read(serving)
	if err != nil {
		t.Fatal(err)
	}
	w := f.Workload
	if f.Model != "./Llama-3.1-70B-Instruct" || f.GPU != "h100" || w.Operation != Generation || w.Mesh.TensorParallel != 8 {
		t.Errorf("%+v", f)
	}
	if w.Precision.Cache != dtype.F8E4M3 || w.Precision.Compute != dtype.BF16 || w.Precision.Parameters != dtype.Unknown {
		t.Errorf("precision is %+v", w.Precision)
	}
	if w.Serving == nil || w.Serving.Policy != Preempt || w.Serving.MaxRequests != 32 || len(w.Resident) != 1 || w.Host != 256<<30 {
		t.Errorf("admission %+v, residents %+v, host %d", w.Serving, w.Resident, w.Host)
	}
	var names []string
	for _, in := range w.Inputs {
		names = append(names, in.Name)
	}
	if strings.Join(names, " ") != "typical long limit" {
		t.Errorf("inputs in the order %v", names)
	}
	if n, ok := w.Dimension(Context); !ok || n != 16384 {
		t.Errorf("the largest context is %d, %v", n, ok)
	}
	if n, ok := w.Dimension(Images); !ok || n != 2 {
		t.Errorf("%d images, %v", n, ok)
	}
}

// A mark of the byte order before a text says nothing.
func TestByteOrderMark(t *testing.T) {
	if f, err := read("\xef\xbb\xbfmodel: a\n"); err != nil || f.Model != "a" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestReadFileRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown key", "modle: x\n", "modle"},
		{"a wrong operation", "operation: dreaming\n", `operation: is "dreaming", expected one of load, generation`},
		{"a wrong dimension", "inputs: {typical: {contex: 1}}\n", `inputs.typical: is "contex"`},
		{"a negative length", "inputs: {typical: {context: -1}}\n", "inputs.typical.context: is -1"},
		{"a length that is a text", "inputs: {typical: {context: long}}\n", "is not a workload file"},
		{"an unknown format", "precision: {cache: q9}\n", `precision.cache: is "q9"`},
		{"a bare size", "host_capacity: 80G\n", "does not say which unit is meant"},
		{"an absurd layout", "layout: {tensor_parallel: 99999999}\n", "layout.tensor_parallel"},
		{"a wrong policy", "admission: {policy: hope}\n", "admission.policy"},
		{"nesting", strings.Repeat("[", 5000), "nests 5000 levels"},
		{"a large file", strings.Repeat("#", 2<<20), "more than the 1048576"},
		{"a second document", "model: a\n---\nmodel: b\n", "holds a second document"},
		{"a layout of no ranks", "layout: {tensor_parallel: 0}\n", "layout.tensor_parallel: is 0, expected 1 to"},
		{"a layout of less than none", "layout: {data_parallel: -1}\n", "layout.data_parallel: is -1, expected 1 to"},
		{"a word for a number", "layout: {tensor_parallel: two}\n", "[1:27] expected a whole number"},
		{"half a card", "layout: {tensor_parallel: 1.5}\n", "[1:27] expected a whole number"},
		{"a fraction of requests", "admission:\n  max_requests: 2.7\n", "[2:17] expected a whole number"},
		{"a fraction of sequences", "inputs:\n  typical:\n    sequences: 2.5\n", "[3:16] expected a whole number"},
		{"a list for a text", "model: [a]\n", "[1:8] expected a text"},
		{"a number beyond 63 bits", "layout: {tensor_parallel: 99999999999999999999999}\n", "[1:27] is out of range, expected a whole number"},
		{"training without gradients", "precision: {parameters: bf16, gradients: none}\n", `precision.gradients: is "none", which training does not keep`},
		{"gradients in blocks", "precision: {parameters: bf16, gradients: 8bit}\n", `precision.gradients: is "8bit", which training does not keep`},
		{"a master copy in blocks", "precision: {parameters: bf16, master_copy: 8bit}\n", `precision.master_copy: is "8bit", which training does not keep`},
		{"half a layer", "training: {checkpointing: 2.5}\n", `training.checkpointing: is "2.5"`},
		{"a part of an option", "training: {adapter: {kind: fourierft, options: {n_frequency: 1.9}}}\n", "expected a whole number"},
		{"nothing", "", "is not a workload file: it is empty"},
		{"no YAML", "\x00\x01", "is not a workload file"},
	} {
		_, err := read(c.text)
		var format *source.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if strings.Contains(fmt.Sprint(err), "Go ") {
			t.Errorf("%s: %v names a type of this program", c.name, err)
		}
	}
}

func TestMissingIsNamed(t *testing.T) {
	checklist.Covers(t, 7)
	f, err := read("operation: generation\ninputs: {typical: {context: 8}}\n")
	if err != nil {
		t.Fatal(err)
	}
	missing := f.Workload.Missing()
	if len(missing) != 2 || missing[0] != Generated || missing[1] != Sequences {
		t.Errorf("missing: %v", missing)
	}
}

// Text and vision dimensions are both kept: one set alone is incomplete.
func TestBothModalitiesAreNeeded(t *testing.T) {
	checklist.Covers(t, 7, 8, 9)
	const text = "operation: generation\ninputs: {typical: {context: 8, generated: 1, sequences: 1"
	for _, c := range []struct {
		name, text string
		beside     []Modality
		want       string
	}{
		{"text for a model of text", text + "}}", nil, ""},
		{"text for a model that sees", text + "}}", []Modality{Vision}, "images"},
		{"no images, as declared", text + ", images: 0}}", []Modality{Vision}, ""},
		{"images of no resolution", text + ", images: 2}}", []Modality{Vision}, "resolution"},
		{"both", text + ", images: 2, resolution: 448}}", []Modality{Vision}, ""},
		{"images alone", "operation: generation\ninputs: {typical: {images: 2, resolution: 448}}", []Modality{Vision}, "context generated sequences"},
	} {
		f, err := read(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range f.Workload.Missing(c.beside...) {
			names = append(names, string(d))
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: missing %q, want %q", c.name, got, c.want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add(serving)
	f.Add("operation: load")
	f.Add("inputs: {a: {b: [}}")
	f.Add("&a [*a, *a]")
	f.Fuzz(func(t *testing.T, text string) {
		if file, err := read(text); err == nil && file == nil {
			t.Error("neither a file nor an error")
		}
	})
}

func TestOutputsThatEndAreKept(t *testing.T) {
	f, err := read("training: {optimizer: adamw, keep_outputs: true, drop_outputs: true}\n")
	if err != nil || !f.Workload.Training.KeepsOutputs || !f.Workload.Training.DropsOutputs {
		t.Errorf("%v", err)
	}
	if _, err := read("training: {optimizer: adamw, drop_outputs: true}\n"); err == nil || !strings.Contains(err.Error(), "keep_outputs") {
		t.Errorf("a name that the loop does not have ends: %v", err)
	}
}
