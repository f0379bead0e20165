package torchfile

import (
	"testing"

	"floodmark/dtype"
	"floodmark/internal/pickle"
)

// TestNames keeps the list closed: names of PyTorch and
// OrderedDict, each once, and a format for every dtype and typed storage.
func TestNames(t *testing.T) {
	seen := map[pickle.Name]bool{}
	for _, g := range globals() {
		switch g.name.Module {
		case "torch", "torch._utils", "torch.storage":
		default:
			if (g.name != pickle.Name{Module: "collections", Name: "OrderedDict"}) {
				t.Errorf("%v is on the list", g.name)
			}
		}
		if seen[g.name] {
			t.Errorf("%v stands twice", g.name)
		}
		seen[g.name] = true
		sized := g.role == elementType || g.role == storageClass && g.name.Name != "UntypedStorage"
		if sized != (g.format != dtype.Unknown) {
			t.Errorf("%v has the format %s", g.name, g.format)
		}
	}
}
