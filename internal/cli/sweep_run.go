package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"floodmark"
	"floodmark/internal/source"
	"floodmark/internal/sweep"
	"floodmark/internal/sweep/slurm"
	"floodmark/record"
)

// runner runs the values of a sweep, each by a measure command of its own.
type runner struct {
	session *session
	ledger  *sweep.Ledger
	began   time.Time
	runs    int
}

// impossibleError is a value that could not be measured at all, so that no value
// can.
type impossibleError struct {
	exit int
	text string
}

func (e *impossibleError) Error() string { return e.text }

// measure is one value in a new process. What the program prints goes to the
// value's log.
func (r *runner) measure(ctx context.Context, value int64, path string) (sweep.Point, error) {
	args, err := r.arguments(value, path)
	if err != nil {
		return sweep.Point{}, err
	}
	printed, err := os.OpenFile(path+".log", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return sweep.Point{}, source.OfFile(path+".log", err)
	}
	defer printed.Close()
	cmd := exec.CommandContext(ctx, r.session.env.Executable, args...)
	cmd.Dir = r.ledger.Plan.Directory
	defer endWithUs(cmd)()
	cmd.Env, cmd.Stdout, cmd.Stderr = r.session.env.Environ, printed, printed
	// The measurement keeps what it has when it is interrupted.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = time.Minute
	r.runs++
	failed := cmd.Run()
	var exit *exec.ExitError
	if failed != nil && !errors.As(failed, &exit) {
		return sweep.Point{}, failed
	}
	return r.point(ctx, path, cmd.ProcessState.ExitCode())
}

// arguments is the measure command of one value.
func (r *runner) arguments(value int64, path string) ([]string, error) {
	plan := r.ledger.Plan
	args := []string{"measure", "--output", path + ".json"}
	if len(plan.Command) == 0 {
		return append(append(args, plan.Lab...), "--"+plan.Dimension, strconv.FormatInt(value, 10)), nil
	}
	command, err := sweep.With(plan.Command, plan.Dimension, value)
	if err != nil {
		return nil, err
	}
	args = append(args, "--quiet")
	if plan.Policy["phases"] == "none" {
		args = append(args, "--no-phases")
	}
	if steps := plan.Policy["steps"]; steps != "" {
		args = append(args, "--steps", steps)
	}
	return append(append(args, "--"), command...), nil
}

// point reads how the value ended.
func (r *runner) point(ctx context.Context, path string, exit int) (sweep.Point, error) {
	printed, err := printedLast(path + ".log")
	if err != nil {
		return sweep.Point{}, err
	}
	m, err := readMeasurement(path + ".json")
	if err != nil {
		return sweep.Point{}, err
	}
	if m == nil && ctx.Err() == nil && exit != 0 {
		return sweep.Point{}, &impossibleError{exit, fmt.Sprintf("the first value that could not be measured ends the sweep: %s", lastLine(printed))}
	}
	if m == nil && ctx.Err() == nil {
		// The disk is full, or the folder was taken away: not how the program ended.
		return sweep.Point{}, source.OfFile(path+".json", errors.New("the program ended well, and its measurement was not written; the value is run again with --resume"))
	}
	p := floodmark.SweptMeasurement(m, printed)
	if m != nil {
		p.Record = r.within(path + ".json")
	}
	return p, nil
}

// mostPrinted is how much is read of what a program printed: why it ended stands
// at the end, and some print gigabytes before.
const mostPrinted = 16 << 20

// printedLast is the end of what a program printed.
func printedLast(path string) (source.Source, error) {
	all, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer all.Close()
	last := make([]byte, min(all.Size(), mostPrinted))
	if _, err := all.ReadAt(last, all.Size()-int64(len(last))); err != nil && !errors.Is(err, io.EOF) {
		return nil, source.OfFile(path, err)
	}
	return source.Bytes(path, last), nil
}

// within is a path as the folder sees it.
func (r *runner) within(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, r.ledger.Folder), string(os.PathSeparator))
}

// readMeasurement is the record of a value; nil when there is none.
func readMeasurement(path string) (*record.Measurement, error) {
	src, err := source.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer src.Close()
	document, err := record.Read(src)
	if err != nil {
		return nil, err
	}
	m, ok := document.(*record.Measurement)
	if !ok {
		return nil, source.InField(path, "kind", "is no measurement")
	}
	return m, nil
}

// lastLine is what a program said last.
func lastLine(printed source.Source) string {
	last := "it printed nothing"
	lines := bufio.NewScanner(source.Stream(printed))
	lines.Buffer(nil, mostPrinted+1)
	for lines.Scan() {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			last = text
		}
	}
	return source.Visible(last[max(0, len(last)-1000):])
}

// task runs one value on a node of a cluster, unless somebody has.
func (r *runner) task(ctx context.Context, text string) error {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return &usageError{err: fmt.Errorf("--task: %w", err)}
	}
	if p, known := r.ledger.Point(value); known && p.Status != sweep.Lost {
		return nil
	}
	return r.ledger.Task(ctx, value, r.measure)
}

// progress says what comes next, and for how long by what the values took so far.
func (r *runner) progress(done []sweep.Point, next int64, left int) {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	text := fmt.Sprintf("%s %d", r.ledger.Plan.Dimension, next)
	if left > 0 && r.runs > 0 {
		each := time.Since(r.began) / time.Duration(r.runs)
		text += fmt.Sprintf(", %d left, about %s", left, (each * time.Duration(left)).Round(time.Second))
	}
	r.session.progress(text)
}

// progress tells a person what is being done; programs are not told.
func (s *session) progress(text string) {
	if s.env.ErrTerminal {
		_, _ = fmt.Fprintf(s.env.Stderr, "floodmark: %s\n", text)
	}
}

// offerCancel asks a person whether the tasks that are queued shall end, too.
// Nobody who could answer: they go on, and it is said how to end them.
func (s *session) offerCancel(a *slurm.Array) {
	jobs := a.Jobs()
	if len(jobs) == 0 {
		return
	}
	if s.env.ErrTerminal {
		_, _ = fmt.Fprintf(s.env.Stderr, "\ncancel what is left of job %s? [y/N] ", strings.Join(jobs, ", "))
		answer, _ := bufio.NewReader(s.env.Stdin).ReadString('\n')
		if strings.EqualFold(strings.TrimSpace(answer), "y") {
			for _, job := range jobs {
				if err := a.Cluster.Cancel(context.Background(), job); err != nil {
					_, _ = fmt.Fprintf(s.env.Stderr, "floodmark: %v\n", err)
				}
			}
			return
		}
	}
	_, _ = fmt.Fprintf(s.env.Stderr, "floodmark: job %s goes on; end it with: scancel %s; wait for it with: floodmark sweep --resume %s\n", strings.Join(jobs, ", "), strings.Join(jobs, " "), a.Ledger.Folder)
}
