package enginelog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// One line with very many heads: each is looked at once, and equal texts are
// read once.
func TestManyMessagesOnOneLine(t *testing.T) {
	m := one(t, "x = '"+strings.Repeat("CUDA out of memory. ", 200_000)+"'")
	if m.Repeats != 199_999 || m.Class != CannotTell {
		t.Errorf("repeated %d times, %s", m.Repeats, m.Class)
	}
}

// The same message on many lines is one failure, whatever the line; a copy by a
// rank gives it that rank, and one by another rank is another failure.
func TestEqualMessages(t *testing.T) {
	log := read(t, strings.Repeat(modern+"\n", 20_000)+"[rank1]: "+modern+"\n[rank2]: "+modern+"\n")
	var got []string
	for _, m := range log.OutOfMemory {
		got = append(got, fmt.Sprintf("line %d rank %d repeats %d free:%s", m.Line, m.Rank, m.Repeats, m.Free.Source))
	}
	want := []string{"line 1 rank 1 repeats 20000 free:log.txt:1", "line 20002 rank 2 repeats 0 free:log.txt:20002"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if log.NotUnderstood > 0 {
		t.Errorf("%d lines not understood", log.NotUnderstood)
	}
}

// Numbers keep their own lines where a message that is known is wrapped anew.
func TestEqualTextWrappedAnew(t *testing.T) {
	log := read(t, "[rank0]: "+modern+"\n[rank1]: "+strings.ReplaceAll(wrap(modern, 90), "\n", "\n[rank1]: ")+"\n")
	if len(log.OutOfMemory) != 2 || log.OutOfMemory[1].Line != 2 || log.OutOfMemory[1].PrivatePools.Source != "log.txt:5" {
		t.Errorf("%d failures, the second at line %d, its pools at %s", len(log.OutOfMemory), log.OutOfMemory[1].Line, log.OutOfMemory[1].PrivatePools.Source)
	}
}

// However many ranks there are, none is taken for another one's copy.
func TestManyRanks(t *testing.T) {
	var b strings.Builder
	for i := range mostWriters + 2000 {
		fmt.Fprintf(&b, "[rank%d]: CUDA error: out of memory\n", i)
	}
	log := read(t, b.String())
	if len(log.OutOfMemory) != most {
		t.Fatalf("%d failures", len(log.OutOfMemory))
	}
	for i, m := range log.OutOfMemory {
		if m.Rank != i || m.Repeats > 0 {
			t.Fatalf("failure %d is of rank %d, repeated %d times", i, m.Rank, m.Repeats)
		}
	}
	var codes []string
	for _, w := range log.Warnings {
		codes = append(codes, w.Code)
	}
	if !slices.Equal(codes, []string{"more_messages", "more_ranks", "more_writers"}) || !strings.Contains(log.Warnings[1].Text, "5,096 further ranks") {
		t.Errorf("warnings %v", log.Warnings)
	}
}

// Many writers, each cut off within the words that begin a message.
func TestManyWritersCutOff(t *testing.T) {
	var b strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&b, "(RayWorker pid=%d) CUDA out of memory. Tried to\n", i+1)
	}
	log := read(t, b.String())
	if log.OutOfMemory[0].PID != 1 || log.OutOfMemory[1].PID != 2 || log.OutOfMemory[1].Repeats != 0 {
		t.Errorf("%+v", log.OutOfMemory[:2])
	}
}
