package megatron

import (
	"slices"
	"strings"
	"testing"

	"floodmark/workload"
)

// How many forward passes wait for their backward on each stage: GPipe holds every
// micro-batch, 1F1B min(m, p − r), an interleaved schedule 2(p − r − 1) + (v − 1)p + 1
// of its chunks.
func TestInFlight(t *testing.T) {
	for _, c := range []struct {
		kind                  workload.ScheduleKind
		chunks, stages, micro int64
		want                  []int
	}{
		{workload.GPipe, 0, 4, 32, []int{32, 32, 32, 32}},
		{workload.OneFOneB, 0, 4, 32, []int{4, 3, 2, 1}},
		{workload.OneFOneB, 0, 4, 2, []int{2, 2, 2, 1}},
		{workload.OneFOneB, 0, 8, 32, []int{8, 7, 6, 5, 4, 3, 2, 1}},
		{workload.Interleaved1F1B, 3, 4, 4, []int{12, 12, 11, 9}},
		{workload.Interleaved1F1B, 2, 4, 32, []int{11, 9, 7, 5}},
		{workload.OneFOneB, 0, 1, 8, []int{1}},
	} {
		s := settings{pipeline: c.stages, micro: c.micro, schedule: workload.Schedule{Kind: c.kind, Chunks: c.chunks}}
		for stage, want := range c.want {
			list := s.order(int64(stage))
			if got := inFlight(list); got != want {
				t.Errorf("%s, %d chunks, stage %d of %d, %d micro-batches: %d in flight, want %d", c.kind, c.chunks, stage, c.stages, c.micro, got, want)
			}
			queues := map[int]int{}
			for _, p := range list {
				if queues[p.Chunk]++; p.Backward {
					queues[p.Chunk] -= 2
				}
				if queues[p.Chunk] < 0 {
					t.Fatalf("stage %d goes back through a chunk before it went forward: %+v", stage, list)
				}
			}
			for chunk, left := range queues {
				if left != 0 {
					t.Errorf("stage %d leaves %d micro-batches in chunk %d", stage, left, chunk)
				}
			}
		}
	}
}

// Groups of micro-batches that are no multiple of all: 2(p − r − 1) + (v − 1)n + 1 in
// flight of chunks, where so many there are. The chunks of the passes are those of the
// table that the source shows: 2 chunks, groups of 3, 5 micro-batches.
func TestGroups(t *testing.T) {
	s := settings{pipeline: 2, micro: 5, schedule: workload.Schedule{Kind: workload.Interleaved1F1B, Chunks: 2}}
	s.MicroBatchGroup = 3
	var got []int
	for _, p := range s.order(1) {
		if !p.Backward {
			got = append(got, p.Chunk)
		}
	}
	if want := []int{0, 0, 0, 1, 1, 1, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("chunks %v, want %v", got, want)
	}
	for _, c := range []struct{ group, micro, first, last int64 }{
		{4, 8, 14 - 3, 5}, {5, 5, 6 + 5 + 1, 6}, {5, 10, 12, 6}, {5, 509, 12, 6}, {4, 4, 8, 5},
	} {
		s := settings{pipeline: 4, micro: c.micro, schedule: workload.Schedule{Kind: workload.Interleaved1F1B, Chunks: 2}}
		s.MicroBatchGroup = c.group
		if err := s.groups(); err != nil {
			t.Errorf("groups of %d of %d: %v", c.group, c.micro, err)
		}
		// At most all passes forward.
		first := min(c.first, 2*c.micro)
		if a, b := int64(inFlight(s.order(0))), int64(inFlight(s.order(3))); a != first || b != c.last {
			t.Errorf("groups of %d of %d: %d and %d in flight, want %d and %d", c.group, c.micro, a, b, first, c.last)
		}
	}
}

