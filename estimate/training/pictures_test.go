package training_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// A classifier of pictures trains on as many as the workload says, of the size that
// its positions are for.
func TestPicturesAreTrainedOn(t *testing.T) {
	m, err := load.Open("../../testdata/eager/dinov2")
	if err != nil {
		t.Fatal(err)
	}
	peak := func(resolution, batch int64) account.Figure {
		w := work(t, "fp32-params", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: batch}
		if resolution > 0 {
			w.Inputs[0].Dimensions[workload.Resolution] = resolution
		}
		a := accountOf(t, m, w)
		return a.Phases[2].Peak(account.Allocated).Figure
	}
	two, known := peak(224, 2).Need()
	four, also := peak(224, 4).Need()
	if !known || !also || four <= two {
		t.Errorf("2 pictures take %d bytes and 4 take %d", two, four)
	}
	for _, c := range []struct {
		resolution int64
		want       string
	}{{0, "how much is processed at once (resolution, micro_batch)"}, {518, "positions are for pictures of 224 pixels"}} {
		if f := peak(c.resolution, 2); f.Known() || !strings.Contains(f.Reason(), c.want) {
			t.Errorf("pictures of %d pixels: %v because %q, want %q", c.resolution, f.Known(), f.Reason(), c.want)
		}
	}
}

// A decoder beside a tower trains on words alone where the workload says that there
// are no images: the tower is held, and what no image reaches has no gradient and
// no moments. Without that word, or with images, nothing is predicted of the passes.
func TestWordsAloneBesideATower(t *testing.T) {
	m, err := load.Open("../../testdata/eager/qwen2_vl")
	if err != nil {
		t.Fatal(err)
	}
	run := func(images int64) account.Account {
		w := work(t, "fp32-params", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 2, workload.Context: 100}
		if images >= 0 {
			w.Inputs[0].Dimensions[workload.Images] = images
		}
		return accountOf(t, m, w)
	}
	var moments int64 // two in 32 bits of each element; adamw's fused step keeps a count of 4 bytes beside them
	for _, tensor := range m.Tensors {
		if n, _ := tensor.Parameters(); !strings.HasPrefix(tensor.Name, "visual.") {
			moments += 2*4*n + 4
		}
	}
	a := run(0)
	if got := bytesOf(a, a.Phases[len(a.Phases)-1], account.TermOptimizerState); got != moments {
		t.Errorf("moments take %d bytes, want %d of the decoder alone", got, moments)
	}
	for images, want := range map[int64]string{-1: "does not say how many (images; 0 for none)", 2: "images beside a decoder is not modelled"} {
		if f := run(images).Phases[1].Peak(account.Allocated).Figure; f.Known() || !strings.Contains(f.Reason(), want) {
			t.Errorf("%d images: known %v because %q, want %q", images, f.Known(), f.Reason(), want)
		}
	}
}

// A frozen tower has no gradients and no moments, whether its images have a program or
// not; frozen, the decoder's leave those of tower and projector.
func TestFrozenComponents(t *testing.T) {
	m, err := load.Open("../../testdata/eager/qwen2_vl")
	if err != nil {
		t.Fatal(err)
	}
	of := m.Components()
	for _, c := range []struct {
		images int64
		frozen []string
	}{{2, []string{"vision_tower", "projector"}}, {0, []string{"vision_tower", "projector"}}, {2, []string{"language_model"}}, {2, []string{"projector"}}} {
		w := work(t, "bf16-params-bf16-grads-fp32-master-fp32-moments", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 2, workload.Context: 100, workload.Images: c.images}
		w.Training.Frozen = &workload.Frozen{Components: c.frozen}
		var gradients, moments, masters int64
		for i, tensor := range m.Tensors {
			n, _ := tensor.Parameters()
			if frozen := w.Training.Frozen.Has(string(of[i])); frozen || tensor.TiedTo != model.NotTied || tensor.Role.Category() != account.CategoryParameter {
				continue
			}
			gradients, masters, moments = gradients+2*n, masters+4*n, moments+2*4*n
		}
		a := accountOf(t, m, w)
		last := a.Phases[len(a.Phases)-1]
		counts := int64(0) // a step's count of each tensor beside the moments
		for term, want := range map[account.TermID]int64{account.TermGradients: gradients, account.TermMasterCopy: masters, account.TermOptimizerState: moments} {
			got := bytesOf(a, last, term)
			if term == account.TermOptimizerState {
				counts = 4096
			}
			if got < want || got > want+counts {
				t.Errorf("%d images, %v frozen: %s of %d bytes, want %d", c.images, c.frozen, term, got, want)
			}
		}
	}
}

