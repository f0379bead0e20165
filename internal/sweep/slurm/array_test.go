package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/sweep"
)

// queue is a Slurm whose tasks do what a function says as soon as squeue has
// shown them once.
type queue struct {
	t         *testing.T
	submitted []string // scripts
	waiting   []int64  // values by index; -1: gone
	task      func(value int64)
	failing   int // questions that get no answer
	said      []string
}

func (q *queue) run(_ context.Context, stdin, name string, args ...string) (string, error) {
	switch name {
	case "sbatch":
		q.submitted = append(q.submitted, stdin)
		_, list, _ := strings.Cut(stdin, "values=(")
		list, _, _ = strings.Cut(list, ")")
		q.waiting = nil
		for _, v := range strings.Fields(list) {
			var n int64
			fmt.Sscan(v, &n)
			q.waiting = append(q.waiting, n)
		}
		return "77;cluster\n", nil
	case "squeue":
		if q.failing > 0 {
			q.failing--
			return "", &CommandError{Name: name, Said: "slurm_load_jobs error: Unable to contact slurm controller"}
		}
		var out strings.Builder
		for i, v := range q.waiting {
			if v < 0 {
				continue
			}
			fmt.Fprintf(&out, "%d|RUNNING|None\n", i)
			q.task(v)
			q.waiting[i] = -1
		}
		if out.Len() == 0 {
			return "", &CommandError{Name: name, Said: "slurm_load_jobs error: Invalid job id specified"}
		}
		return out.String(), nil
	case "scontrol":
		return "JobId=81 ArrayTaskId=5 JobState=CANCELLED Reason=None ExitCode=0:15 NodeList=n1\n", nil
	}
	q.t.Fatalf("%s %q", name, args)
	return "", nil
}

func array(t *testing.T, q *queue, values ...int64) *Array {
	t.Helper()
	p, err := sweep.Plan{Dimension: "batch", Values: values}.Prepared()
	if err != nil {
		t.Fatal(err)
	}
	l, err := sweep.Create(filepath.Join(t.TempDir(), "a sweep's"), p)
	if err != nil {
		t.Fatal(err)
	}
	a := &Array{Cluster: Cluster{Run: q.run}, Ledger: l, Task: []string{"/opt/a b/floodmark", "sweep", "--task"}, Poll: 1, Grace: 2}
	a.Notify = func(text string) { q.said = append(q.said, text) }
	return a
}

// writes is a task that writes its line unless its value is killed.
func (a *Array) writes(killed ...int64) func(int64) {
	return func(v int64) {
		if slices.Contains(killed, v) {
			return
		}
		p := sweep.Point{Value: v, Status: sweep.Passed}
		if v > 32 {
			p.Status = sweep.OutOfMemory
		}
		other, _ := sweep.Open(a.Ledger.Folder)
		_ = other.Append(p)
	}
}

func TestATaskThatVanishesIsLost(t *testing.T) {
	q := &queue{t: t}
	a := array(t, q, 1, 2, 4, 8, 16, 32, 64, 128)
	q.task = a.writes(4)
	if err := a.Run(context.Background(), a.Ledger.Plan.Values); err != nil {
		t.Fatal(err)
	}
	points := a.Ledger.Points()
	p, _ := a.Ledger.Point(4)
	if len(points) != 8 || p.Status != sweep.Lost || !strings.Contains(p.Error, "CANCELLED") || !strings.Contains(p.Error, "0:15") {
		t.Errorf("%d points, the killed one %+v", len(points), p)
	}
	if b := sweep.BoundaryOf(points); b != (sweep.Boundary{LargestPass: 32, SmallestFail: 64}) {
		t.Errorf("boundary %+v", b)
	}
	if err := a.Run(context.Background(), a.Ledger.Plan.Values); err != nil || len(q.submitted) != 1 {
		t.Errorf("submitted %d times, %v: nothing is run twice", len(q.submitted), err)
	}
}

func TestAQueuedJobIsWaitedForAfterAResume(t *testing.T) {
	q := &queue{t: t, task: func(int64) {}}
	a := array(t, q, 1, 2)
	ctx, stop := context.WithCancel(context.Background())
	a.Notify = func(string) { stop() }
	if err := a.Run(ctx, a.Ledger.Plan.Values); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// The tasks were requeued meanwhile.
	q.waiting, q.task = []int64{1, 2}, a.writes()
	open, err := sweep.Open(a.Ledger.Folder)
	if err != nil {
		t.Fatal(err)
	}
	again := &Array{Cluster: a.Cluster, Ledger: open, Task: a.Task, Poll: 1, Grace: 1}
	if err := again.Run(context.Background(), open.Plan.Values); err != nil || len(q.submitted) != 1 || len(open.Points()) != 2 {
		t.Errorf("submitted %d times, %d points, %v", len(q.submitted), len(open.Points()), err)
	}
}