// Whose kernels attention runs in, where nobody chose: cuDNN from Hopper on, but for
// dropout that has to be the same each time on Blackwell.
func TestKernels(t *testing.T) {
	for _, c := range []struct {
		arch                   string
		deterministic, dropout bool
		want                   workload.MegatronAttention
	}{
		{"Ampere", false, true, workload.FlashKernels}, {"Hopper", true, true, workload.FusedKernels}, {"Blackwell", false, true, workload.FusedKernels},
		{"Blackwell", true, false, workload.FusedKernels}, {"Blackwell", true, true, workload.FlashKernels},
	} {
		s := settings{attentionDropout: c.dropout}
		s.Deterministic = c.deterministic
		if got, _ := s.kernels(c.arch, false, false); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Sinks are cuDNN's or products', windows beside dropout are not cuDNN's, and where
// neither is left nothing runs.
func TestKernelsOfSinksAndWindows(t *testing.T) {
	chosen := func(k workload.MegatronAttention) settings {
		return settings{Megatron: workload.Megatron{Attention: k}, context: 1}
	}
	exact, dropped, long := chosen(""), chosen(""), chosen("")
	exact.Deterministic, dropped.attentionDropout, long.context = true, true, 2
	around := long
	around.ContextExchange = "a2a"
	for _, c := range []struct {
		s             settings
		arch          string
		window, sinks bool
		want          workload.MegatronAttention // empty where nothing runs
	}{
		{chosen(""), "Ampere", true, false, workload.FlashKernels}, {chosen(""), "Ampere", true, true, workload.FusedKernels},
		{dropped, "Hopper", true, false, workload.FlashKernels}, {dropped, "Hopper", true, true, workload.UnfusedAttention}, {dropped, "Hopper", false, true, workload.FusedKernels},
		{exact, "Hopper", true, true, workload.UnfusedAttention}, {exact, "Hopper", true, false, workload.FusedKernels},
		{long, "Hopper", false, true, ""}, {around, "Hopper", true, true, workload.FusedKernels},
		{chosen(workload.FlashKernels), "Hopper", true, true, ""}, {chosen(workload.UnfusedAttention), "Hopper", true, true, workload.UnfusedAttention},
	} {
		if got, runs := c.s.kernels(c.arch, c.window, c.sinks); runs != (c.want != "") || runs && got != c.want {
			t.Errorf("%+v: %s, %v", c, got, runs)
		}
	}
}

// What is left out repeats what was there before: more micro-batches change nothing.
func TestMicroBatchesRepeat(t *testing.T) {
	for _, chunks := range []int64{0, 2} {
		kind := workload.OneFOneB
		if chunks > 1 {
			kind = workload.Interleaved1F1B
		}
		few := settings{pipeline: 4, micro: 12, schedule: workload.Schedule{Kind: kind, Chunks: chunks}}
		many := few
		many.micro = 512
		for stage := range int64(4) {
			if a, b := inFlight(few.order(stage)), inFlight(many.order(stage)); a != b {
				t.Errorf("stage %d holds %d of 12 micro-batches and %d of 512", stage, a, b)
			}
		}
	}
}

// A bucket is padded to the ranks and 128, a parameter begins at a multiple of 64,
// and a table that two stages share has a bucket of its own.
func TestBuckets(t *testing.T) {
	st := &states{s: settings{distributed: true, overlap: true}}
	list := []*parameter{{elements: 1000, shared: true}, {elements: 30_000_000}, {elements: 10_000_001}, {elements: 100}}
	var got []string
	for _, b := range st.lay(list, 3) {
		got = append(got, strings.Repeat("p", len(b.places)))
		if (b.to-b.from)%384 != 0 {
			t.Errorf("a bucket of %d elements", b.to-b.from)
		}
		for _, at := range b.places {
			if at.from%64 != 0 {
				t.Errorf("a parameter begins at %d", at.from)
			}
		}
	}
	if strings.Join(got, " ") != "ppp p" {
		t.Errorf("%q", got)
	}
	st.s.distributed = false
	if whole := st.lay(list, 3); whole[len(whole)-1].to != 40_001_101 {
		t.Errorf("without the distributed optimizer %+v", whole)
	}
}
