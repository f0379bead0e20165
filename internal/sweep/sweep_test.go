package sweep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"floodmark/internal/checklist"
)

// below passes values up to a threshold, and counts its runs.
func below(threshold int64, runs *[]int64) Measure {
	return func(_ context.Context, value int64, _ string) (Point, error) {
		*runs = append(*runs, value)
		if value > threshold {
			return Point{Status: OutOfMemory, Error: "CUDA out of memory"}, nil
		}
		return Point{Status: Passed}, nil
	}
}

func quiet([]Point, int64, int) {}

func begun(t *testing.T, p Plan) *Ledger {
	t.Helper()
	prepared, err := p.Prepared()
	if err != nil {
		t.Fatal(err)
	}
	l, err := Create(filepath.Join(t.TempDir(), "sweep"), prepared)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOneDimensionAndItsBoundary(t *testing.T) {
	checklist.Covers(t, 132, 133, 144)
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1, 8, 2, 4}, Order: Descending})
	var runs []int64
	if err := l.Run(context.Background(), below(3, &runs), quiet); err != nil {
		t.Fatal(err)
	}
	if want := []int64{8, 4, 2, 1}; !slices.Equal(runs, want) {
		t.Errorf("ran %v, want the worst first: %v", runs, want)
	}
	if got, want := BoundaryOf(l.Points()), (Boundary{LargestPass: 2, SmallestFail: 4}); got != want {
		t.Errorf("boundary %+v, want %+v", got, want)
	}
}

func TestWhatFailsOtherwiseIsNoBoundary(t *testing.T) {
	points := []Point{{Value: 1, Status: Passed}, {Value: 2, Status: Failed}, {Value: 3, Status: Lost}, {Value: 4, Status: Passed}, {Value: 8, Status: OutOfMemory}}
	if got, want := BoundaryOf(points), (Boundary{LargestPass: 4, SmallestFail: 8}); got != want || !got.Monotone() {
		t.Errorf("boundary %+v, want %+v", got, want)
	}
	if b := BoundaryOf([]Point{{Value: 2, Status: OutOfMemory}, {Value: 4, Status: Passed}}); b.Monotone() {
		t.Error("a pass above a failure is taken for a boundary")
	}
}

func TestFindLimit(t *testing.T) {
	for _, limit := range []Limit{{1, 1, 1}, {1, 2, 1}, {1024, 131072, 1024}, {1, 100, 7}, {5, 1000, 1000}, {3, 4096, 1}} {
		thresholds := []int64{limit.Low - 1, limit.Low, limit.High, limit.High - 1, limit.High + 1, (limit.Low + limit.High) / 2}
		for _, threshold := range thresholds {
			t.Run(fmt.Sprintf("%d..%d by %d at %d", limit.Low, limit.High, limit.Step, threshold), func(t *testing.T) {
				l := begun(t, Plan{Dimension: "context", Limit: &limit})
				var runs []int64
				if err := l.FindLimit(context.Background(), below(threshold, &runs), quiet); err != nil {
					t.Fatal(err)
				}
				if len(runs) > limit.MaxRuns() {
					t.Errorf("%d runs, more than %d: %v", len(runs), limit.MaxRuns(), runs)
				}
				b := BoundaryOf(l.Points())
				if b.LargestPass > threshold || (b.SmallestFail > 0 && b.SmallestFail <= threshold) {
					t.Errorf("boundary %+v around %d", b, threshold)
				}
				if b.LargestPass > 0 && b.SmallestFail > 0 && b.SmallestFail-b.LargestPass > limit.Step {
					t.Errorf("boundary %+v is wider than a step", b)
				}
			})
		}
	}
}

func TestMaxRuns(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  int
	}{{Limit{1024, 131072, 1024}, 9}, {Limit{1, 1, 1}, 2}, {Limit{1, 2, 1}, 2}, {Limit{1, 9, 1}, 5}} {
		if got := c.limit.MaxRuns(); got != c.want {
			t.Errorf("%+v takes at most %d runs, want %d", c.limit, got, c.want)
		}
	}
}

func TestAnotherFailureStopsTheSearch(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Limit: &Limit{1, 64, 1}})
	runs := 0
	err := l.FindLimit(context.Background(), func(_ context.Context, value int64, _ string) (Point, error) {
		runs++
		if value == 32 {
			return Point{Status: Failed, Error: "KeyError: 'labels'"}, nil
		}
		return Point{Status: map[bool]Status{true: Passed, false: OutOfMemory}[value < 40]}, nil
	}, quiet)
	var stopped *StoppedError
	if !errors.As(err, &stopped) || stopped.Point.Value != 32 || runs != 3 {
		t.Errorf("after %d runs: %v", runs, err)
	}
}

func TestResumeRunsNothingTwice(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1, 2, 4, 8}})
	ctx, stop := context.WithCancel(context.Background())
	var runs []int64
	err := l.Run(ctx, func(ctx context.Context, value int64, path string) (Point, error) {
		if value == 4 {
			stop()
		}
		return below(2, &runs)(ctx, value, path)
	}, quiet)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	again, err := Open(l.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Missing(); !slices.Equal(got, []int64{4, 8}) {
		t.Errorf("missing %v: what was interrupted is no point", got)
	}
	runs = nil
	if err := again.Run(context.Background(), below(2, &runs), quiet); err != nil || !slices.Equal(runs, []int64{4, 8}) {
		t.Errorf("ran %v, %v", runs, err)
	}
	if p, _ := again.Point(4); p.Attempt != 2 {
		t.Errorf("the second try at 4 is attempt %d", p.Attempt)
	}
	if _, err := Create(l.Folder, l.Plan); err == nil || !strings.Contains(err.Error(), "--resume") {
		t.Errorf("a folder was used twice: %v", err)
	}
}

