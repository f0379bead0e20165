package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/oracle"
)

// composed is the composition at the peak of requested bytes.
func composed(s *Snapshot, r *Recording) Composition {
	return s.Explain(r).Compose(r.Peaks().Requested.Entry, account.Requested)
}

func (c Composition) bytes(category account.Category) int64 {
	for _, s := range c.Shares {
		if s.Category == category {
			return s.Bytes
		}
	}
	return 0
}

// agreed is how many of fifty labels a verdict must meet.
const agreed = 48

// TestOracleLabels compares the verdicts with the labels of every drawn file.
func TestOracleLabels(t *testing.T) {
	dir := filepath.Join(oracle.Dir(t), "snapshots")
	for name, file := range drawnFiles() {
		t.Run(name, func(t *testing.T) { compareLabels(t, name, filepath.Join(dir, file)) })
	}
}

// TestLabels does so for the files that are committed.
func TestLabels(t *testing.T) {
	compareLabels(t, "magma27", filepath.Join("testdata", "real", "assignment2-magma.pickle"))
	for _, name := range []string{"medium_128_training", "silmont2000_bf16"} {
		compareLabels(t, name, filepath.Join("testdata", "explained", name+".pickle.gz"))
	}
}

func compareLabels(t *testing.T, name, path string) {
	r, s := readRecording(t, path)
	x := s.Explain(r)
	index := map[drawn]uint32{}
	for a, l := range lifetimesOf(r) {
		index[l.drawn] = uint32(a)
	}
	labelled, categories := readLabels(t, name)
	agree := 0
	for i, d := range labelled {
		v := x.Verdict(index[d])
		if string(v.Category) == categories[i] {
			agree++
		} else {
			t.Logf("%v is %s by %s (%s), labelled %s", d, v.Category, v.Evidence, v.Why, categories[i])
		}
	}
	if agree < agreed {
		t.Errorf("%d of %d labels agree, want %d", agree, len(labelled), agreed)
	}
}

// TestOracleTrainingPeaks knows the model that the training files hold.
func TestOracleTrainingPeaks(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(oracle.Dir(t), "snapshots", "wedsonlin__assignment2-systems", "*training*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("%d training files: %v", len(files), err)
	}
	for _, file := range files {
		checkTraining(t, file)
	}
}

// TestTrainingPeak does so for the file that is committed.
func TestTrainingPeak(t *testing.T) {
	checkTraining(t, filepath.Join("testdata", "explained", "medium_128_training.pickle.gz"))
}

// checkTraining finds 423,183,360 weights of four bytes, two moments for each,
// and a workspace for each of two threads: at the peak, and at every hundredth
// of the trace, whatever the step is about to replace.
func checkTraining(t *testing.T, file string) {
	t.Helper()
	r, s := readRecording(t, file)
	x := s.Explain(r)
	entries := []int{r.Peaks().Requested.Entry}
	for i := range 100 {
		entries = append(entries, i*r.Trace.Len()/100)
	}
	for _, entry := range entries {
		c := x.Compose(entry, account.Requested)
		for category, want := range map[account.Category]int64{
			account.CategoryParameter:      1_692_733_440,
			account.CategoryOptimizerState: 3_385_466_880,
			account.CategoryWorkspace:      2 * 8_519_680,
		} {
			if got := c.bytes(category); got != want {
				t.Errorf("%s: %s is %d after entry %d, want %d", filepath.Base(file), category, got, entry, want)
			}
		}
		if unknown := c.bytes(account.CategoryUnattributed); unknown > c.Bytes/1000 {
			t.Errorf("%s: %d of %d bytes are unattributed after entry %d", filepath.Base(file), unknown, c.Bytes, entry)
		}
	}
}

// TestOracleResidentGradients knows a trace that begins and ends with gradients
// in place: 111 weights, their gradients and two moments each.
func TestOracleResidentGradients(t *testing.T) {
	r, s := readRecording(t, filepath.Join(oracle.Dir(t), "snapshots", "bcrafton__assignment2-systems", "memory_snapshot.pickle"))
	c := composed(s, r)
	const weights = 761_840_640
	for category, want := range map[account.Category]int64{
		account.CategoryParameter: weights, account.CategoryGradient: weights, account.CategoryOptimizerState: 2 * weights,
	} {
		if got := c.bytes(category); got != want {
			t.Errorf("%s is %d, want %d", category, got, want)
		}
	}
}