// timm's vision transformers run timm's own modules, which run no other model; a release
// before 1.0.13 checkpoints in PyTorch's older way.
func TestTimm(t *testing.T) {
	own, err := load.Open("../../testdata/eager/timm-dinov2-1.0")
	if err != nil {
		t.Fatal(err)
	}
	other, err := load.Open("../../testdata/eager/dinov2")
	if err != nil {
		t.Fatal(err)
	}
	peak := func(m *model.Model, resolution int64, e workload.Engine) account.Figure {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 64, workload.Resolution: resolution}
		w.Engine, w.Training.Checkpointing.Kind = e, workload.FullCheckpointing
		return accountOf(t, m, w).Phases[3].Peak(account.Allocated).Figure
	}
	timm := func(version string) workload.Engine { return workload.Engine{Name: "timm", Version: version} }
	older, known := peak(own, 112, timm("1.0.12")).Need()
	newer, also := peak(own, 112, timm("1.0.13")).Need()
	if !known || !also || older == newer {
		t.Errorf("backward takes %d bytes before 1.0.13, and %d since", older, newer)
	}
	for _, c := range []struct {
		m          *model.Model
		resolution int64
		engine     workload.Engine
		want       string
	}{
		{own, 112, workload.Engine{}, "the modules of timm's models are timm's own"},
		{other, 224, timm("1.0.9"), "timm builds models of its own"},
		{own, 112, timm("0.6.13"), "from 0.9 on"},
	} {
		if f := peak(c.m, c.resolution, c.engine); f.Known() || !strings.Contains(f.Reason(), c.want) {
			t.Errorf("%v: %v because %q, want %q", c.engine, f.Known(), f.Reason(), c.want)
		}
	}
}

// Whisper trains on spectrograms of the length that its positions are for, and BART on
// as many positions as the workload says that its encoder reads.
func TestEncodersAndDecodersTrain(t *testing.T) {
	peak := func(family string, encoder int64) account.Figure {
		m, err := load.Open("../../testdata/eager/" + family)
		if err != nil {
			t.Fatal(err)
		}
		w := work(t, "fp32-params", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 2, workload.Context: 100}
		if encoder > 0 {
			w.Inputs[0].Dimensions[workload.EncoderLength] = encoder
		}
		return accountOf(t, m, w).Phases[2].Peak(account.Allocated).Figure
	}
	if f := peak("whisper", 0); !f.Known() && !strings.Contains(f.Reason(), "cuDNN") { // what its filters work with is left open
		t.Errorf("whisper is not predicted: %s", f.Reason())
	}
	if f := peak("bart", 0); f.Known() || !strings.Contains(f.Reason(), "encoder_length") {
		t.Errorf("bart without a length: known %v because %q", f.Known(), f.Reason())
	}
	short, known := peak("bart", 100).High()
	long, also := peak("bart", 400).High()
	if !known || !also || long <= short {
		t.Errorf("100 positions of the encoder take %d bytes and 400 take %d", short, long)
	}
}

// An optimizer of whose states nothing is known leaves them open by its name; those of
// torch.optim are the moments that they keep.
func TestOptimizersByTheirStates(t *testing.T) {
	m, err := load.Open("../../testdata/eager/llama")
	if err != nil {
		t.Fatal(err)
	}
	elements, _ := m.Parameters().IsExact()
	for name, moments := range map[string]int64{"rmsprop": 1, "adamax": 2, "nadam": 2, "galore_adamw": 0} {
		w := work(t, "fp32-params", name, "")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 1, workload.Context: 64}
		a := accountOf(t, m, w)
		step := a.Phases[len(a.Phases)-1]
		if f := step.Peak(account.Allocated).Figure; f.Known() != (moments > 0) || moments == 0 && !strings.Contains(f.Reason(), name) {
			t.Errorf("%s: known %v because %q", name, f.Known(), f.Reason())
		}
		if got := bytesOf(a, step, account.TermOptimizerState); moments > 0 && got != moments*4*elements {
			t.Errorf("%s keeps %d bytes, want %d", name, got, moments*4*elements)
		}
	}
}