func TestASilentControllerLosesNothing(t *testing.T) {
	q := &queue{t: t}
	a := array(t, q, 1, 2)
	q.task = a.writes()
	q.failing = 5
	if err := a.Run(context.Background(), a.Ledger.Plan.Values); err != nil {
		t.Fatal(err)
	}
	if p, _ := a.Ledger.Point(2); p.Status != sweep.Passed || !strings.Contains(q.said[0], "Unable to contact") {
		t.Errorf("%+v after %q", p, q.said)
	}
}

func TestScript(t *testing.T) {
	q := &queue{t: t}
	a := array(t, q, 1, 2)
	got := a.script([]int64{16, 8})
	for _, want := range []string{"#!/bin/bash\n", "#SBATCH --array=0-1\n", "values=(16 8)\n", `exec '/opt/a b/floodmark' 'sweep' '--task' "${values[$SLURM_ARRAY_TASK_ID]}"`} {
		if !strings.Contains(got, want) {
			t.Errorf("the script lacks %q:\n%s", want, got)
		}
	}
}

func TestWordsOfSlurm(t *testing.T) {
	said := func(out string, err error) Cluster {
		return Cluster{Run: func(context.Context, string, string, ...string) (string, error) { return out, err }}
	}
	ctx := context.Background()
	if _, err := said("", &CommandError{Name: "sbatch", Said: "error: invalid partition specified: gpu"}).submit(ctx, "", nil); err == nil || !strings.Contains(err.Error(), "invalid partition") {
		t.Errorf("%v", err)
	}
	if _, err := said("Submitted batch job\n", nil).submit(ctx, "", nil); err == nil {
		t.Error("a job without a number was taken")
	}
	if id, err := said("sbatch: lua: note\n1234\n", nil).submit(ctx, "", nil); id != "1234" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	tasks, err := said("0|PENDING|Resources\n1|COMPLETING|None\n2|FAILED|NonZeroExitCode\n", nil).queued(ctx, "1")
	if err != nil || len(tasks) != 2 || tasks[0] != "pending (Resources)" || tasks[1] != "completing" {
		t.Errorf("%v, %v", tasks, err)
	}
	if _, err := said("N/A\n", nil).queued(ctx, "1"); err == nil {
		t.Error("a line that is no task was read")
	}
	if text := said("", errors.New("gone")).ended(ctx, "1", 0); !strings.Contains(text, "does not know it any more") {
		t.Error(text)
	}
	if text := said("JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 NodeList=(null)", nil).ended(ctx, "1", 0); !strings.Contains(text, "host memory") {
		t.Error(text)
	}
}

func TestFoldersWithOddNames(t *testing.T) {
	for folder, want := range map[string]string{
		"/runs/a b":   "/runs/a b/points/slurm-%A_%a.log",
		"/runs/50%j":  "/runs/50%%j/points/slurm-%A_%a.log",
		"/runs/a\nb":  "/runs/a\nb/points/slurm-%A_%a.log",
		`/runs/a\b`:   os.DevNull,
		"/runs/plain": "/runs/plain/points/slurm-%A_%a.log",
	} {
		a := &Array{Ledger: &sweep.Ledger{Folder: folder, Plan: sweep.Plan{Dimension: "batch"}}}
		if got := a.printed(); got != want {
			t.Errorf("%q: %q, want %q", folder, got, want)
		}
		for line := range strings.Lines(a.script([]int64{1})) {
			if strings.HasPrefix(line, "#SBATCH") && strings.Contains(line, folder) {
				t.Errorf("%q stands in a directive: %s", folder, line)
			}
		}
	}
}

func TestAJobThatWasCutOffWhileItWasNoted(t *testing.T) {
	a := &Array{Ledger: &sweep.Ledger{Folder: t.TempDir()}}
	if err := os.WriteFile(filepath.Join(a.Ledger.Folder, jobsFile), []byte("{\"id\":\"7\",\"values\":[1]}\n{\"id\":\"8"), 0o600); err != nil {
		t.Fatal(err)
	}
	if jobs, err := a.jobs(); err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
}
