package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/internal/report"
	"floodmark/measurement"
	"floodmark/record"
)

// measureOptions are the flags of the lab, and those of a program.
type measureOptions struct {
	lab                   floodmark.LabRequest
	batch, context, width int

	program floodmark.ProgramRequest
	budget  string
	first   []string
	trial   []string
	quiet   bool
}

// labFlags and programFlags are told apart, because each means nothing to the
// other.
func labFlags() []string {
	return []string{"device", "batch", "context", "width", "dtype", "warmup", "repeats", "train", "python"}
}

func programFlags() []string {
	return []string{"no-phases", "steps", "snapshot-on-oom", "budget", "first", "trial", "quiet"}
}

func newMeasure(s *session) *cobra.Command {
	o := &measureOptions{batch: 1, context: 16, width: 64, lab: floodmark.LabRequest{Dtype: "float32", Warmup: 1, Repeats: 2}}
	cmd := &cobra.Command{
		Use:   "measure --device DEVICE | measure -- PROGRAM [ARGUMENT…]",
		Short: "The lab network, phase by phase; or your own program",
		Long: `Measures on this machine, and needs PyTorch and a GPU that you may use: each
phase is delimited by synchronisation and has six readings a device, allocated
and reserved at its start, peak and end. What was not read is shown as —.

With --device: the lab, a small dense network with synthetic inputs. Its batch,
context and width are dimensions of tensors; context is no context of a language
model, there is no KV cache. It shows that measuring works here. It says nothing
of what a card can hold of your model, and is no evidence for a workload.

After --: your own program, unchanged, also under torchrun, accelerate,
deepspeed, srun or mpirun. Its input, output and exit status stay its own; the
report goes to standard error. Python processes load the probe by PYTHONPATH, so
not with -I, -E or -S; they write to a folder under TMPDIR, which ranks on other
hosts must share. Delimiting phases can change how work overlaps: such a run
locates a peak, and one with --no-phases verifies it.`,
		Example: "  floodmark measure --device cuda:0 --batch 2 --context 128 --width 1024 --dtype float32 --warmup 3 --repeats 5 --output lab.json\n" +
			"  floodmark measure --output run.json -- python train.py\n  floodmark measure --no-phases --output verify.json -- torchrun --nproc_per_node 2 train.py",
		Args: measureArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() < 0 {
				return s.measureLab(o)
			}
			return s.measureProgram(o, args)
		},
	}
	o.addFlags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("dtype", cobra.FixedCompletions(floodmark.LabDtypes(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (o *measureOptions) addFlags(f *pflag.FlagSet) {
	textFlag(f, &o.lab.Device, "device", "the lab's `device`, cuda:0; HIP builds of PyTorch call theirs cuda too")
	numberFlag(f, &o.batch, "batch", "first `dimension` of the lab's input")
	numberFlag(f, &o.context, "context", "second `dimension` of the lab's input; no context of a language model")
	numberFlag(f, &o.width, "width", "last `dimension` of the lab's input, and of its layers")
	textFlag(f, &o.lab.Dtype, "dtype", "`format` that the lab computes in: float32, float16 or bfloat16")
	numberFlag(f, &o.lab.Warmup, "warmup", "`passes` of the lab before the repetitions; 0 is allowed")
	numberFlag(f, &o.lab.Repeats, "repeats", "`passes` of the lab that are measured, in one process")
	f.BoolVar(&o.lab.Train, "train", false, "the lab trains: forward, loss, backward, optimizer_step")
	textFlag(f, &o.lab.Python, "python", "`interpreter` of the lab (default: the first python3 of PATH)")
	f.BoolVar(&o.program.NoPhases, "no-phases", false, "the verifying run: delimit no phase, read the peaks at the end")
	numberFlag(f, &o.program.Steps, "steps", "delimit phases in the first `steps` of the optimizer only (0: in all)")
	textFlag(f, &o.program.Snapshot, "snapshot-on-oom", "record allocations, and write a snapshot into this existing `folder` when memory runs out")
	textFlag(f, &o.budget, "budget", "`bytes` on each device (80GiB): stop as soon as they cannot hold")
	textsFlag(f, &o.first, "first", "save or evaluation: a Trainer does it `once` after its first step")
	textsFlag(f, &o.trial, "trial", "which work this is, as `field`=value: model, revision, code, input_set or seed; may be given several times")
	f.BoolVar(&o.quiet, "quiet", false, "print no report after the program; an error still is one")
}

// measureArgs takes a program behind -- and nothing before it, and no flags of
// the other way to measure.
func measureArgs(cmd *cobra.Command, args []string) error {
	at := cmd.ArgsLenAtDash()
	wrong, what := programFlags(), "is for a program that stands behind --"
	switch {
	case at < 0 && len(args) > 0, at > 0:
		return &usageError{err: fmt.Errorf("measure takes no argument before --, and got %.80q", args[0]), hint: "write -- before the program: floodmark measure -- " + args[0]}
	case at == 0 && (len(args) == 0 || args[0] == ""):
		return &usageError{err: errors.New("no program stands behind --"), hint: hintEmpty}
	case at == 0:
		wrong, what = labFlags(), "is for the lab, and there is a program behind --"
	case !cmd.Flags().Changed("device"):
		return &usageError{err: errors.New("measure needs a device for the lab, or a program behind --"),
			hint: "floodmark measure --device cuda:0, on a device that is yours to use; or floodmark measure -- python train.py"}
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return &usageError{err: fmt.Errorf("--%s %s", name, what)}
		}
	}
	return nil
}

// measureLab runs the lab and prints its record.
func (s *session) measureLab(o *measureOptions) error {
	o.lab.Batch, o.lab.Context, o.lab.Width = int64(o.batch), int64(o.context), int64(o.width)
	o.lab.Environment = s.env.Environ
	if err := s.ready(); err != nil {
		return err
	}
	s.outlive()
	reserved, err := s.reserve(floodmark.Pending(measurement.Lab, s.tool))
	if err != nil {
		return err
	}
	m, err := floodmark.MeasureLab(o.lab)
	if err != nil {
		reserved.Discard()
		return err
	}
	document := m.Record(s.tool)
	if err := reserved.Write(document); err != nil {
		return fmt.Errorf("%w; the raw readings are in %s", err, m.Readings())
	}
	m.Close()
	if err := s.show(s.out, document, s.env.Terminal); err != nil {
		return err
	}
	switch outcome := m.Outcome(); {
	case outcome.Interrupted:
		return errInterrupted
	case outcome.Status != 0:
		return &verdictError{exitError}
	}
	return nil
}

// measureProgram runs a program; the report goes to standard error, because
// standard output is the program's.
func (s *session) measureProgram(o *measureOptions, args []string) error {
	r := o.program
	r.Args, r.Environment, r.Stdin, r.Stdout, r.Stderr = args, s.env.Environ, s.env.Stdin, s.env.Stdout, s.env.Stderr
	var err error
	if r.First, err = firstOf(o.first); err != nil {
		return err
	}
	if r.Trial, err = trialOf(o.trial); err != nil {
		return err
	}
	if o.budget != "" {
		if r.Budget, err = memorySize(o.budget); err != nil {
			return ofFlag("--budget", err)
		}
	}
	status, err := s.run(r, o.quiet)
	if err != nil {
		return &ownError{err}
	}
	if status != 0 {
		return &verdictError{status}
	}
	return nil
}

// firstOf is what a Trainer does once after its first step.
func firstOf(words []string) (string, error) {
	list := ""
	for _, w := range words {
		if w != "save" && w != "evaluation" {
			return "", ofFlag("--first", fmt.Errorf("%.80q is neither save nor evaluation", w))
		}
		if list != "" {
			list += ","
		}
		list += w
	}
	return list, nil
}

// trialOf reads which work is measured.
func trialOf(words []string) (measurement.Trial, error) {
	var t measurement.Trial
	fields := map[string]*string{"model": &t.Model, "revision": &t.Revision, "code": &t.Code, "input_set": &t.InputSet}
	for _, w := range words {
		name, value, found := strings.Cut(w, "=")
		switch {
		case !found || value == "":
			return t, ofFlag("--trial", fmt.Errorf("%.80q is not field=value", w))
		case name == "seed":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return t, ofFlag("--trial", fmt.Errorf("the seed %.80q is not a whole number", value))
			}
			t.Seed = &n
		case fields[name] == nil:
			return t, ofFlag("--trial", fmt.Errorf("%.80q is none of model, revision, code, input_set, seed", name))
		default:
			*fields[name] = value
		}
	}
	return t, nil
}

func (s *session) run(r floodmark.ProgramRequest, quiet bool) (status int, err error) {
	if err := cmp.Or(s.ready(), floodmark.Startable(r.Args[0])); err != nil {
		return 0, err
	}
	s.outlive()
	reserved, err := s.reserve(floodmark.Pending(measurement.Program, s.tool))
	if err != nil {
		return 0, err
	}
	m, err := floodmark.Measure(r)
	if err != nil {
		reserved.Discard()
		return 0, err
	}
	document := m.Record(s.tool)
	if err := reserved.Write(document); err != nil {
		return 0, fmt.Errorf("%w; the program ended with status %d, and the raw readings are in %s", err, m.Outcome().Status, m.Readings())
	}
	m.Close()
	if quiet {
		return m.Outcome().Status, nil
	}
	return m.Outcome().Status, s.show(s.env.Stderr, document, s.env.ErrTerminal)
}

// show prints a record as a person or a program reads it.
func (s *session) show(w io.Writer, document any, terminal bool) error {
	if s.json {
		return record.Encode(w, document)
	}
	style, err := s.style()
	if err != nil {
		return err
	}
	style.Color = terminal && s.colors()
	return report.Text(w, document, style)
}

// reserve takes the name that --output says, before anything runs.
func (s *session) reserve(first any) (*result, error) {
	if s.output == "" {
		return &result{}, nil
	}
	r, err := record.Reserve(s.output, first)
	if err != nil {
		return nil, err
	}
	return &result{r}, nil
}

// result is the file of --output; nothing where none was asked for.
type result struct{ file *record.Reservation }

func (r *result) Write(document any) error {
	if r.file == nil {
		return nil
	}
	return r.file.Write(document)
}

func (r *result) Discard() {
	if r.file != nil {
		r.file.Discard()
	}
}

// ownError is a failure of measure itself beside a program, whose exit statuses
// are all but these.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }
func (e *ownError) Unwrap() error { return e.err }

// status is 125, or what a shell says of a program that it cannot start.
func (e *ownError) status() int {
	var start *floodmark.NotStartedError
	if errors.As(e.err, &start) {
		return start.Status
	}
	if _, exit := classify(e.err); exit == exitUsage {
		return exit
	}
	return exitOwnFailure
}
