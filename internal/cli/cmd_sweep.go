package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/internal/report"
	"floodmark/internal/source"
	"floodmark/internal/sweep"
	"floodmark/internal/sweep/slurm"
)

type sweepOptions struct {
	vary, limit, step string
	lengths, order    string
	folder, resume    string
	retry             bool
	on                string
	sbatch            []string
	task              string
	device, dtype     string
	batch, context    string
	width             string
	warmup, repeats   string
	python            string
	train, noPhases   bool
	steps             string
	pollEvery         time.Duration
}

func newSweep(s *session) *cobra.Command {
	o := &sweepOptions{pollEvery: 5 * time.Second}
	cmd := &cobra.Command{
		Use:   "sweep --vary DIM=VALUES --folder DIR [-- PROGRAM [ARGUMENT…]]",
		Short: "One dimension varied, a fresh process each, here or on Slurm; --find-limit brackets the boundary",
		Long: `Runs one value of one dimension after the other, each in a process of its own, and
says which passed, which ran out of memory, and which failed for another reason.
Behind -- stands a program with {DIM} where the value goes; without one the lab
network is run, which needs --device.

The folder holds the plan, a ledger with a line for each value, the measurements
and what the programs printed. A sweep that was stopped goes on with --resume where
it began, and runs nothing twice but, with --retry, the values that were lost or
failed otherwise. --find-limit asks both ends first and then halves what is between; a
program that fails for another reason than memory stops it.

With --on slurm the values are tasks of a job array. The folder, this program and
yours must be on a file system that the nodes share. Slurm's own options go behind
--sbatch. A task that leaves no result is told by what Slurm says of it.`,
		Example: `  floodmark sweep --vary batch=1,2,4,8 --folder runs/batch -- python train.py --batch {batch}
  floodmark sweep --find-limit context=1024..131072 --step 1024 --folder runs/context -- python generate.py --length {context}
  floodmark sweep --vary context --lengths tokens.txt --folder runs/longest -- python train.py --length {context}
  floodmark sweep --vary width=1024,2048,4096 --device cuda:0 --folder runs/lab
  floodmark sweep --vary batch=1,2,4,8 --folder runs/slurm --on slurm --sbatch=--gres=gpu:1 -- python train.py --batch {batch}
  floodmark sweep --resume runs/batch`,
		RunE: func(cmd *cobra.Command, args []string) error { return s.sweep(cmd, o, args) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

func (o *sweepOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.vary, "vary", "the `dimension` and its values: batch=1,2,4,8")
	textFlag(f, &o.limit, "find-limit", "the `dimension` and the range of a search: context=1024..131072")
	textFlag(f, &o.step, "step", "`step` of the search; the boundary is found to within one (default: 1)")
	textFlag(f, &o.lengths, "lengths", "a `file` with one length a line; with --vary context the values are the largest and those that 99, 90 and 50 % do not exceed")
	textFlag(f, &o.order, "order", "given, ascending or `descending` (default: given; of lengths the worst first)")
	textFlag(f, &o.folder, "folder", "a new `folder` for the plan, the ledger and the measurements")
	textFlag(f, &o.resume, "resume", "the `folder` of a sweep that was begun")
	f.BoolVar(&o.retry, "retry", false, "with --resume: run again the values that were lost or failed for another reason than memory")
	textFlag(f, &o.on, "on", "`place`: slurm, where the values are tasks of a job array, or here (default: here; with --resume where it began)")
	textsFlag(f, &o.sbatch, "sbatch", "an `option` of sbatch, such as --gres=gpu:1; may be given several times")
	textFlag(f, &o.task, "task", "run one `value` of --resume and write its line")
	_ = f.MarkHidden("task")
	textFlag(f, &o.device, "device", "the lab's `device`, cuda:0; the flags that follow are those of measure")
	textFlag(f, &o.batch, "batch", "first `dimension` of the lab's input")
	textFlag(f, &o.context, "context", "second `dimension` of the lab's input")
	textFlag(f, &o.width, "width", "last `dimension` of the lab's input")
	textFlag(f, &o.dtype, "dtype", "`format` that the lab computes in")
	textFlag(f, &o.warmup, "warmup", "`passes` of the lab before the repetitions")
	textFlag(f, &o.repeats, "repeats", "`passes` of the lab that are measured")
	textFlag(f, &o.python, "python", "`interpreter` of the lab")
	f.BoolVar(&o.train, "train", false, "the lab trains")
	f.BoolVar(&o.noPhases, "no-phases", false, "delimit no phase of the program: the verifying run")
	textFlag(f, &o.steps, "steps", "delimit phases in the first `steps` of the optimizer only")
	f.DurationVar(&o.pollEvery, "poll", o.pollEvery, "`time` between two questions to Slurm's queue")
}

// sweep runs what is missing, and answers with all that is known, also when it
// was stopped.
func (s *session) sweep(cmd *cobra.Command, o *sweepOptions, args []string) error {
	if err := s.ready(); err != nil {
		return err
	}
	ledger, err := o.ledger(cmd, args)
	if err != nil {
		return err
	}
	s.outlive()
	ctx := cmd.Context()
	r := &runner{session: s, ledger: ledger}
	if o.task != "" {
		return r.task(ctx, o.task)
	}
	stopped := o.run(ctx, r)
	if impossible := (&impossibleError{}); errors.As(stopped, &impossible) && o.resume == "" && len(ledger.Points()) == 0 {
		return errors.Join(stopped, ledger.Discard())
	}
	var search *sweep.StoppedError
	if stopped != nil && !errors.As(stopped, &search) && ctx.Err() == nil {
		return stopped
	}
	document := floodmark.SweepRecord(ledger, s.tool)
	if err := s.answer(document); err != nil {
		return err
	}
	if len(document.Points) > 0 {
		plot := filepath.Join(ledger.Folder, "plot.svg")
		if err := replace(plot, func(w io.Writer) error { return report.SweepPlot(w, document) }); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return stopped
}

// run is the sweep here or on a cluster.
func (o *sweepOptions) run(ctx context.Context, r *runner) error {
	measure := r.measure
	if o.on == "slurm" {
		array := &slurm.Array{Ledger: r.ledger, Task: o.taskCommand(r), Options: o.sbatch, Poll: o.pollEvery, Grace: 3, Notify: r.session.progress}
		defer func() {
			if ctx.Err() != nil {
				r.session.offerCancel(array)
			}
		}()
		if r.ledger.Plan.Limit == nil {
			return array.Run(ctx, r.ledger.Plan.Values)
		}
		return r.ledger.FindLimitBy(ctx, func(ctx context.Context, value int64) error { return array.Run(ctx, []int64{value}) })
	}
	if r.ledger.Plan.Limit != nil {
		return r.ledger.FindLimit(ctx, measure, r.progress)
	}
	return r.ledger.Run(ctx, measure, r.progress)
}

// taskCommand runs one value, which follows it.
func (o *sweepOptions) taskCommand(r *runner) []string {
	words := []string{r.session.env.Executable, "sweep", "--resume", r.ledger.Folder}
	if o.retry {
		words = append(words, "--retry")
	}
	return append(words, "--task")
}

// ledger is a new folder, or one that was begun.
func (o *sweepOptions) ledger(cmd *cobra.Command, args []string) (*sweep.Ledger, error) {
	if at := cmd.ArgsLenAtDash(); at > 0 || at < 0 && len(args) > 0 {
		return nil, &usageError{err: fmt.Errorf("sweep takes no argument before --, and got %.80q", args[0]), hint: "write -- before the program"}
	}
	if o.on != "" && o.on != "slurm" && o.on != "here" {
		return nil, &usageError{err: fmt.Errorf("--on: %q is not known", o.on), hint: "--on slurm, or --on here for this machine"}
	}
	if o.resume != "" {
		if name := planned(cmd); name != "" {
			return nil, &usageError{err: fmt.Errorf("--%s is said by the plan of the sweep that goes on", name), hint: "a changed plan is another sweep: give it a folder of its own"}
		}
		if len(args) > 0 {
			return nil, &usageError{err: errors.New("the program is said by the plan of the sweep that goes on")}
		}
		folder, err := filepath.Abs(o.resume)
		if err != nil {
			return nil, err
		}
		ledger, err := sweep.Open(folder)
		if err != nil {
			return nil, err
		}
		// A sweep goes on where it began, unless somebody says otherwise.
		o.on = cmp.Or(o.on, ledger.Plan.On)
		if len(o.sbatch) == 0 {
			o.sbatch = ledger.Plan.Submit
		}
		if o.retry {
			ledger.Retry()
		}
		return ledger, nil
	}
	if o.retry {
		return nil, &usageError{err: errors.New("--retry runs values of a sweep again that was begun"), hint: "name its folder with --resume"}
	}
	if o.folder == "" {
		return nil, &usageError{err: errors.New("a sweep keeps its results in a folder, and none is named"), hint: "--folder runs/batch for a new one, --resume for one that was begun"}
	}
	plan, err := o.plan(args)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(o.folder)
	if err != nil {
		return nil, err
	}
	return sweep.Create(folder, plan)
}

// planned is a flag that was given and that the plan of a sweep decides: all but
// where it goes on.
func planned(cmd *cobra.Command) (name string) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains([]string{"resume", "retry", "on", "sbatch", "poll", "task"}, f.Name) {
			name = f.Name
		}
	})
	return name
}

