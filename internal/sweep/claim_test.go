package sweep

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTwoSweepsOfOneFolderRunNothingTwice(t *testing.T) {
	folder := begun(t, Plan{Dimension: "batch", Values: []int64{1, 2, 3, 4}}).Folder
	var all sync.Mutex
	var runs []int64
	slow := func(_ context.Context, value int64, _ string) (Point, error) {
		all.Lock()
		runs = append(runs, value)
		all.Unlock()
		time.Sleep(20 * time.Millisecond)
		return Point{Status: Passed}, nil
	}
	var both sync.WaitGroup
	for range 2 {
		l, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		both.Go(func() {
			if err := l.Run(context.Background(), slow, quiet); err != nil {
				t.Error(err)
			}
			if missing := l.Missing(); len(missing) > 0 {
				t.Errorf("missing %v", missing)
			}
		})
	}
	both.Wait()
	slices.Sort(runs)
	if want := []int64{1, 2, 3, 4}; !slices.Equal(runs, want) {
		t.Errorf("ran %v, want %v", runs, want)
	}
}

func TestWhoWaitsForAValueCanBeInterrupted(t *testing.T) {
	l := begun(t, Plan{Dimension: "batch", Values: []int64{1}})
	release, err := l.claim(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.Run(ctx, below(1, new([]int64)), quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}

func TestRunsOfTheWidestRange(t *testing.T) {
	if got := (Limit{1, math.MaxInt64, 1}).MaxRuns(); got != 65 {
		t.Errorf("%d runs, want 65: 63 halves and both ends", got)
	}
}

func TestLinesThatAreNoPointsOfThePlan(t *testing.T) {
	for _, line := range []string{`null`, `{}`, `{"foo":1}`, `{"value":1}`, `{"value":1,"status":"zzz"}`, `{"value":77,"status":"passed"}`, `[1]`, `hello`} {
		l := begun(t, Plan{Dimension: "batch", Values: []int64{1, 2}})
		if err := os.WriteFile(filepath.Join(l.Folder, ledgerFile), []byte(line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := l.Reload(); err == nil || !strings.Contains(err.Error(), "no point of this sweep") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestNamesOfDimensions(t *testing.T) {
	for name, fine := range map[string]bool{"batch": true, "längd": true, "lr.steps-1": true, "../x": false, "a b": false, "a\nb": false, "b%A": false, "-x": false, ".": false, strings.Repeat("x", 65): false} {
		if _, err := (Plan{Dimension: name, Values: []int64{1}}).Prepared(); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}
