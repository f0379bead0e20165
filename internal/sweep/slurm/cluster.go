package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// Cluster is Slurm as its commands give it.
type Cluster struct {
	// Run runs one of Slurm's commands and gives what it printed; nil is the real
	// one on PATH.
	Run func(ctx context.Context, stdin, name string, args ...string) (string, error)
}

// CommandError is one of Slurm's commands that failed.
type CommandError struct {
	Name, Said string
	Err        error
}

func (e *CommandError) Error() string {
	if e.Said == "" {
		return fmt.Sprintf("%s: %v", e.Name, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.Name, e.Said)
}

func (e *CommandError) Unwrap() error { return e.Err }

func (c Cluster) run(ctx context.Context, stdin, name string, args ...string) (string, error) {
	if c.Run != nil {
		return c.Run(ctx, stdin, name, args...)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.String(), &CommandError{Name: name, Said: strings.TrimSpace(said.String()), Err: err}
	}
	return out.String(), nil
}

// reJob is what sbatch --parsable prints: the job, and the cluster where there
// are several.
var reJob = regexp.MustCompile(`^([0-9]+)(;\S+)?\s*$`)

// submit hands a script to sbatch and gives the job's number.
func (c Cluster) submit(ctx context.Context, script string, options []string) (string, error) {
	out, err := c.run(ctx, script, "sbatch", append([]string{"--parsable"}, options...)...)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if m := reJob.FindStringSubmatch(line); m != nil {
			return m[1], nil
		}
	}
	return "", &CommandError{Name: "sbatch", Said: fmt.Sprintf("printed %.80q, expected the number of the job", out)}
}

// queued is the tasks of a job that wait or run, with the state and the reason
// that squeue gives. A job that Slurm has forgotten has none.
func (c Cluster) queued(ctx context.Context, job string) (map[int]string, error) {
	out, err := c.run(ctx, "", "squeue", "--noheader", "--array", "--jobs", job, "--format", "%K|%T|%r")
	var failed *CommandError
	if errors.As(err, &failed) && strings.Contains(failed.Said, "Invalid job id") {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	tasks := map[int]string{}
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimSpace(line), "|", 3)
		index, err := strconv.Atoi(fields[0])
		if err != nil || len(fields) != 3 {
			return nil, &CommandError{Name: "squeue", Said: fmt.Sprintf("printed %.80q, expected index|state|reason", line)}
		}
		if state := fields[1]; !over(state) {
			tasks[index] = strings.ToLower(state)
			if fields[2] != "None" && fields[2] != "" {
				tasks[index] += " (" + fields[2] + ")"
			}
		}
	}
	return tasks, nil
}

// over reports a state that a task does not leave. REQUEUED, SUSPENDED and
// COMPLETING are not among them.
func over(state string) bool {
	switch state {
	case "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY":
		return true
	}
	return false
}

// ended says how a task ended, in Slurm's own words.
func (c Cluster) ended(ctx context.Context, job string, index int) string {
	out, err := c.run(ctx, "", "scontrol", "show", "job", fmt.Sprintf("%s_%d", job, index), "--oneliner")
	if err != nil {
		return "the task left no result, and Slurm does not know it any more"
	}
	facts := map[string]string{}
	for _, word := range strings.Fields(out) {
		if key, value, ok := strings.Cut(word, "="); ok {
			if _, first := facts[key]; !first {
				facts[key] = value
			}
		}
	}
	text := "the task left no result; Slurm says " + facts["JobState"]
	if facts["JobState"] == "" {
		text = "the task left no result, and Slurm does not say why"
	}
	if reason := facts["Reason"]; reason != "" && reason != "None" {
		text += ", reason " + reason
	}
	if code := facts["ExitCode"]; code != "" && code != "0:0" {
		text += ", exit code " + code
	}
	if nodes := facts["NodeList"]; nodes != "" && nodes != "(null)" {
		text += ", on " + nodes
	}
	if facts["JobState"] == "OUT_OF_MEMORY" {
		text += ": the job's limit of host memory, not the card's"
	}
	return text
}

// Cancel ends what is left of a job.
func (c Cluster) Cancel(ctx context.Context, job string) error {
	_, err := c.run(ctx, "", "scancel", job)
	return err
}