func (o *sweepOptions) plan(args []string) (sweep.Plan, error) {
	p := sweep.Plan{Order: sweep.Order(o.order), Command: args, Policy: o.policy(), Submit: o.sbatch}
	if o.on != "here" {
		p.On = o.on
	}
	var err error
	if p.Directory, err = os.Getwd(); err != nil {
		return p, err
	}
	switch {
	case (o.vary == "") == (o.limit == ""):
		return p, &usageError{err: errors.New("a sweep varies one dimension: --vary or --find-limit names it"), hint: "--vary batch=1,2,4,8"}
	case o.limit != "":
		p.Dimension, p.Limit, err = o.search()
	default:
		p.Dimension, p.Values, err = o.values()
	}
	if err != nil {
		return p, err
	}
	if o.lengths != "" {
		if p.Values, p.Lengths, err = readLengths(o.lengths); err != nil {
			return p, err
		}
	}
	if p, err = p.Prepared(); err != nil {
		return p, &usageError{err: err}
	}
	if len(args) > 0 {
		if o.device != "" {
			return p, &usageError{err: errors.New("--device is for the lab, and there is a program behind --")}
		}
		if _, err := sweep.With(args, p.Dimension, 1); err != nil {
			return p, &usageError{err: err, hint: "write " + sweep.Placeholder(p.Dimension) + " among the program's arguments"}
		}
		return p, nil
	}
	p.Lab, err = o.lab(p.Dimension)
	return p, err
}

