package floodmark

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/measurement"
	"floodmark/record"
	"floodmark/timeline"
)

// ErrNotCalibrated says that evidence cannot take the place of an assumption.
var ErrNotCalibrated = errors.New("only a measurement of a program that completed, in which what the process holds was read, can calibrate an estimate")

// calibration is what a run held outside of its allocator, and what it is true of:
// that workload on that card. Anything else is estimated as without it.
type calibration struct {
	outside  account.Figure
	settings []record.NamedSetting
	card     string
}

// outsideTerms are the terms that one observation of a process stands for.
func outsideTerms() []account.TermID {
	return []account.TermID{account.TermContext, account.TermCommunication, account.TermGraphPools}
}

// Calibrated is the request with what a run held outside of its allocator in the
// place of intervals that were measured elsewhere: for the version, the card and the
// shape of that run only. It refuses a run of another card or another shape.
func (r Request) Calibrated(e Evidence, name string) (Request, error) {
	m, ok := measured(e, record.Tool{})
	if !ok || m.Subject != string(measurement.Program) || failed(m) != "" {
		return r, ErrNotCalibrated
	}
	if name := r.Workload.Engine.Name; slices.Contains([]string{"vllm", "llama.cpp", "ollama"}, name) {
		return r, &SettingsError{fmt.Errorf("%s sizes its buffers by rules of its own: floodmark explain LOG --against this estimate sets the two side by side", name)}
	}
	if err := r.ofRun(m); err != nil {
		return r, err
	}
	outside, checkpoints := ownOutside(m)
	if checkpoints == 0 {
		return r, ErrNotCalibrated
	}
	if has, known := budget(*r.Card, r.Platform).Capacity.High(); known && outside.Low() > has {
		return r, &SettingsError{fmt.Errorf("%s says that a process held %s outside of its allocator, and the card has at most %s: its readings are of another card, or not of one", name, amountOf(outside), bytesize.Format(has, bytesize.GiB))}
	}
	outside = outside.As(account.Provenance{Origin: account.Observed, Scope: account.Process, Counter: "process − reserved", Source: name})
	r.calibration = &calibration{outside: outside, card: r.Card.Name}
	r.Warnings = append(slices.Clone(r.Warnings), account.Warning{Code: "calibrated", Text: fmt.Sprintf(
		"context, communication and graph pools are what %s held outside of its allocator, %s over %s of it, for %s and this shape only; nothing else was taken from it",
		name, amountOf(outside), checkpointsText(checkpoints), runWords(m))})
	if len(ranShape(m)) == 0 {
		r.Warnings = append(r.Warnings, account.Warning{Code: "shape_not_recorded", Text: name + " does not say with which sizes it ran: that they are these is an assumption of yours"})
	}
	return r, nil
}

// ofRun refuses a request whose card, ranks or sizes are not those of a run.
func (r Request) ofRun(m *record.Measurement) error {
	if r.Card == nil {
		return &SettingsError{errors.New("a calibration is of one card: name it")}
	}
	for _, d := range m.Environment.Devices {
		if d.Name != nil && !sameCardName(*d.Name, r.Card.Name) {
			return &SettingsError{fmt.Errorf("the run was on %s, and the estimate is for %s: what lies outside the allocator differs", *d.Name, r.Card.Label())}
		}
	}
	ranks := map[string]bool{}
	for _, p := range m.Phases {
		ranks[orNil(p.Rank)] = true
	}
	if n := r.Workload.Mesh.Ranks(); n != len(ranks) {
		return &SettingsError{fmt.Errorf("the run has %d ranks and the layout %d", len(ranks), n)}
	}
	ran := ranShape(m)
	for _, in := range r.Workload.Inputs {
		for _, d := range slices.Sorted(maps.Keys(in.Dimensions)) {
			if n, has := ran[string(d)]; has && n != in.Dimensions[d] {
				return &SettingsError{fmt.Errorf("%s was %d in the run and is %d here: an observation holds for its own shape", spacedTerm(string(d)), n, in.Dimensions[d])}
			}
		}
	}
	return nil
}

// ranShape is the sizes that a run says of itself.
func ranShape(m *record.Measurement) map[string]int64 {
	ran := map[string]int64{}
	for _, p := range m.Phases {
		if p.Inputs != nil {
			for d, n := range p.Inputs.Configured {
				ran[d] = max(ran[d], n)
			}
		}
	}
	return ran
}

// ownOutside is what processes held outside of their allocators, at the checkpoints
// at which both were read.
func ownOutside(m *record.Measurement) (account.Figure, int) {
	var least, most int64
	n := 0
	for _, p := range m.Phases {
		c := p.End
		if c.ProcessBytes == nil || c.ReservedBytes == nil || *c.ProcessBytes < *c.ReservedBytes {
			continue
		}
		own := *c.ProcessBytes - *c.ReservedBytes
		if n == 0 {
			least = own
		}
		least, most, n = min(least, own), max(most, own), n+1
	}
	return account.Between(least, most, account.Provenance{}), n
}

// runWords is on what a run was.
func runWords(m *record.Measurement) string {
	var words []string
	if v := m.Environment.PyTorch; v != nil {
		words = append(words, "PyTorch "+*v)
	}
	for _, d := range m.Environment.Devices {
		if d.Name != nil {
			words = append(words, *d.Name)
			break
		}
	}
	if v := m.Environment.Driver; v != nil {
		words = append(words, "driver "+*v)
	}
	if len(words) == 0 {
		return "a version that it does not name"
	}
	return strings.Join(words, ", ")
}

// pinned is the request whose calibration is of the workload as it is now: one with
// another setting, as a what-if makes it, is estimated without it.
func (r Request) pinned() Request {
	if c := r.calibration; c != nil && c.settings == nil {
		of := *c
		of.settings = settingsOf(&r.Workload)
		r.calibration = &of
	}
	return r
}

// calibrate puts the observation in the place of the terms that it stands for, in
// the workload and on the card that it is true of.
func (r Request) calibrate(tl *timeline.Timeline) {
	c := r.calibration
	if c == nil || r.Card == nil || r.Card.Name != c.card || !slices.Equal(settingsOf(&r.Workload), c.settings) {
		return
	}
	var kept []timeline.Bound
	seen := account.Zero("in what was observed of the process, as its context", c.outside.Provenance)
	from, to, found := int32(0), int32(0), false
	for _, b := range tl.Bounds {
		if !slices.Contains(outsideTerms(), tl.Terms[b.Term].ID) {
			kept = append(kept, b)
			continue
		}
		if !found {
			from, to, found = b.From, b.To, true
		}
		from, to = min(from, b.From), max(to, b.To)
		if tl.Terms[b.Term].ID != account.TermContext {
			b.Figure = seen
			kept = append(kept, b)
		}
	}
	if !found {
		return
	}
	tl.Bounds = kept
	term := tl.Term(account.TermContext, account.CategoryContext, c.outside.Provenance)
	tl.Terms[term].Provenance = c.outside.Provenance
	tl.Bound(term, int(from), to, c.outside)
}

func checkpointsText(n int) string {
	if n == 1 {
		return "one checkpoint"
	}
	return fmt.Sprintf("%d checkpoints", n)
}
