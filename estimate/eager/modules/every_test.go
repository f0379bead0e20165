package modules_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/source"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// TestEveryConfiguration trains one small batch of every configuration that the
// reader's tests have: what has no program is unknown with a reason, and nothing
// fails without one.
func TestEveryConfiguration(t *testing.T) {
	files, err := filepath.Glob("../../../model/hfmodel/testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	predicted := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		source, err := hfmodel.Read(source.Bytes(path, data))
		if err != nil {
			t.Fatal(err)
		}
		if why, err := trainOnce(source); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		} else if why == "" {
			predicted++
		} else {
			t.Logf("%s: %s", filepath.Base(path), why)
		}
	}
	t.Logf("%d of %d have programs", predicted, len(files))
	if predicted < 10 {
		t.Errorf("only %d configurations have programs", predicted)
	}
}

// trainOnce runs forward and backward of one small batch on an A100.
func trainOnce(source *model.Model) (why string, err error) {
	m := torch.New(torch.Options{Device: torch.A100()})
	n := modules.New(m, source, modules.Options{Attention: modules.SDPA, Experts: modules.GroupedExperts, Training: true,
		Weight: func(model.Tensor) modules.Weight { return modules.Weight{Format: dtype.BF16, Trained: true} }})
	if why := n.Unsupported(); why != "" {
		return why, nil
	}
	m.Phase(account.PhaseForward, 1)
	b := modules.Batch{IDs: m.Input(dtype.I64, 2, 64), Labels: m.Input(dtype.I64, n.LabelShape(2, 64)...)}
	if source.Stacks[0].Kind == model.Vision {
		b.Pixels, b.Labels = n.Pixels(dtype.BF16, 2, 224), m.Input(dtype.I64, 2)
	}
	if n.Hears() {
		b.IDs, b.Pixels = torch.Tensor{}, n.Sounds(dtype.BF16, 2)
	}
	loss := n.Loss(b)
	m.Phase(account.PhaseBackward, 1)
	m.Backward(loss)
	tl, err := m.Timeline()
	if len(tl.Bounds) > 0 {
		return tl.Bounds[0].Figure.Reason(), nil
	}
	return "", err
}

// A class without a head has no loss that anybody here could know.
func TestNoHeadNoLoss(t *testing.T) {
	const config = `{"model_type":"bert","architectures":["BertModel"],"torch_dtype":"float32","hidden_size":64,"num_attention_heads":4,` +
		`"intermediate_size":128,"num_hidden_layers":2,"vocab_size":100,"max_position_embeddings":64,"type_vocab_size":2}`
	m, err := hfmodel.Read(source.Bytes("config.json", []byte(config)))
	if err != nil {
		t.Fatal(err)
	}
	if why, err := trainOnce(m); err != nil || !strings.Contains(why, "no loss of its own") {
		t.Errorf("%q, %v", why, err)
	}
}
