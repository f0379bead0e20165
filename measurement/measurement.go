package measurement

import (
	"slices"
	"time"

	"floodmark/account"
)

// Subject says what ran.
type Subject string

const (
	// Lab is the small network of the lab. It shows how a machine measures, and
	// is no evidence for any workload.
	Lab Subject = "lab"
	// Program is a program of the user's own.
	Program Subject = "program"
)

// Measurement is one run: what was read of it, and how it ended.
type Measurement struct {
	Subject     Subject
	Trial       Trial
	Environment Environment
	Policy      Policy
	Ranks       []Rank
	Phases      []Phase // in the order in which they began, rank by rank
	Outcome     Outcome
	Warnings    []account.Warning
}

// Trial says which work was measured; what is empty was not recorded.
type Trial struct {
	Model, Revision, Code, InputSet string
	Seed                            *int64
}

// lacks names what of a trial was not recorded.
func (t Trial) lacks() []string {
	var list []string
	for _, field := range []struct {
		name  string
		known bool
	}{{"model or code", t.Model != "" || t.Code != ""}, {"revision", t.Revision != ""}, {"input set", t.InputSet != ""}, {"seed", t.Seed != nil}} {
		if !field.known {
			list = append(list, field.name)
		}
	}
	return list
}

// Environment is what the measured process said of itself. Empty is not known.
type Environment struct {
	Driver, Python, PyTorch string
	Backend                 string // cuda 12.8, hip 6.2
	Allocator               string // native, cudaMallocAsync
	Settings                string // PYTORCH_ALLOC_CONF as it was set
	Extensions              []Version
	Devices                 []Device
}

// Version is one extension and its version.
type Version struct{ Name, Version string }

// Device is one device that a process could use.
type Device struct {
	Index      int
	Name, UUID string
	PCI        string // 00000000:01:00.0, in lower case
	TotalBytes *int64 // as the runtime reports it
}

// Policy is the conditions of a series. Runs of two policies are never pooled.
type Policy struct {
	// Instrumented is true where phases were delimited by synchronisation, which
	// can change the usual overlap: such a run locates, and one without verifies.
	Instrumented bool
	Protocol     string // the order of operations around a phase
	Warmup       *int   // passes before the repetitions; 0 is explicit
	Repeats      *int
	RepeatKind   string // in_process: later passes benefit from the first; process
	EmptyCache   *bool  // torch.cuda.empty_cache between repetitions
	Order        int    // which run of its series this is, from 1
	// SampleInterval is the time between two samples; 0 where none were taken.
	SampleInterval time.Duration
}

// Rank is one process of the run.
type Rank struct {
	Rank    int // −1 for a process that has none, such as a launcher
	World   int // how many ranks there are; 0 when it is not known
	PID     int // as the process sees itself; 0 when it never started
	Host    string
	Status  RankStatus
	Dropped int64 // readings that could not be written
}

// RankStatus says how much of a process was seen.
type RankStatus string

const (
	RankEnded    RankStatus = "ended"    // it said goodbye
	RankCut      RankStatus = "cut"      // its readings stop: killed, or it left without goodbye
	RankReplaced RankStatus = "replaced" // it went on as another program, by exec
	RankMissing  RankStatus = "missing"  // it never said anything
)

// Counters are the two counters of the allocator, of one moment or both peaks,
// and what lies outside it. Nil was not read.
type Counters struct {
	Allocated, Reserved *int64
	// Device is what was in use on the device whoever held it, and Process what
	// this process held, both of the same checkpoint.
	Device, Process *int64
}

// Outside is what was in use on the device outside this process's allocator, at
// one checkpoint: contexts, libraries, other processes. It is a difference of
// two readings of that moment, and nothing says whose it is.
func (c Counters) Outside() (int64, bool) {
	if c.Device == nil || c.Reserved == nil || *c.Device < *c.Reserved {
		return 0, false
	}
	return *c.Device - *c.Reserved, true
}

// Status says how a phase ended.
type Status string

const (
	Completed  Status = "completed"
	Failed     Status = "failed"     // an error was raised in it
	Unfinished Status = "unfinished" // the process ended within it
	// Missing is a phase that was expected and that no hook saw.
	Missing Status = "missing"
)

// Phase is one phase on one device of one rank.
type Phase struct {
	ID        account.PhaseID // empty where the program's own name is none of ours
	Name      string          // as the program or the hook calls it
	Step      int             // 1 is the first; 0 where steps mean nothing
	Pass      string          // first, warmup or repeat in the lab
	Nested    bool            // within another phase
	Rank      int             // −1 in a process without a rank
	Process   int             // index into Measurement.Ranks
	Device    int             // ordinal; −1 where the phase ran on none
	Input     *account.Input  // nil where nothing was said of it
	Shapes    []Shape         // tensors as they were processed
	Truncated *int64          // tokens that preparing the inputs cut off
	Start     Counters
	Peak      Counters
	End       Counters
	Sampled   Sampled
	Began     int64 // nanoseconds of the machine's monotonic clock
	Ended     int64 // the same; the last line of its process where it did not end
	Duration  time.Duration
	Timed     bool // the duration was measured
	Status    Status
	Inferred  bool // its boundaries were concluded from other events
	// Note says why a counter was not read, or why the phase is inferred or missing.
	Note  string
	Error string
	// Async is a peak under cudaMallocAsync, where the reserved peak can combine
	// the highs of two pools and is an upper bound.
	Async  bool
	Result Result
}

// Shape is one tensor that a phase was given.
type Shape struct {
	Name   string
	Shape  []int64
	Format string
}

// Result is what tells whether a run computed the same thing: empty where
// it was not seen.
type Result struct {
	Loss   string // as Python prints it: it can be nan
	SHA256 string // of the output's bytes
}

// Sampled are the highest samples from outside while a phase ran. They are lower
// bounds: a peak between two samples goes unseen.
type Sampled struct {
	Device, Process *int64
	Count           int
	Interval        time.Duration
	// Why says why the process has no sample though the device has.
	Why string
}

// Outcome is how the program ended.
type Outcome struct {
	Ended    bool
	Status   int    // exit status as a shell sees it: 128+n on a signal
	Signal   string // empty where it ended by itself
	Duration time.Duration
	// Interrupted is true where the measuring was asked to stop.
	Interrupted bool
}

// Complete reports a run of which every phase completed and every rank was seen
// to its end.
func (m *Measurement) Complete() bool {
	for i, r := range m.Ranks {
		if m.measured(i) && r.Status != RankEnded && r.Status != RankReplaced {
			return false
		}
	}
	for _, p := range m.Phases {
		if p.Status != Completed {
			return false
		}
	}
	return m.Outcome.Ended && m.Outcome.Status == 0 && !m.Outcome.Interrupted && len(m.Phases) > 0
}

// PhaseNamed is the phase of that name; empty where it is none of ours.
func PhaseNamed(name string) account.PhaseID {
	if slices.Contains(account.Phases(), account.PhaseID(name)) {
		return account.PhaseID(name)
	}
	return ""
}
