package floodmark_test

import (
	"context"
	"slices"
	"testing"

	"floodmark"
)

const tracedFile = "testdata/snapshots/training_step.pickle"

func openTrace(t *testing.T) (*floodmark.Trace, floodmark.TracedDevice) {
	t.Helper()
	trace, err := floodmark.OpenTrace(tracedFile)
	if err != nil {
		t.Fatal(err)
	}
	return trace, trace.Devices()[0]
}

// Whatever the level of detail, the peak is in it, where it was.
func TestLevelsKeepThePeak(t *testing.T) {
	trace, d := openTrace(t)
	for _, n := range []int{1, 7, 64, d.Moments, 10 * d.Moments} {
		l, err := trace.Levels(0, 0, d.Moments, n)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Max(l.High) != d.PeakBytes || slices.Max(l.Reserved) != d.Reserved || len(l.Shares) != len(l.First)*len(d.Categories) {
			t.Errorf("in %d: highest %d and %d, want %d and %d", n, slices.Max(l.High), slices.Max(l.Reserved), d.PeakBytes, d.Reserved)
		}
		for i := range l.First {
			sum := int64(0)
			for _, share := range l.Shares[i*len(d.Categories) : (i+1)*len(d.Categories)] {
				sum += share
			}
			if sum != l.High[i] || l.Low[i] > l.High[i] || l.High[i] > l.Reserved[i] {
				t.Errorf("bucket %d of %d: shares %d, low %d, high %d, reserved %d", i, n, sum, l.Low[i], l.High[i], l.Reserved[i])
			}
		}
	}
}

// What is alive at the peak sums to the peak, lies in segments that sum to what
// is reserved then, and each block lies within its segment.
func TestOneMoment(t *testing.T) {
	trace, d := openTrace(t)
	alive, err := trace.Allocations(0, d.PeakMoment, d.PeakMoment+1, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for i, a := range alive {
		sum += a.Bytes
		if i > 0 && alive[i-1].Bytes < a.Bytes {
			t.Errorf("the %d-th is larger than the one before it", i)
		}
		if len(a.Stack) == 0 {
			t.Errorf("allocation %d has no stack", a.Index)
		}
	}
	if sum != d.PeakBytes {
		t.Errorf("%d bytes are alive, want %d", sum, d.PeakBytes)
	}
	segments, err := trace.Segments(0, d.PeakMoment)
	if err != nil {
		t.Fatal(err)
	}
	l, _ := trace.Levels(0, d.PeakMoment, d.PeakMoment+1, 1)
	given, blocks := int64(0), 0
	for _, s := range segments {
		given += s.Bytes
		blocks += len(s.Blocks)
		end := int64(0)
		for _, b := range s.Blocks {
			if b.Offset < end || b.Offset+b.Bytes > s.Bytes {
				t.Errorf("block %d at %d of %d does not lie in %s", b.Index, b.Offset, b.Bytes, s.Address)
			}
			end = b.Offset + b.Bytes
		}
	}
	if given != l.Reserved[0] || blocks != len(alive) {
		t.Errorf("%d bytes in segments and %d blocks, want %d and %d", given, blocks, l.Reserved[0], len(alive))
	}
}

func TestReplayUnderSettings(t *testing.T) {
	trace, d := openTrace(t)
	recorded, err := trace.ReplayUnder(context.Background(), 0, "", 0, d.Moments, 32)
	if err != nil {
		t.Fatal(err)
	}
	if recorded.Peak == nil || *recorded.Peak != d.Reserved || slices.Max(recorded.Fresh) != d.Reserved {
		t.Errorf("under the recorded settings: %+v, want a peak of %d", recorded, d.Reserved)
	}
	other, err := trace.ReplayUnder(context.Background(), 0, "roundup_power2_divisions:1", 0, d.Moments, 32)
	if err != nil || len(other.Fresh) != 32 {
		t.Errorf("%+v, %v", other, err)
	}
	if _, err := trace.ReplayUnder(context.Background(), 0, "no_such_setting:1", 0, 1, 1); err == nil {
		t.Error("a setting that does not exist was replayed")
	}
}

func TestNoTrace(t *testing.T) {
	for path, device := range map[string]int{"testdata/oom/exhaustion.txt": 0, "README.md": 0, tracedFile: 9} {
		trace, err := floodmark.OpenTrace(path)
		if err == nil {
			_, err = trace.Levels(device, 0, 1, 1)
		}
		if err == nil {
			t.Errorf("%s, device %d: no error", path, device)
		}
	}
	trace, d := openTrace(t)
	for _, ends := range [][2]int{{-5, -1}, {5, 5}, {9, 3}, {d.Moments, d.Moments + 10}, {-1 << 62, 1 << 62}} {
		if _, err := trace.Levels(0, ends[0], ends[1], 16); err != nil {
			t.Errorf("%v: %v", ends, err)
		}
		if _, err := trace.Allocations(0, ends[0], ends[1], 16); err != nil {
			t.Errorf("%v: %v", ends, err)
		}
		if _, err := trace.Segments(0, ends[0]); err != nil {
			t.Errorf("%v: %v", ends, err)
		}
		if _, err := trace.ReplayUnder(context.Background(), 0, "", ends[0], ends[1], 16); err != nil {
			t.Errorf("%v: %v", ends, err)
		}
	}
}
