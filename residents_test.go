package floodmark

import (
	"context"
	"errors"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/workload"
)

// What stays resident is counted by an estimate of its own: 1,235,814,400 parameters in
// 16 and in 32 bits, divided over ranks as an interval; what cannot be counted is
// unknown, and says why.
func TestResidents(t *testing.T) {
	const parameters = 1_235_814_400
	lost := errors.New("is not there")
	for _, c := range []struct {
		name      string
		resident  workload.Resident
		ranks     int
		low, high int64 // high −1 where it is unknown
		warning   bool
	}{
		{"16 bits", workload.Resident{Model: "m", Weights: dtype.BF16}, 1, 2 * parameters, 2 * parameters, false},
		{"32 bits", workload.Resident{Model: "m", Weights: dtype.F32}, 1, 4 * parameters, 4 * parameters, false},
		{"as it is stored", workload.Resident{Model: "m"}, 1, 2 * parameters, 2 * parameters, false},
		{"divided", workload.Resident{Model: "m", Weights: dtype.BF16, Divided: true}, 8, 2 * parameters / 8, 2 * parameters, false},
		{"no model", workload.Resident{}, 1, 0, -1, false},
		{"a lost model", workload.Resident{Model: "lost"}, 1, 0, -1, true},
		{"a share of no card", workload.Resident{Model: "m", Engine: "vllm"}, 1, 0, -1, true},
	} {
		open := func(_ context.Context, name string) (*model.Model, error) {
			if name == "lost" {
				return nil, lost
			}
			return LoadModel("testdata/models/Llama-3.2-1B")
		}
		r := Request{Open: open, Workload: workload.Workload{Mesh: workload.Mesh{DataParallel: c.ranks}, Resident: []workload.Resident{c.resident}}}.beside(context.Background())
		got := r.Workload.Resident[0].Bytes
		high, known := got.High()
		if !known {
			high = -1
		}
		if got == (account.Figure{}) {
			high = -1
		}
		// The buffers of 64 cosines are no parameters.
		near := func(a, b int64) bool { return a >= b && a-b < 1<<12 || a == b }
		if !near(got.Low(), c.low) || !near(high, c.high) || c.warning != (len(r.Warnings) == 1) {
			t.Errorf("%s: %d to %d, %v, want %d to %d", c.name, got.Low(), high, r.Warnings, c.low, c.high)
		}
	}
}

// An engine beside takes its share of the card, and gives it back where it sleeps.
func TestEngineBeside(t *testing.T) {
	card, err := FindCard("rtx-4090")
	if err != nil {
		t.Fatal(err)
	}
	count := func(sleeps bool) workload.Resident {
		r := Request{Card: &card, Workload: workload.Workload{Mesh: workload.Single(), Resident: []workload.Resident{{
			Model: "testdata/models/Llama-3.2-1B", Engine: "vllm", Utilization: 0.3, Length: 2048, Sleeps: sleeps}}}}.beside(context.Background())
		return r.Workload.Resident[0]
	}
	awake, asleep := count(false), count(true)
	if awake.Bytes.Low() < 2_471_628_800 || awake.Awake != (account.Figure{}) {
		t.Errorf("awake: %+v", awake)
	}
	if asleep.Bytes.Low() != 0 || asleep.Awake.Low() != awake.Bytes.Low() {
		t.Errorf("asleep: %+v, awake %+v", asleep, awake)
	}
}
