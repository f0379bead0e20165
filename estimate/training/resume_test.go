package training

import (
	"testing"

	"floodmark/account"
	"floodmark/workload"
)

// TestRecordedResume compares a process that resumes a training with what PyTorch 2.15
// allocated on a CPU where the checkpoint is read whole beside the model
// (oracle/resume.py testdata/eager/llama/config.json: 149,268,608 bytes at once and
// 111,951,488 at the end, of which 128 are rotary frequencies; the steps of 30
// parameters, of 4 bytes, it leaves out): four times the weights while the checkpoint is
// there, three times after. Before 2.1 the states were copied.
func TestRecordedResume(t *testing.T) {
	const weights, beside = 37_317_120, 128 + 2*120
	for _, c := range []struct {
		from      workload.ResumeFrom
		pytorch   string
		peak, end int64 // in weights
	}{
		{workload.ResumeWhole, "2.15", 4, 3},
		{workload.ResumeWhole, "2.0", 6, 5},
		{workload.ResumeOnDevice, "2.15", 3, 3},
		{workload.ResumeOnDevice, "2.0", 5, 5},
		{workload.ResumeOnHost, "2.0", 3, 3},
	} {
		p, _, _ := workload.ParseLayout("fp32-params")
		o, _ := workload.ParseOptimizer("adamw", "fused")
		w := workload.Workload{Operation: workload.Training, Precision: p, Engine: workload.Engine{Name: "pytorch", Version: c.pytorch},
			Training: &workload.Train{Optimizer: o, Resume: c.from},
			Inputs:   []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 64, workload.MicroBatch: 2}}}}
		resumed := phaseOf(t, recordedModel(t), w, account.PhaseResume)
		if got := resumed.Peak(account.Requested).Figure.Low(); got < c.peak*weights || got > c.peak*weights+beside {
			t.Errorf("%s on PyTorch %s: %d at once, want %d × %d", c.from, c.pytorch, got, c.peak, weights)
		}
		if got := resumed.End.Requested.Low(); got < c.end*weights || got > c.end*weights+beside {
			t.Errorf("%s on PyTorch %s: %d at the end, want %d × %d", c.from, c.pytorch, got, c.end, weights)
		}
	}
}
