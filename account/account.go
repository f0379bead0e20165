package account

import "time"

// Term is something that bytes are held for.
type Term struct {
	ID       TermID
	Category Category
	Provenance
}

// Levels are the bytes of one moment, scope by scope. A scope that nobody read
// is the zero Figure, which is unknown.
type Levels struct {
	Requested, Allocated, Active, Reserved, Process, Device, Host Figure
}

// In is the level of one scope.
func (l Levels) In(s Scope) Figure {
	switch s {
	case Requested:
		return l.Requested
	case Allocated:
		return l.Allocated
	case Active:
		return l.Active
	case Reserved:
		return l.Reserved
	case Process:
		return l.Process
	case Device:
		return l.Device
	case Host:
		return l.Host
	}
	return Figure{}
}

// Set puts a figure in the scope that its provenance names.
func (l *Levels) Set(f Figure) {
	switch f.Scope {
	case Requested:
		l.Requested = f
	case Allocated:
		l.Allocated = f
	case Active:
		l.Active = f
	case Reserved:
		l.Reserved = f
	case Process:
		l.Process = f
	case Device:
		l.Device = f
	case Host:
		l.Host = f
	}
}

// Peak is the highest level of one scope in a phase. Peaks of two scopes may be
// two moments, so they are never subtracted. Moment is the index of an event
// in the timeline, or −1 where a counter kept the peak without its moment.
type Peak struct {
	Figure Figure
	Moment int64
}

// Share is what one term holds at the peak of its phase.
type Share struct {
	Term  int // index into Account.Terms
	Bytes Figure
}

// Input is what a phase processed, or was told to process. A nil dimension was
// not recorded; a configured value does not prove an observed one.
type Input struct {
	Name       string
	SHA256     string
	Configured map[string]int64
	Observed   map[string]int64
}

// Phase is one named interval of a run.
type Phase struct {
	ID         PhaseID
	Step       int // 1 is the first; 0 where steps mean nothing
	Micro      int // micro-batch of an accumulated step, from 1; 0 elsewhere
	Input      int // index into Account.Inputs, −1 for none
	Start, End Levels
	Peaks      []Peak  // at most one a scope; the scope is the figure's
	AtPeak     []Share // of allocated, or of the widest scope that was accounted for
	// AtProcess is the same where the process stands higher at another moment: the
	// allocator reserves more after the peak of what is allocated.
	AtProcess []Share
	Duration  time.Duration
	Failed    string // the error that ended it; its peaks are then lower bounds
}

// Peak is the peak of one scope; unknown where nobody recorded it.
func (p Phase) Peak(s Scope) Peak {
	for _, peak := range p.Peaks {
		if peak.Figure.Scope == s {
			return peak
		}
	}
	return Peak{Moment: -1}
}

// AtHighest is what the peak of the widest accounted scope is made of.
func (p Phase) AtHighest() []Share {
	if p.AtProcess != nil {
		return p.AtProcess
	}
	return p.AtPeak
}

// Warning is something that a reader of a result must be told.
type Warning struct {
	Code string // stable, lower_snake_case
	Text string // a sentence
}

// Subject says what an account is about.
type Subject string

const (
	// SubjectWorkload is somebody's own work; the zero Subject.
	SubjectWorkload Subject = ""
	// SubjectLab is the small network with which a machine's counters are tried.
	// It is no evidence for any workload.
	SubjectLab Subject = "lab"
)

// Account is what a class of equal ranks holds, phase by phase.
type Account struct {
	Subject  Subject
	Ranks    []int // the ranks that it speaks for; the first stands for them
	Device   int   // ordinal, −1 when it is not known which
	Terms    []Term
	Inputs   []Input
	Phases   []Phase
	Warnings []Warning
	Checks   []Check // by which the software refuses; empty where it checks nothing
}

// Highest is what the account needs in one scope over all its phases, of which no two
// happen together: the highest low and the highest high, which may be those of two,
// and unknown as soon as one is.
func (a Account) Highest(s Scope) Figure {
	var peaks []Figure
	for _, phase := range a.Phases {
		peaks = append(peaks, phase.Peak(s).Figure)
	}
	return Highest(Provenance{Origin: Calculated, Scope: s}, peaks...)
}

// Check is a rule by which software stops: it must have what it needs.
type Check struct {
	Phase PhaseID
	Term  TermID
	// Need and Have are bytes, or the same count in both. It certainly passes where
	// the high of Need is within the low of Have, and certainly fails where the low
	// of Need is above the high of Have.
	Need, Have Figure
	Rule       string // a sentence, for where it fails
	Remedy     string // what would let it pass, with its direction
}

// Formula is a rule by which bytes are calculated.
type Formula struct {
	_ [0]func() // not compared: a comparison for each length of list weighs as much as the lists

	ID     string // what a figure's Counter names: "kv.attention"
	Rule   string // in words and symbols
	Short  string // the same in at most 60 characters, for a table
	Source string // a public document or file, at a version
	Worked string // one worked number
}
