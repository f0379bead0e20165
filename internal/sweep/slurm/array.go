package slurm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"floodmark/internal/source"
	"floodmark/internal/sweep"
)

// Array is a sweep's values as tasks of Slurm jobs.
type Array struct {
	Cluster Cluster
	Ledger  *sweep.Ledger
	// Task is the command that runs one value, which follows it as its last
	// argument, and appends the line to the ledger. A node must find it.
	Task    []string
	Options []string      // of sbatch: --gres=gpu:1, --partition=…
	Poll    time.Duration // between questions to the queue
	// Grace is how many questions long a task that left the queue may still owe
	// its line: a shared file system shows it late.
	Grace  int
	Notify func(text string) // told what the queue holds; nil: nobody
}

// jobsFile remembers what was submitted, a line each.
const jobsFile = "jobs.jsonl"

// job is one submission: task i runs Values[i].
type job struct {
	ID     string  `json:"id"`
	Values []int64 `json:"values"`
}

// Run submits the values of which neither a result nor a queued task is known,
// and waits until each value has a line.
func (a *Array) Run(ctx context.Context, values []int64) error {
	jobs, err := a.jobs()
	if err != nil {
		return err
	}
	open, err := a.stillQueued(ctx, jobs)
	if err != nil {
		return err
	}
	var missing []int64
	for _, v := range values {
		if _, known := a.Ledger.Point(v); !known && !slices.ContainsFunc(open, func(j job) bool { return slices.Contains(j.Values, v) }) {
			missing = append(missing, v)
		}
	}
	if len(missing) > 0 {
		j, err := a.submit(ctx, missing)
		if err != nil {
			return err
		}
		open = append(open, j)
	}
	for _, j := range open {
		if err := a.wait(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// Jobs is the numbers of what was submitted.
func (a *Array) Jobs() []string {
	jobs, _ := a.jobs()
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	return ids
}

func (a *Array) jobs() ([]job, error) {
	path := filepath.Join(a.Ledger.Folder, jobsFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, source.OfFile(path, err)
	}
	var jobs []job
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if sweep.Torn(lines.Bytes()) {
			continue
		}
		var j job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return nil, source.InField(path, fmt.Sprintf("line %d", len(jobs)+1), "is no job: %v", err)
		}
		jobs = append(jobs, j)
	}
	return jobs, source.OfFile(path, lines.Err())
}

// stillQueued is those of the jobs that have tasks in the queue. A value whose
// task is gone without a line is missing again.
func (a *Array) stillQueued(ctx context.Context, jobs []job) ([]job, error) {
	var open []job
	for _, j := range jobs {
		tasks, err := a.Cluster.queued(ctx, j.ID)
		if err != nil {
			return nil, err
		}
		if len(tasks) > 0 {
			open = append(open, j)
		}
	}
	return open, nil
}

func (a *Array) submit(ctx context.Context, values []int64) (job, error) {
	id, err := a.Cluster.submit(ctx, a.script(values), append([]string{"--output=" + a.printed()}, a.Options...))
	if err != nil {
		return job{}, err
	}
	j := job{ID: id, Values: values}
	line, err := json.Marshal(j)
	if err != nil {
		return j, err
	}
	path := filepath.Join(a.Ledger.Folder, jobsFile)
	if err := sweep.AppendLine(path, line); err != nil {
		return j, fmt.Errorf("job %s was submitted and could not be noted: %w", id, err)
	}
	return j, nil
}

// script is what sbatch runs: one value a task.
func (a *Array) script(values []int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/bash\n#SBATCH --job-name=floodmark-%s\n#SBATCH --array=0-%d\n", a.Ledger.Plan.Dimension, len(values)-1)
	b.WriteString("values=(")
	for i, v := range values {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, v)
	}
	b.WriteString(")\nexec")
	for _, arg := range a.Task {
		b.WriteString(" " + quote(arg))
	}
	b.WriteString(" \"${values[$SLURM_ARRAY_TASK_ID]}\"\n")
	return b.String()
}

// quote is one word of a shell.
func quote(arg string) string { return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'" }

// printed is where Slurm writes what a task prints, as an option and no line of
// the script, which would end where the folder's name has a line end. A %% is a
// percent sign; with a backslash nothing is replaced, and tasks would share a file.
func (a *Array) printed() string {
	if strings.Contains(a.Ledger.Folder, `\`) {
		return os.DevNull
	}
	return filepath.Join(strings.ReplaceAll(a.Ledger.Folder, "%", "%%"), sweep.Points, "slurm-%A_%a.log")
}

// wait returns when each value of the job has a line. It writes the line of a
// task that ended without one.
func (a *Array) wait(ctx context.Context, j job) error {
	gone := map[int]int{} // questions since the task left the queue
	for {
		if err := a.Ledger.Reload(); err != nil {
			return err
		}
		tasks, err := a.Cluster.queued(ctx, j.ID)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			// A controller that does not answer is not a task that is gone.
			a.notify(fmt.Sprintf("job %s: %v; asking again", j.ID, err))
		default:
			left, err := a.settle(ctx, j, tasks, gone)
			if err != nil || left == 0 {
				return err
			}
			a.notify(fmt.Sprintf("job %s: %s", j.ID, summary(tasks, left)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(a.Poll):
		}
	}
}

// settle counts the tasks that still owe a line, after writing those of tasks
// that will never write one.
func (a *Array) settle(ctx context.Context, j job, tasks map[int]string, gone map[int]int) (left int, err error) {
	for i, value := range j.Values {
		if _, known := a.Ledger.Point(value); known {
			continue
		}
		if _, queued := tasks[i]; queued {
			gone[i] = 0
			left++
			continue
		}
		if gone[i]++; gone[i] <= a.Grace {
			left++
			continue
		}
		p := sweep.Point{Value: value, Status: sweep.Lost, Error: a.Cluster.ended(ctx, j.ID, i), Began: time.Now().UTC()}
		if err := a.Ledger.Append(p); err != nil {
			return left, err
		}
	}
	return left, nil
}

func (a *Array) notify(text string) {
	if a.Notify != nil {
		a.Notify(text)
	}
}

// summary is how many tasks are in which state: "2 running, 3 pending (Priority)".
func summary(tasks map[int]string, left int) string {
	counts := map[string]int{}
	for _, state := range tasks {
		counts[state]++
	}
	var states []string
	for state, n := range counts {
		states = append(states, fmt.Sprintf("%d %s", n, state))
	}
	slices.Sort(states)
	if len(states) == 0 {
		return fmt.Sprintf("%d left the queue, their results are awaited", left)
	}
	return strings.Join(states, ", ")
}