// begins is said of a trace that shows neither births nor frees of so much.
func begins(held string) string {
	return " The recording begins in the middle of a run with " + held + " already held; the true peak may be earlier: record from the start, with a larger max_entries."
}

// TestOracleSummaries explains four training snapshots in one sentence each.
func TestOracleSummaries(t *testing.T) {
	dir := filepath.Join(oracle.Dir(t), "snapshots")
	for file, want := range map[string]string{
		"wedsonlin__assignment2-systems/results_medium_128_training_memory_snapshot.pickle": "The peak of 6.53 GiB is in an optimizer step: " +
			"3.15 GiB of it is optimizer state because it is held before the trace and replaced by an optimizer step (438 tensors); " +
			"1.58 GiB is parameters because it is held through the whole trace, one for each of this size that has a gradient or state (219 tensors); " +
			"1.58 GiB is gradients because it is made by AccumulateGrad (169 tensors); at the end 6.34 GiB is still held." + begins("4.75 GiB"),
		"wedsonlin__assignment2-systems/results_medium_1024_training_memory_snapshot.pickle": "The peak of 22.54 GiB is in a backward: " +
			"16.44 GiB of it is activations because it is made by a forward and held for its backward (751 tensors, 63 % of it in project/model.py); " +
			"3.15 GiB is optimizer state because it is held before the trace and replaced by an optimizer step (438 tensors); " +
			"1.58 GiB is parameters because it is held through the whole trace, one for each of this size that has a gradient or state (219 tensors); " +
			"at the end 6.40 GiB is still held, and the allocator holds 17.05 GiB more, of which 10.79 GiB could be returned by empty_cache " +
			"and 6.26 GiB is stuck in segments that something still uses." + begins("4.75 GiB"),
		"nothanmin__assignment2-systems/memory_snapshot.pickle": "The peak of 21.26 GiB is in a forward: " +
			"7.22 GiB of it is optimizer state because it is made by an optimizer and kept after its step (654 tensors); " +
			"6.76 GiB is activations because it is made by a forward and held for its backward (940 tensors, 100 % of it in project/adapters.py); " +
			"3.61 GiB is parameters because it is held through the whole trace, one for each of this size that has a gradient or state (327 tensors); " +
			"3.61 GiB is gradients because the gradients of the step before are still held while the next forward runs (327 tensors); " +
			"at the end 14.50 GiB is still held, and the allocator holds 7.29 GiB more, of which 6.58 GiB could be returned by empty_cache " +
			"and 0.70 GiB is stuck in segments that something still uses." + begins("14.50 GiB"),
		// No backward, no zero_grad and no step is in this trace.
		"nothanmin__assignment2-systems/memory_snapshot_forward.pickle": "The peak of 40.75 GiB is in a forward: " +
			"14.89 GiB of it is optimizer state because it is made by an optimizer and kept after its step (870 tensors); " +
			"10.93 GiB is activations because it is made by a forward and still held at the end (no backward in this trace, 1,734 tensors, 100 % of it in project/adapters.py); " +
			"7.44 GiB is parameters because it is held through the whole trace, one for each of this size that has a gradient or state (435 tensors); " +
			"7.44 GiB is gradients because the gradients of the step before are still held while the next forward runs (435 tensors); " +
			"at the end 40.72 GiB is still held." + begins("29.81 GiB"),
	} {
		r, s := readRecording(t, filepath.Join(dir, file))
		x := s.Explain(r)
		c := x.Compose(r.Peaks().Requested.Entry, account.Requested)
		if got := x.Summary(c, c.Bytes).String(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", file, got, want)
		}
	}
}

// TestSharesSumToThePeak checks every committed file.
func TestSharesSumToThePeak(t *testing.T) {
	for _, file := range committedFiles(t) {
		r, s := readRecording(t, file)
		c, sum, reasons := composed(s, r), int64(0), int64(0)
		for _, share := range c.Shares {
			sum += share.Bytes
		}
		for _, reason := range c.Reasons {
			reasons += reason.Bytes
		}
		if peak := r.Peaks().Requested.Bytes; sum != peak || reasons != peak || c.Bytes != peak {
			t.Errorf("%s: shares sum to %d, reasons to %d, the peak is %d", file, sum, reasons, peak)
		}
	}
}

func committedFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.pickle*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	return files
}

