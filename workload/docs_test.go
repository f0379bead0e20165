package workload

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// The file that the documentation shows is one that is read, and says what its
// comments say.
func TestDocumentedFile(t *testing.T) {
	text, err := os.ReadFile("../docs/workload.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the documentation shows no file")
	}
	f, err := read(block)
	if err != nil {
		t.Fatal(err)
	}
	w := f.Workload
	prefix, _ := w.Dimension(SharedPrefix)
	if f.GPU != "h100-sxm5-80gb" || f.Free != "78GiB" || w.Engine.Name != "serving" || prefix != 512 || w.Mesh.TensorParallel != 8 || !slices.Contains(w.Features, FlashAttention) || len(w.Missing()) > 0 {
		t.Errorf("%+v", f)
	}
}
