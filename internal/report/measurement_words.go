package report

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// mostPhases is how many phases of one process and device a table shows before
// it begins to choose.
const mostPhases = 40

// worth chooses the rows of a long table: of each kind of phase the first, the
// one with the highest peak, and the last; whatever failed, is inferred for the
// first time or is missing.
func worth(phases []record.MeasuredPhase) (shown []record.MeasuredPhase, left int) {
	if len(phases) <= mostPhases {
		return phases, 0
	}
	first, last, top := map[string]int{}, map[string]int{}, map[string]int{}
	for i, p := range phases {
		if _, seen := first[p.Name]; !seen {
			first[p.Name], top[p.Name] = i, i
		}
		last[p.Name] = i
		if peakOf(p) > peakOf(phases[top[p.Name]]) {
			top[p.Name] = i
		}
	}
	failures := 0
	for i, p := range phases {
		failed := p.Status != "completed"
		if failed {
			failures++
		}
		if i == first[p.Name] || i == last[p.Name] || i == top[p.Name] || failed && failures <= mostPhases {
			shown = append(shown, p)
		}
	}
	return shown, len(phases) - len(shown)
}

// peakOf is the least that the peak of allocated is.
func peakOf(p record.MeasuredPhase) int64 {
	for _, n := range []*int64{p.Peak.AllocatedBytes, p.Peak.AllocatedLowBytes} {
		if n != nil {
			return *n
		}
	}
	return -1
}

// marks are what must be known of a row.
func marks(p record.MeasuredPhase) string {
	var words []string
	if p.Status != "completed" {
		words = append(words, strings.ToUpper(p.Status))
	}
	if p.Error != nil {
		words = append(words, *p.Error)
	}
	if p.Inferred && (p.Note == nil || !strings.HasPrefix(*p.Note, "inferred")) {
		words = append(words, "inferred")
	}
	if p.Pass != nil && *p.Pass == "first" {
		words = append(words, "first pass")
	}
	if p.Note != nil {
		words = append(words, *p.Note)
	}
	if p.TruncatedTokens != nil && *p.TruncatedTokens > 0 {
		words = append(words, fmt.Sprintf("%s cut off its inputs: another task", count(int(*p.TruncatedTokens), "token")))
	}
	if p.Peak.ReservedHighBytes != nil {
		words = append(words, "reserved peak: an upper bound under cudaMallocAsync")
	}
	return strings.Join(words, "; ")
}

// aside are the sentences under a table: the gap at its last checkpoint, what
// was seen from outside, and the last words of a run that failed.
func aside(g measuredGroup, counted, unit bytesize.Unit) []string {
	var lines []string
	in := func(unit bytesize.Unit) func(int64) string {
		return func(n int64) string { return fixed(n, unit) + " " + unit.String() }
	}
	amount := in(unit)
	last := g.phases[len(g.phases)-1]
	if e := last.End; e.AllocatedBytes != nil && e.ReservedBytes != nil && *e.ReservedBytes >= *e.AllocatedBytes {
		line := "at the last checkpoint, reserved − allocated is " + in(counted)(*e.ReservedBytes-*e.AllocatedBytes) +
			": a counter gap at that instant. It is no KV cache, and not all of it need serve the next allocation"
		if e.OutsideBytes != nil {
			line += "; in use on the device outside this allocator: " + amount(*e.OutsideBytes) + " (contexts, libraries, other processes; not itemised)"
		}
		lines = append(lines, line)
	}
	if line := sampled(g.phases, amount); line != "" {
		lines = append(lines, line)
	}
	for _, p := range g.phases {
		if p.Status == "failed" || p.Status == "unfinished" {
			lines = append(lines, failedPhase(p, amount))
			break
		}
	}
	return lines
}

// sampled is the highest that was seen from outside in any phase.
func sampled(phases []record.MeasuredPhase, amount func(int64) string) string {
	device, process := int64(-1), int64(-1)
	why := ""
	for _, p := range phases {
		if p.DeviceLowBytes != nil {
			device = max(device, *p.DeviceLowBytes)
		}
		if p.ProcessLowBytes != nil {
			process = max(process, *p.ProcessLowBytes)
		}
		if p.ProcessUnknown != nil {
			why = *p.ProcessUnknown
		}
	}
	if device < 0 && process < 0 {
		return ""
	}
	line := "highest samples from outside, which are lower bounds: device " + orUnknown(device, amount) + ", process " + orUnknown(process, amount)
	if process < 0 && why != "" {
		line += " (" + why + ")"
	}
	return line
}

func orUnknown(n int64, amount func(int64) string) string {
	if n < 0 {
		return unknown
	}
	return amount(n)
}

// failedPhase says what a failed run proves, and what would tell more.
func failedPhase(p record.MeasuredPhase, amount func(int64) string) string {
	line := phaseRowName(p) + " did not complete: its last readings are partial, a lower bound, and not what a full run needs."
	if p.Error == nil || !strings.Contains(strings.ToLower(*p.Error), "memory") {
		return line
	}
	outside := "outside the allocator: not measured"
	if p.End.OutsideBytes != nil {
		outside = "outside the allocator: " + amount(*p.End.OutsideBytes)
	}
	return line + " A low allocated peak does not exclude that something else held the card (" + outside +
		"). empty_cache would have freed no live tensor, and the cached blocks that nothing uses the allocator gives back itself before it fails. --snapshot-on-oom FOLDER would say what was alive; it sees what PyTorch allocates, and nothing else."
}

// meanings is what the columns count, where there are any, and what the lab is.
func meanings(d *record.Measurement) []string {
	lines := counters(d)
	if d.Subject != "program" {
		lines = append(lines, "cold_forward is the first pass after the device was initialised; it says nothing of starting a server, driver or service. The lab is no evidence for a workload: batch, context and width are dimensions of its tensors, and context is no context of a language model.")
	}
	return lines
}

func counters(d *record.Measurement) []string {
	if !slices.ContainsFunc(d.Phases, func(p record.MeasuredPhase) bool { return p.Device != nil }) {
		return nil
	}
	return []string{
		"allocated: bytes of tensors that PyTorch tracks (memory_allocated). reserved: what its caching allocator holds from the driver, allocated included (memory_reserved). They are never added. Counters are those of PyTorch " + torchVersion(d) + "; definitions: docs.pytorch.org, CUDA semantics, memory management.",
		"Peaks are absolute, with what was there at the start, since the reset at the start of the phase. The two peaks may be two moments, so nothing is subtracted between them. level difference: end − start of allocated; a level difference, not temporaries.",
		"device: in use on it for everybody, by the process's own reading at the end of the phase. process: what the driver says it holds, where the samples before and after that moment agree.",
	}
}

func torchVersion(d *record.Measurement) string { return text(d.Environment.PyTorch) }
