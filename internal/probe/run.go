package probe

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"floodmark/device"
	"floodmark/internal/source"
	"floodmark/measurement"
)

// Settings are what a program is measured with.
type Settings struct {
	NoPhases bool   // the verifying run
	Steps    int    // delimit phases in so many optimizer steps; 0 for all
	Snapshot string // folder for a snapshot when memory runs out
	Budget   int64  // stop where so many bytes cannot hold; 0 for none
	First    string // save, evaluation: run them once after the first step
	Trial    measurement.Trial
	Outside  device.Reader // nil where nobody can be asked
}

// variables are the settings as the Python file takes them.
func (s Settings) variables() map[string]string {
	values := map[string]string{}
	set := func(name, value string, wanted bool) {
		if wanted {
			values[name] = value
		}
	}
	set(EnvPhases, "0", s.NoPhases)
	set(EnvSteps, fmt.Sprint(s.Steps), s.Steps > 0)
	set(EnvSnapshot, s.Snapshot, s.Snapshot != "")
	set(EnvBudget, fmt.Sprint(s.Budget), s.Budget > 0)
	set(EnvFirst, s.First, s.First != "")
	return values
}

// settle makes the folder for snapshots one that a program finds wherever it
// goes.
func (s *Settings) settle() error {
	if s.Snapshot == "" {
		return nil
	}
	info, err := os.Stat(s.Snapshot)
	if err == nil && !info.IsDir() {
		err = errors.New("is not a folder")
	}
	if err != nil {
		return source.OfFile(s.Snapshot, err)
	}
	s.Snapshot, err = filepath.Abs(s.Snapshot)
	return err
}

// Measure runs a program, unchanged, with the probe in its Python processes, and
// gives what was read of it, also where it failed. The spool keeps the raw
// readings. An error is a program that could not be started.
func Measure(spool *Spool, p Program, s Settings) (*measurement.Measurement, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	p.Env = spool.Injected(p.Env, s.variables())
	m, _, err := observe(spool, p, s.Outside, measurement.Program)
	if err != nil {
		return nil, err
	}
	if len(m.Ranks) == 0 || nothing(m.Ranks) {
		m.Lost(unheard(p.Args))
	}
	if s.NoPhases {
		m.Policy.Instrumented = false
	}
	m.Trial = s.Trial
	m.Check()
	return m, nil
}

// nothing reports that no process said anything.
func nothing(ranks []measurement.Rank) bool {
	for _, r := range ranks {
		if r.Status != measurement.RankMissing {
			return false
		}
	}
	return true
}

// unheard says why no Python process reported.
func unheard(args []string) string {
	if why := Deaf(args); why != "" {
		return "no process reported: " + why + ", so the probe did not start; leave that option away to measure"
	}
	return "no process reported: the program starts no Python, or one that ignores PYTHONPATH (-I, -E), imports no site (-S), or runs in a container or on a host that does not see this folder"
}

// observe runs a program with the sampler beside it and merges what was written.
func observe(spool *Spool, p Program, outside device.Reader, subject measurement.Subject) (*measurement.Measurement, []*measurement.Stream, error) {
	var sampler *Sampler
	if outside != nil && len(outside.Devices()) > 0 {
		sampler = Sample(outside, SampleInterval)
	}
	ended, err := p.Run()
	if sampler != nil {
		sampler.Stop()
	}
	if err != nil {
		return nil, nil, err
	}
	streams, err := spool.Read()
	if err != nil {
		return nil, nil, err
	}
	m := measurement.Merge(subject, streams, Ranks(p.Args))
	m.Outcome = measurement.Outcome{Ended: true, Status: ended.Status, Signal: ended.Signal, Duration: ended.Duration, Interrupted: ended.Interrupted}
	if sampler != nil {
		m.Policy.SampleInterval = SampleInterval
		sampler.Attach(m)
	}
	return m, streams, nil
}

// Lab is what the lab's network is made of and how often it runs.
type Lab struct {
	Python                string // the interpreter
	Device                string
	Batch, Context, Width int64
	Dtype                 string
	Warmup, Repeats       int
	Train                 bool
}

func (l Lab) args(script string) []string {
	args := []string{l.Python, script, "lab", "--device", l.Device, "--batch", fmt.Sprint(l.Batch), "--context", fmt.Sprint(l.Context),
		"--width", fmt.Sprint(l.Width), "--dtype", l.Dtype, "--warmup", fmt.Sprint(l.Warmup), "--repeats", fmt.Sprint(l.Repeats)}
	if l.Train {
		args = append(args, "--train")
	}
	return args
}

// ImpossibleError is a machine on which nothing can be measured: PyTorch or the
// device is missing.
type ImpossibleError struct {
	Missing string // PyTorch, or a GPU
	Detail  string
}

func (e *ImpossibleError) Error() string {
	text := "nothing can be measured here: " + e.Missing + " is missing"
	if detail := strings.TrimPrefix(e.Detail, e.Missing+" is missing: "); detail != "" {
		text += " (" + detail + ")"
	}
	return text
}

// MeasureLab runs the lab in a process of its own. It never runs on a CPU.
func MeasureLab(spool *Spool, l Lab, environment []string, outside device.Reader) (*measurement.Measurement, error) {
	var complaint tail
	p := Program{Args: l.args(spool.Script()), Env: spool.Observed(environment), Stdout: &complaint, Stderr: &complaint}
	m, streams, err := observe(spool, p, outside, measurement.Lab)
	var start *NotStartedError
	if errors.As(err, &start) {
		return nil, &ImpossibleError{Missing: "PyTorch", Detail: "no Python to run it: " + err.Error()}
	}
	if err != nil {
		return nil, err
	}
	if err := possible(m, streams, complaint.String()); err != nil {
		return nil, err
	}
	m.Check()
	return m, nil
}

// possible refuses a run in which nothing was measured.
func possible(m *measurement.Measurement, streams []*measurement.Stream, complaint string) error {
	if m.Outcome.Interrupted {
		return nil // somebody stopped it: what was read until then stays
	}
	for _, s := range streams {
		if s.Impossible == nil {
			continue
		}
		missing := "a GPU"
		if s.Impossible.Missing == "pytorch" {
			missing = "PyTorch"
		}
		return &ImpossibleError{missing, s.Impossible.Detail}
	}
	for _, p := range m.Phases {
		if p.Device >= 0 {
			return nil
		}
	}
	how := fmt.Sprintf("it ended with status %d", m.Outcome.Status)
	if m.Outcome.Signal != "" {
		how = "it died of " + m.Outcome.Signal
	}
	detail := strings.TrimSpace(complaint)
	if detail != "" {
		how += ": " + detail
	}
	if m.Environment.PyTorch == "" {
		return &ImpossibleError{"a PyTorch that can be loaded", how}
	}
	return &ImpossibleError{"a GPU that can be used", how}
}

// tail keeps the last line of what a program printed.
type tail struct{ text []byte }

const mostTail = 4 << 10

func (t *tail) Write(data []byte) (int, error) {
	t.text = append(t.text, data...)
	if n := len(t.text); n > mostTail {
		t.text = append(t.text[:0], t.text[n-mostTail:]...)
	}
	return len(data), nil
}

func (t *tail) String() string {
	text := strings.TrimSpace(string(t.text))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Interpreter is the Python that a person would get by that name: the first of
// the names that PATH has.
func Interpreter(names ...string) string {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return name
		}
	}
	return names[0]
}