// TestRenamedFrames takes the names of all frames away. What stacks decided is
// then unattributed; nothing goes to another category.
func TestRenamedFrames(t *testing.T) {
	for _, file := range committedFiles(t) {
		renameFrames(t, file)
	}
}

// TestOracleRenamedFrames does so for every real file.
func TestOracleRenamedFrames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(oracle.Dir(t), "snapshots", "*", "*.pickle"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		renameFrames(t, file)
	}
}

// renamings are ways in which no name is left, of noise as little as of the
// program; methods that were equal stay equal in all but those that say so.
func renamings() map[string]func(s *Snapshot) {
	strings := func(name func(i uint32) string) func(s *Snapshot) {
		return func(s *Snapshot) {
			for _, f := range s.Stacks.Frames {
				s.Stacks.Strings[f.Function] = name(f.Function)
				s.Stacks.Strings[f.File] = name(f.File)
			}
		}
	}
	return map[string]func(s *Snapshot){
		"each to a name of its own":        strings(func(i uint32) string { return fmt.Sprintf("renamed_%d", i) }),
		"each to a Python file of its own": strings(func(i uint32) string { return fmt.Sprintf("renamed_%d.py", i) }),
		"all to one name":                  strings(func(uint32) string { return "renamed" }),
		"all to one Python file":           strings(func(uint32) string { return "renamed.py" }),
		"each frame to a method of its own, in fifty files": func(s *Snapshot) {
			for i := range s.Stacks.Frames {
				f := &s.Stacks.Frames[i]
				f.Function, f.File = uint32(len(s.Stacks.Strings)), uint32(len(s.Stacks.Strings)+1)
				s.Stacks.Strings = append(s.Stacks.Strings, fmt.Sprintf("fn%d", i), fmt.Sprintf("/x/f%d.py", i%50))
			}
		},
	}
}

func renameFrames(t *testing.T, file string) {
	t.Helper()
	for how, rename := range renamings() {
		r, s := readRecording(t, file)
		before := s.Explain(r)
		r, s = readRecording(t, file)
		var python []bool
		for i := range s.Stacks.Frames {
			python = append(python, strings.HasSuffix(s.Stacks.File(uint32(i)), ".py"))
		}
		rename(s)
		after := s.Explain(r)
		var moved, lost int64
		for _, a := range after.AliveAt(r.Peaks().Requested.Entry) {
			was, is := before.Verdict(a), after.Verdict(a)
			switch bytes := r.Timeline.Allocs[a].Requested; {
			case is.Category == was.Category:
			case is.Category == account.CategoryUnattributed:
				lost += bytes
			case is.Why == freedByOwner && python[after.marks.of(after.lives.freedBy[a]).owner-1]:
				// A local of one of the program's functions is one under any name.
			default:
				moved += bytes
				if moved == bytes {
					t.Logf("%s, %s: %s (%s) became %s (%s)", filepath.Base(file), how, was.Category, was.Why, is.Category, is.Why)
				}
			}
		}
		if byStack := before.byStacks(r.Peaks().Requested.Entry); lost == 0 && byStack > 0 {
			t.Errorf("%s, %s: stacks decided %d bytes, and none of them is unattributed without", filepath.Base(file), how, byStack)
		}
		if moved > 0 {
			t.Errorf("%s, %s: %d bytes moved to another category, %d are unattributed", filepath.Base(file), how, moved, lost)
		}
	}
}

// byStacks is the bytes alive after an entry whose birth the trace shows and
// whose category names on a stack decided.
func (x *Explanation) byStacks(entry int) (bytes int64) {
	for _, a := range x.AliveAt(entry) {
		v := x.Verdict(a)
		if (v.Evidence == ByFrames || v.Evidence == ByLifetime) && v.Why != freedByOwner && x.lives.birth[a] != never {
			bytes += x.r.Timeline.Allocs[a].Requested
		}
	}
	return bytes
}

// TestLabelsAreCategories keeps the tables of labels to the project's words.
func TestLabelsAreCategories(t *testing.T) {
	known := map[string]bool{}
	for _, c := range account.Categories() {
		known[string(c)] = true
	}
	tables, err := os.ReadDir(filepath.Join("testdata", "labels"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		name, ok := strings.CutSuffix(table.Name(), ".tsv")
		if !ok {
			continue
		}
		_, categories := readLabels(t, name)
		for _, c := range categories {
			if !known[c] {
				t.Errorf("%s: %q is no category", name, c)
			}
		}
	}
}