// What was lost or failed otherwise is run again where that is asked for, also by
// a process that read the ledger before, and what memory decided never is.
func TestRetry(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1, 2, 3, 4}})
	for _, p := range []Point{{Value: 1, Status: Passed, Attempt: 1}, {Value: 2, Status: Lost, Attempt: 1}, {Value: 3, Status: Failed, Attempt: 2}, {Value: 4, Status: OutOfMemory, Attempt: 1}} {
		if err := l.Append(p); err != nil {
			t.Fatal(err)
		}
	}
	l.Retry()
	if err := l.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := l.Missing(); !slices.Equal(got, []int64{2, 3}) {
		t.Fatalf("missing %v", got)
	}
	for range 2 { // the names of the first two attempts at 3 are taken
		if _, _, err := l.NewAttempt(3); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := l.NewAttempt(2); err != nil {
		t.Fatal(err)
	}
	var runs []int64
	if err := l.Run(context.Background(), below(2, &runs), quiet); err != nil || !slices.Equal(runs, []int64{2, 3}) {
		t.Fatalf("ran %v, %v", runs, err)
	}
	again, err := Open(l.Folder)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[int64]Status{1: Passed, 2: Passed, 3: OutOfMemory, 4: OutOfMemory} {
		if p, _ := again.Point(value); p.Status != want {
			t.Errorf("%d is %s, want %s", value, p.Status, want)
		}
	}
}

func TestALineThatWasCutOffIsNotThereYet(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1, 2, 3}})
	for v := range int64(2) {
		if err := l.Append(Point{Value: v + 1, Status: Passed}); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(l.Folder, ledgerFile)
	whole, _ := os.ReadFile(path)
	for cut := range whole {
		if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		open, err := Open(l.Folder)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if err := open.Append(Point{Value: 3, Status: OutOfMemory}); err != nil {
			t.Fatal(err)
		}
		if open, err = Open(l.Folder); err != nil {
			t.Fatalf("cut at %d, then a line: %v", cut, err)
		}
		if _, known := open.Point(3); !known {
			t.Fatalf("cut at %d: the line after it is lost", cut)
		}
	}
}

func TestForeignLinesAreRefused(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1}})
	os.WriteFile(filepath.Join(l.Folder, ledgerFile), []byte("value,status\n1,passed\n"), 0o644)
	if _, err := Open(l.Folder); err == nil || !strings.Contains(err.Error(), "byte 0") {
		t.Errorf("a table of another program was read: %v", err)
	}
}

func TestManyAppendAtOnce(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Limit: &Limit{1, 64, 1}})
	var all sync.WaitGroup
	for v := range int64(64) {
		all.Go(func() {
			other := &Ledger{Folder: l.Folder}
			if err := other.Append(Point{Value: v + 1, Status: Failed, Error: strings.Repeat("x", 10000)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := l.Reload(); err != nil || len(l.Points()) != 64 {
		t.Errorf("%d of 64 lines, %v", len(l.Points()), err)
	}
}

func TestLengthsGiveTheWorstFirst(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintln(&text, 200-i)
	}
	values, samples, err := Lengths("lengths.txt", strings.NewReader("# tokens\n\n"+text.String()))
	if want := []int64{200, 198, 180, 100}; err != nil || samples != 200 || !slices.Equal(values, want) {
		t.Errorf("%v of %d, %v; want %v", values, samples, err, want)
	}
	for text, want := range map[string]string{"": "no length", "7\nx\n": "line 2", "0": "line 1", "1.5": "line 1"} {
		if _, _, err := Lengths("f", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestPlansThatCannotRun(t *testing.T) {
	for name, p := range map[string]Plan{
		"varies one dimension": {},
		"no value":             {Dimension: "batch"},
		"twice":                {Dimension: "batch", Values: []int64{1, 1}},
		"at least 1":           {Dimension: "batch", Values: []int64{0}},
		"not known":            {Dimension: "batch", Values: []int64{1}, Order: "random"},
		"below its beginning":  {Dimension: "batch", Limit: &Limit{8, 4, 1}},
		"leads nowhere":        {Dimension: "batch", Limit: &Limit{1, 4, 0}},
	} {
		if _, err := p.Prepared(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%+v: %v, want %q", p, err, name)
		}
	}
}

func TestWith(t *testing.T) {
	got, err := With([]string{"train.py", "--batch={batch}", "{batch}"}, "batch", 8)
	if err != nil || !slices.Equal(got, []string{"train.py", "--batch=8", "8"}) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := With([]string{"train.py"}, "batch", 8); err == nil {
		t.Error("a command that is the same for each value is run")
	}
}

// A sweep knows where it began: --resume asks for no flag again, and runs nothing
// beside what a cluster still has in its queue.
func TestPlanRemembersTheCluster(t *testing.T) {
	l, err := Create(filepath.Join(t.TempDir(), "new", "sweep"), Plan{Dimension: "batch", Values: []int64{1}, Order: Given, On: "slurm", Submit: []string{"--gres=gpu:1"}})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(l.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if again.Plan.On != "slurm" || len(again.Plan.Submit) != 1 {
		t.Errorf("the plan says %q and %q", again.Plan.On, again.Plan.Submit)
	}
}
