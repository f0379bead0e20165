package enginelog

import (
	"strings"
	"testing"

	"floodmark/internal/source"
)

// The first error of a text that tells of no failure for memory is quoted: what
// other processes say of its end is not why it failed.
func TestFirstError(t *testing.T) {
	const loaded = "INFO Model loading took 12.4249 GiB\n"
	for _, c := range []struct{ name, text, want string }{
		{"of a worker", loaded + "(Worker_TP3 pid=9) ERROR 04-22 [executor.py:857] AssertionError: 151936 is not divisible by 5\nRuntimeError: Engine core initialization failed.\n", "AssertionError: 151936 is not divisible by 5 (line 2)"},
		{"with its module", loaded + "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n", "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig"},
		{"of code", loaded + `    raise RuntimeError("a")` + "\nprint('KeyError: x')\n", ""},
		{"of memory", loaded + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 7.00 GiB already allocated; 0 bytes free; 7.50 GiB reserved in total by PyTorch)\nValueError: b\n", ""},
		{"got over", loaded + "(APIServer pid=1) DEBUG 04-22 15:13:26 [renderers/hf.py:122] ValueError: no chat template\nWARNING:root:KeyError: 'x'\n[WARNING] a: OSError: b\n", ""},
		{"after one that it got over", loaded + "DEBUG [hf.py:122] ValueError: no chat template\nERROR [core.py:9] AssertionError: a\n", "AssertionError: a (line 3)"},
		{"a long one", loaded + "ValueError: " + strings.Repeat("ü", 1000) + "\n", "…"},
	} {
		log, err := Read(source.Bytes("x", []byte(c.text)))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var said string
		for _, w := range log.Warnings {
			if w.Code == "other_error" {
				said = w.Text
			}
		}
		if c.want == "" && said != "" || !strings.Contains(said, c.want) || len(said) > 1000 {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}
