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

// TestOracleSummaries explains three training snapshots in one sentence each.
func TestOracleSummaries(t *testing.T) {
	dir := filepath.Join(oracle.Dir(t), "snapshots")
	for file, want := range map[string]string{
		"wedsonlin__assignment2-systems/results_medium_128_training_memory_snapshot.pickle": "The peak of 6.53 GiB is in an optimizer step: " +
			"3.15 GiB of it is optimizer state because the optimizer keeps it from step to step (438 tensors); " +
			"1.58 GiB is parameters because the weights live throughout (219 tensors); " +
			"1.58 GiB is gradients because every trained weight has one until zero_grad (219 tensors); at the end 6.34 GiB is still held.",
		"wedsonlin__assignment2-systems/results_medium_1024_training_memory_snapshot.pickle": "The peak of 22.54 GiB is in a backward: " +
			"16.44 GiB of it is activations because a forward holds 752 tensors for its backward, 63 % of it in project/model.py; " +
			"3.15 GiB is optimizer state because the optimizer keeps it from step to step (438 tensors); " +
			"1.58 GiB is parameters because the weights live throughout (219 tensors); at the end 6.40 GiB is still held.",
		"nothanmin__assignment2-systems/memory_snapshot.pickle": "The peak of 21.26 GiB is in a forward: " +
			"7.22 GiB of it is optimizer state because the optimizer keeps it from step to step (654 tensors); " +
			"6.76 GiB is activations because a forward holds 941 tensors for its backward, 100 % of it in project/adapters.py; " +
			"3.61 GiB is parameters because the weights live throughout (327 tensors); " +
			"3.61 GiB is gradients because the gradients of the step before are still held while the next forward runs; at the end 14.50 GiB is still held.",
	} {
		r, s := readRecording(t, filepath.Join(dir, file))
		x := s.Explain(r)
		c := x.Compose(r.Peaks().Requested.Entry, account.Requested)
		if got := x.Summary(c, c.Bytes); got != want {
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

func renameFrames(t *testing.T, file string) {
	t.Helper()
	for how, rename := range map[string]func(i uint32) string{
		"each to a name of its own": func(i uint32) string { return fmt.Sprintf("renamed_%d", i) },
		"all to one name":           func(uint32) string { return "renamed" },
		"all to one Python file":    func(uint32) string { return "renamed.py" },
	} {
		r, s := readRecording(t, file)
		before := s.Explain(r)
		r, s = readRecording(t, file)
		for _, f := range s.Stacks.Frames {
			s.Stacks.Strings[f.Function] = rename(f.Function)
			s.Stacks.Strings[f.File] = rename(f.File)
		}
		after := s.Explain(r)
		var moved, lost int64
		for _, a := range after.AliveAt(r.Peaks().Requested.Entry) {
			was, is := before.Verdict(a), after.Verdict(a)
			switch bytes := r.Timeline.Allocs[a].Requested; {
			case is.Category == was.Category:
			case is.Category == account.CategoryUnattributed:
				lost += bytes
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
// whose category a stack decided.
func (x *Explanation) byStacks(entry int) (bytes int64) {
	for _, a := range x.AliveAt(entry) {
		if e := x.Verdict(a).Evidence; (e == ByFrames || e == ByLifetime) && x.lives.birth[a] != never {
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
