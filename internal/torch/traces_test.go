package torch_test

import (
	"path/filepath"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/internal/torch"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// TestOracleTraces runs the program against the recorded traces: every event,
// in order.
func TestOracleTraces(t *testing.T) {
	folder := filepath.Join(oracle.Dir(t), "snapshots", "wedsonlin__assignment2-systems")
	for _, c := range mediumTraces() {
		src, err := source.Open(filepath.Join(folder, "results_medium_"+c.name+"_memory_snapshot.pickle"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Read(src)
		src.Close()
		if err != nil {
			t.Fatal(err)
		}
		want := events(&s.Recordings()[0].Timeline)
		got := events(c.run(t))
		if same := alike(got, want); same != len(want) || len(got) != len(want) {
			t.Errorf("%s: %d of %d events are as recorded, of %d predicted", c.name, same, len(want), len(got))
		}
	}
}

// mediumTrace is one recorded file.
type mediumTrace struct {
	name     string
	context  int64
	compute  dtype.Format
	training bool
}

func mediumTraces() []mediumTrace {
	return []mediumTrace{
		{"128_training", 128, dtype.Unknown, true},
		{"256_training", 256, dtype.Unknown, true},
		{"512_training", 512, dtype.BF16, true},
		{"1024_training", 1024, dtype.BF16, true},
		{"128_inference", 128, dtype.Unknown, false},
		{"256_inference", 256, dtype.Unknown, false},
		{"512_inference", 512, dtype.BF16, false},
		{"1024_inference", 1024, dtype.Unknown, false},
	}
}

func (c mediumTrace) run(t *testing.T) *timeline.Timeline {
	t.Helper()
	m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 10}})
	model := medium(c.context, c.compute)
	model.build(m)
	if c.training {
		model.moments()
	}
	m.Workspace(c.training)
	if c.training {
		model.train()
	} else {
		model.infer()
	}
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// event is an allocation, or a free of the allocation that event number of made
// (−1: it lived before).
type event struct {
	bytes int64
	free  bool
	of    int
}

// alike is the number of events that are the same at the same place.
func alike(got, want []event) int {
	same := 0
	for i := range min(len(got), len(want)) {
		if got[i] == want[i] {
			same++
		}
	}
	return same
}

func events(tl *timeline.Timeline) []event {
	birth := make([]int, len(tl.Allocs))
	for i := range birth {
		birth[i] = -1
	}
	var list []event
	for _, e := range tl.Events {
		bytes := tl.Allocs[e.Alloc].Requested
		switch e.Kind {
		case timeline.Born:
			birth[e.Alloc] = len(list)
			list = append(list, event{bytes: bytes, of: -1})
		case timeline.FreeCompleted:
			list = append(list, event{bytes, true, birth[e.Alloc]})
		}
	}
	return list
}
