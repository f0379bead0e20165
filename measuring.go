package floodmark

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"floodmark/device/machine"
	"floodmark/dtype"
	"floodmark/internal/probe"
	"floodmark/measurement"
	"floodmark/record"
)

// ProgramRequest is a program to be measured, unchanged. Its streams are its
// own.
type ProgramRequest struct {
	Args           []string
	Environment    []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	Trial    measurement.Trial
	NoPhases bool   // the verifying run: no phase is delimited
	Steps    int    // delimit phases in so many optimizer steps; 0 for all of them
	Snapshot string // folder for a memory snapshot when memory runs out
	Budget   int64  // bytes on each device; the run stops where they cannot hold; 0 for none
	First    string // "save", "evaluation" or both: done once after the first step
}

// LabRequest is the small dense network of the lab. Context is a dimension of
// its input, and no context of a language model.
type LabRequest struct {
	Python                string // the interpreter; empty for the first python of PATH
	Environment           []string
	Device                string // cuda:0; it is always named
	Batch, Context, Width int64
	Dtype                 string
	Warmup, Repeats       int
	Train                 bool
}

// ImpossibleError is a machine on which nothing can be measured: it says whether
// PyTorch or the GPU is missing.
type ImpossibleError = probe.ImpossibleError

// NotStartedError is a program that could not be started; its status is 126 or
// 127, as a shell has it.
type NotStartedError = probe.NotStartedError

// Measured is a run that was measured, whole or in part.
type Measured struct {
	measurementEvidence
	spool *probe.Spool
}

// Outcome is how the run ended.
func (m *Measured) Outcome() measurement.Outcome { return m.measurement.Outcome }

// Close removes the raw readings.
func (m *Measured) Close() { m.spool.Remove() }

// Readings is the folder of the raw readings, a stream a process, until Close
// removes it.
func (m *Measured) Readings() string { return m.spool.Streams() }

// Startable checks that a program can be started, before anything is written
// for it.
func Startable(name string) error { return probe.Startable(name) }

// Measure runs a program with the probe in its Python processes and the devices
// sampled from outside. A program that fails is measured as far as it came; an
// error is a program that could not be started.
func Measure(r ProgramRequest) (*Measured, error) {
	spool, err := probe.NewSpool()
	if err != nil {
		return nil, fmt.Errorf("making a folder for the readings: %w", err)
	}
	cards := machine.Open(context.Background())
	defer cards.Close()
	program := probe.Program{Args: r.Args, Env: r.Environment, Stdin: r.Stdin, Stdout: r.Stdout, Stderr: r.Stderr}
	m, err := probe.Measure(spool, program, probe.Settings{NoPhases: r.NoPhases, Steps: r.Steps, Snapshot: r.Snapshot, Budget: r.Budget, First: r.First, Trial: r.Trial, Outside: cards})
	if err != nil {
		spool.Remove()
		return nil, err
	}
	return &Measured{measurementEvidence{m}, spool}, nil
}

// reDevice is a device of torch.cuda, which also names those of HIP builds.
var reDevice = regexp.MustCompile(`^cuda(:[0-9]{1,4})?$`)

// MeasureLab runs the lab's network on a device. Without PyTorch or that device
// it is an [ImpossibleError], and it never runs on a CPU.
func MeasureLab(r LabRequest) (*Measured, error) {
	if err := r.check(); err != nil {
		return nil, &SettingsError{err}
	}
	spool, err := probe.NewSpool()
	if err != nil {
		return nil, fmt.Errorf("making a folder for the readings: %w", err)
	}
	if r.Python == "" {
		r.Python = probe.Interpreter("python3", "python")
	}
	cards := machine.Open(context.Background())
	defer cards.Close()
	m, err := probe.MeasureLab(spool, probe.Lab{Python: r.Python, Device: r.Device, Batch: r.Batch, Context: r.Context, Width: r.Width,
		Dtype: r.Dtype, Warmup: r.Warmup, Repeats: r.Repeats, Train: r.Train}, r.Environment, cards)
	if err != nil {
		spool.Remove()
		return nil, err
	}
	return &Measured{measurementEvidence{m}, spool}, nil
}

// LabDtypes lists the formats that the lab computes in, as PyTorch names them.
func LabDtypes() []string { return []string{"float32", "float16", "bfloat16"} }

// check refuses what no lab can run.
func (r LabRequest) check() error {
	switch {
	case r.Device == "":
		return fmt.Errorf("no device is named: use one that is yours to use (--device cuda:0)")
	case r.Device == "cpu":
		return fmt.Errorf("the device cpu is no GPU: a run on a CPU says nothing about one")
	case !reDevice.MatchString(r.Device):
		return fmt.Errorf("%.80q is no device such as cuda:0", r.Device)
	case r.Batch < 1 || r.Context < 1 || r.Width < 1:
		return fmt.Errorf("batch %d, context %d and width %d must be at least 1", r.Batch, r.Context, r.Width)
	case r.Warmup < 0 || r.Repeats < 1:
		return fmt.Errorf("%d warm-up passes and %d repetitions: at least 0 and 1 are needed", r.Warmup, r.Repeats)
	}
	for _, name := range LabDtypes() {
		if r.Dtype == name {
			return nil
		}
	}
	if _, known := dtype.Parse(r.Dtype); known {
		return fmt.Errorf("the lab does not compute in %s, only in %s", r.Dtype, strings.Join(LabDtypes(), ", "))
	}
	return fmt.Errorf("%.80q is no format of PyTorch; the lab computes in %s", r.Dtype, strings.Join(LabDtypes(), ", "))
}

// Pending is the record of a run that is not over: it takes the name of the
// result, and stays under it if the run is killed with its measuring.
func Pending(subject measurement.Subject, tool record.Tool) any {
	m := &measurement.Measurement{Subject: subject, Policy: measurement.Policy{RepeatKind: "in_process", Order: 1}}
	m.Lost("the run went on when this was written, and nothing was read: if it is over, the measuring was killed before it could write its readings, which are under " + probe.SpoolPattern())
	return measurementEvidence{m}.Record(tool)
}