// policy is the conditions that a value's result depends on, beside the value.
func (o *sweepOptions) policy() map[string]string {
	p := map[string]string{}
	for name, value := range map[string]string{"warmup": o.warmup, "repeats": o.repeats, "steps": o.steps} {
		if value != "" {
			p[name] = value
		}
	}
	if o.noPhases {
		p["phases"] = "none"
	}
	return p
}

// values reads "batch=1,2,4,8"; with --lengths there are none.
func (o *sweepOptions) values() (string, []int64, error) {
	name, list, some := strings.Cut(o.vary, "=")
	if some == (o.lengths != "") || name == "" || strings.Contains(name, ",") {
		return "", nil, &usageError{err: fmt.Errorf("--vary %q does not name one dimension and its values", o.vary), hint: "--vary batch=1,2,4,8, or --vary context --lengths FILE"}
	}
	if !some {
		return name, nil, nil
	}
	if strings.Contains(list, "=") {
		return "", nil, &usageError{err: fmt.Errorf("--vary %q names two dimensions: exactly one is varied", o.vary), hint: "two changes at once cannot be told apart; run two sweeps"}
	}
	var values []int64
	for _, text := range strings.Split(list, ",") {
		n, err := count("--vary", strings.TrimSpace(text))
		if err != nil {
			return "", nil, err
		}
		values = append(values, n)
	}
	return name, values, nil
}

// search reads "context=1024..131072" and --step.
func (o *sweepOptions) search() (string, *sweep.Limit, error) {
	name, span, ok := strings.Cut(o.limit, "=")
	low, high, two := strings.Cut(span, "..")
	if !ok || !two || name == "" {
		return "", nil, &usageError{err: fmt.Errorf("--find-limit %q gives no range", o.limit), hint: "--find-limit context=1024..131072 --step 1024"}
	}
	l := &sweep.Limit{Step: 1}
	for _, end := range []struct {
		flag, text string
		into       *int64
	}{{"--find-limit", low, &l.Low}, {"--find-limit", high, &l.High}, {"--step", o.step, &l.Step}} {
		if end.text == "" && end.flag == "--step" {
			continue
		}
		n, err := count(end.flag, end.text)
		if err != nil {
			return "", nil, err
		}
		*end.into = n
	}
	return name, l, nil
}

func readLengths(path string) ([]int64, string, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer src.Close()
	values, samples, err := sweep.Lengths(path, source.Stream(src))
	return values, fmt.Sprintf("of %d lengths the largest, and what 99, 90 and 50 %% do not exceed", samples), err
}

// lab is the flags of measure for the lab; the dimension that is varied is
// added for each value.
func (o *sweepOptions) lab(dimension string) ([]string, error) {
	if o.device == "" {
		return nil, &usageError{err: errors.New("a sweep needs a program behind --, or a device for the lab"), hint: "floodmark sweep --vary batch=1,2,4 --folder runs/batch -- python train.py --batch {batch}"}
	}
	if dimension != "batch" && dimension != "context" && dimension != "width" {
		return nil, &usageError{err: fmt.Errorf("the lab has no dimension %q", dimension), hint: "it has batch, context and width"}
	}
	flags := []string{"--device", o.device}
	for _, f := range []struct{ name, value string }{{"batch", o.batch}, {"context", o.context}, {"width", o.width}, {"dtype", o.dtype}, {"warmup", o.warmup}, {"repeats", o.repeats}, {"python", o.python}} {
		if f.value == "" {
			continue
		}
		if f.name == dimension {
			return nil, &usageError{err: fmt.Errorf("--%s is what is varied", f.name)}
		}
		flags = append(flags, "--"+f.name, f.value)
	}
	if o.train {
		flags = append(flags, "--train")
	}
	return flags, nil
}

// replace writes a file that is made anew from the ledger each time.
func replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".plot-")
	if err != nil {
		return source.OfFile(path, err)
	}
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return source.OfFile(path, err)
}
