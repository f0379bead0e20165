package enginelog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"floodmark/account"
)

// Backend is who refused.
type Backend string

const (
	CUDA Backend = "cuda"
	HIP  Backend = "hip"
	XPU  Backend = "xpu"
	MPS  Backend = "mps"
	NPU  Backend = "npu"
	MUSA Backend = "musa"
	MLU  Backend = "mlu"
	NCCL Backend = "nccl"
	// UnknownBackend is a message whose beginning is cut off.
	UnknownBackend Backend = ""
)

// Hint is what the message itself advises, whatever its numbers are.
type Hint string

const (
	NoHint            Hint = ""
	HintMaxSplit      Hint = "max_split_size_mb"
	HintExpandable    Hint = "expandable_segments"
	HintEmptyCache    Hint = "empty_cache"
	HintHighWatermark Hint = "high_watermark_ratio"
)

// ProcessUse is what one process holds on the device.
type ProcessUse struct {
	PID   int64 // 0 for the process that printed the message
	Bytes account.Figure
}

// OutOfMemory is one failure. A figure that was not printed is unknown. All of
// them are of one moment.
type OutOfMemory struct {
	Line    int // where it begins; 1 is the first line
	Rank    int // −1 when the text does not say
	PID     int64
	Device  int // −1 when the text does not say
	Backend Backend
	Message string // on one line, cut after the last number that was understood
	Repeats int    // how often the text prints the same message again

	// Request is what the allocator asked the driver for: PyTorch prints the
	// tensor's bytes already rounded to a segment.
	Request  account.Figure
	Capacity account.Figure
	Free     account.Figure // of the device, as the driver said
	// Allocated is what tensors held. The number printed since PyTorch 2.1
	// counts the free blocks of private pools as well; they are taken out.
	Allocated account.Figure
	Active    account.Figure
	Reserved  account.Figure
	// Unallocated is reserved but not allocated, private pools aside.
	Unallocated  account.Figure
	PrivatePools account.Figure // free blocks that only a CUDA graph's pool can use
	Allowed      account.Figure // the most that the process may reserve
	// OtherAllocations is what this process holds outside the allocator (MPS).
	OtherAllocations account.Figure
	Processes        []ProcessUse

	// Phase is what the program was doing, where the text names it; else empty.
	Phase account.PhaseID
	// Where is the line that failed: the last one of the user's own code that the
	// traceback before the message shows, or of a package if there is none.
	Where Where
	// Remedies are the options that an engine advises to lower.
	Remedies []string

	TooLarge bool // "more than 1EB": the request was not even tried
	Retried  bool // a warning of a retry: the program may have gone on
	Hint     Hint

	Class    Class
	Possible []Class // what it can be, where Class is cannot_tell for want of a number
	Because  string  // a sentence with the numbers
	Advice   []Advice

	components []Component
	expandable bool   // the text shows expandable segments to be on
	era        era    // which PyTorch prints a message of this form
	variable   string // the environment variable that its hint names
	retold     bool   // an engine says again, in its own words, that memory ran out
}

// era is how old the PyTorch is that printed a message, by the message's form
// (c10/cuda/CUDACachingAllocator.cpp at each release).
type era int8

const (
	unknownEra era = iota
	upTo13         // "cached"
	upTo20         // "reserved in total by PyTorch"
	since21        // "has a total capacity of"
)

// The numbers of a message, in squashed text.
var (
	reRequest     = pattern(`Triedtoallocate` + size)
	reTooLarge    = pattern(`Triedtoallocatemorethan1EB`)
	reDevice      = pattern(`\((?:GPU|NPU|MLU)(\d{1,6});|GPU(\d{1,6})hasatotalcapac|OOMondevice(\d{1,6})`)
	reCapacity    = pattern(`hasatotalcapaci?tyof` + size + `|;` + size + `totalcapacity`)
	reFree        = pattern(`ofwhich` + size + `isfree|;` + size + `free`)
	reAllocated   = pattern(`Oftheallocatedmemory` + size + `isallocatedbyPyTorch|;` + size + `alreadyallocated`)
	reActive      = pattern(`;` + size + `currentactive`)
	reReserved    = pattern(`;` + size + `reservedintotalbyPyTorch|MPSallocated:` + size)
	reUnallocated = pattern(size + `isreservedbyPyTorchbutunallocated|;` + size + `cached`)
	reInactive    = pattern(`;` + size + `inactive`)
	rePools       = pattern(`with` + size + `allocatedinprivatepools`)
	reAllowed     = pattern(`[.;]` + size + `allowed|maxallowed:` + size)
	reOther       = pattern(`otherallocations:` + size)
	reProcess     = pattern(`(?:thisprocess|Process(\d{1,18}))has` + size + `memoryinuse`)
	reNCCL        = pattern(`FailedtoCUDAcalloc(?:async)?(\d{1,24})bytes`)
	reMapping     = pattern(`tryingtomap(\d{1,24})bytes`)
	reMapFree     = pattern(`\(free:(\d{1,24})`)
	reMapTotal    = pattern(`,total:(\d{1,24})\)`)
	reHintEnd     = pattern(`avoidfragmentation|SeedocumentationforMemoryManagement(?:and[A-Z_]+|\(https?:[^)]{0,200}\))?|\(maycausesystemfailure\)|unoccupiedcachedmemory`)
	reBuffer      = pattern(`Invalidbuffersize:` + size)
	reVariable    = pattern(`trysetting(PYTORCH_[A-Z_]{0,20}ALLOC_CONF)=`)
	reRetold      = pattern(`outofmemoryoccurredwhenwarmingup(sampler|pooler).{0,60}with\d{1,9}dummyrequests`)
)

// draft is a message while its numbers are read.
type draft struct {
	*OutOfMemory
	text   string
	name   string
	starts []start
	last   int // where the last thing understood ends
}

// parse reads a squashed message, from its head on. The second result is where
// the last thing that it understood ends. A message without a line is none: it
// is code that looks for one.
func parse(text string, by writer, starts []start, name string) (OutOfMemory, int) {
	m := OutOfMemory{Rank: by.rank, PID: by.pid, Device: -1}
	d := draft{OutOfMemory: &m, text: text, name: name, starts: starts}
	h := head().FindString(text)
	m.Backend = backend(h)
	d.last = len(h)
	if found := d.find(reDevice()); found != nil {
		m.Device, _ = strconv.Atoi(found[0])
	}
	m.TooLarge = d.find(reTooLarge()) != nil
	d.numbers()
	d.processes()
	d.age()
	d.retelling()
	m.Retried = strings.Contains(h, "memorymappingfailed")
	m.Message = spaced(starts, d.last)
	d.hint()
	if len(m.components) == 0 && quoted(text[len(h):]) {
		return OutOfMemory{}, 0
	}
	m.Line = d.lineAt(0)
	m.derive()
	return m, d.last
}

// quoted reports code of the form "CUDA out of memory" in text, which
// tracebacks show.
func quoted(after string) bool {
	return strings.HasPrefix(after, `"in`) || strings.HasPrefix(after, `'in`) || strings.HasPrefix(after, `"not`) || strings.HasPrefix(after, `'not`)
}

// numbers reads every figure, each into its component.
func (d *draft) numbers() {
	pytorch, device := "pytorch", "device"
	d.Request = d.figure(pytorch, KindRequest, account.Requested, reRequest(), reMapping(), reBuffer())
	if d.Backend == NCCL {
		d.Request = d.figure("nccl", KindRequest, account.Requested, reNCCL())
	}
	d.Capacity = d.figure(device, KindCapacity, account.Device, reCapacity(), reMapTotal())
	d.Free = d.figure(device, KindFree, account.Device, reFree(), reMapFree())
	d.Allocated = d.figure(pytorch, KindAllocated, account.Allocated, reAllocated())
	d.Active = d.figure(pytorch, KindActive, account.Active, reActive())
	d.Reserved = d.figure(pytorch, KindReserved, account.Reserved, reReserved())
	d.Unallocated = d.figure(pytorch, KindUnallocated, account.Reserved, reUnallocated())
	d.PrivatePools = d.figure(pytorch, KindPrivatePools, account.Reserved, rePools())
	d.Allowed = d.figure(pytorch, KindAllowed, account.Reserved, reAllowed())
	d.OtherAllocations = d.figure("this process", KindOtherAllocations, account.Process, reOther())
	d.figure(pytorch, KindInactive, account.Reserved, reInactive())
}

// processes reads who else is on the device, in either order of sentences.
func (d *draft) processes() {
	for _, at := range reProcess().FindAllStringSubmatchIndex(d.text, 64) {
		found := groups(d.text, at)
		use, component := ProcessUse{}, "this process"
		if at[2] >= 0 {
			use.PID, _ = strconv.ParseInt(found[0], 10, 64)
			component, found = "process "+found[0], found[1:]
		}
		use.Bytes = d.reading(component, KindInUse, account.Process, found, at)
		d.Processes = append(d.Processes, use)
	}
}

// age notes what the form of the message says of its PyTorch.
func (d *draft) age() {
	switch {
	case strings.Contains(d.text, "hasatotalcapac"):
		d.era = since21
	case strings.Contains(d.text, "reservedintotalbyPyTorch"):
		d.era = upTo20
	case reUnallocated().MatchString(d.text):
		d.era = upTo13
	}
}

// retelling reads the words in which vLLM reports a failure again, and what it
// advises (vllm/v1/worker/gpu_model_runner.py, _dummy_sampler_run).
func (d *draft) retelling() {
	found := d.find(reRetold())
	if found == nil {
		return
	}
	d.retold = true
	if found[0] == "sampler" {
		d.Phase = account.PhaseSamplerWarmup
	}
	const advises, within = "Pleasetrylowering", 200
	from := strings.Index(d.text, advises)
	if from < 0 {
		return
	}
	for _, option := range []string{"max_num_seqs", "gpu_memory_utilization"} {
		if at := strings.Index(d.text[from:min(len(d.text), from+within)], option); at >= 0 {
			d.Remedies = append(d.Remedies, option)
			d.last = max(d.last, from+at+len(option))
		}
	}
}

// hint notes what the message advises. PyTorch prints it whatever the numbers.
func (d *draft) hint() {
	if m := reVariable().FindStringSubmatch(d.text); m != nil {
		d.variable = m[1]
	}
	switch {
	case d.advises("expandable_segments:True"):
		d.Hint = HintExpandable
	case d.advises("max_split_size_mb"):
		d.Hint = HintMaxSplit
	case strings.Contains(d.text, "Pleaseuse`empty_cache`"):
		d.Hint = HintEmptyCache
	case strings.Contains(d.text, "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0"):
		d.Hint = HintHighWatermark
	}
	for _, at := range reHintEnd().FindAllStringIndex(d.text, 4) {
		d.last = max(d.last, at[1])
	}
}

// advises reports a setting that the message says to try.
func (d *draft) advises(setting string) bool {
	_, after, found := strings.Cut(d.text, "trysetting")
	return found && strings.Contains(after[:min(len(after), 80)], setting)
}

// find gives the groups of a pattern's first match, and notes where it ends.
func (d *draft) find(pattern *regexp.Regexp) []string {
	at := pattern.FindStringSubmatchIndex(d.text)
	if at == nil {
		return nil
	}
	d.last = max(d.last, at[1])
	return groups(d.text, at)
}

// groups are the texts of the groups that took part in a match.
func groups(text string, at []int) []string {
	list := []string{}
	for i := 2; i < len(at); i += 2 {
		if at[i] >= 0 {
			list = append(list, text[at[i]:at[i+1]])
		}
	}
	return list
}

// figure reads the first of some patterns that is there.
func (d *draft) figure(component string, kind Kind, scope account.Scope, patterns ...*regexp.Regexp) account.Figure {
	for _, pattern := range patterns {
		if at := pattern.FindStringSubmatchIndex(d.text); at != nil {
			return d.reading(component, kind, scope, groups(d.text, at), at)
		}
	}
	return account.Unknown(fmt.Sprintf("the message does not give the bytes %s", strings.ReplaceAll(string(kind), "_", " ")),
		account.Provenance{Origin: account.Observed, Scope: scope, Counter: string(kind), Source: d.name})
}

// reading is one number, added to the components. A number without a unit is
// in bytes.
func (d *draft) reading(component string, kind Kind, scope account.Scope, found []string, at []int) account.Figure {
	d.last = max(d.last, at[1])
	line := d.lineAt(at[0])
	unit := "bytes"
	if len(found) > 1 {
		unit = found[1]
	}
	f := printed(found[0], unit, account.Provenance{
		Origin: account.Observed, Scope: scope, Counter: string(kind), Source: fmt.Sprintf("%s:%d", d.name, line),
	})
	d.components = append(d.components, Component{
		Component: component, Rank: d.Rank, Device: d.Device, Kind: kind, Bytes: f, Printed: asPrinted(found[0], unit), Line: line,
	})
	return f
}

// lineAt is the line in which an offset of the message lies.
func (d *draft) lineAt(offset int) int {
	line := 0
	for _, s := range d.starts {
		if s.offset <= offset || line == 0 {
			line = s.line
		}
	}
	return line
}

// setRank gives a message its rank when a later copy of it says it.
func (m *OutOfMemory) setRank(rank int) {
	m.Rank = rank
	for i := range m.components {
		m.components[i].Rank = rank
	}
}

// backend is who refused, by the head of the message.
func backend(h string) Backend {
	switch {
	case strings.HasPrefix(h, "MPS"), strings.HasPrefix(h, "Invalidbuffer"):
		return MPS
	case strings.HasPrefix(h, "Failedto"), strings.HasPrefix(h, "Cudafailure"):
		return NCCL
	case strings.HasPrefix(h, "HIP"):
		return HIP
	case strings.HasPrefix(h, "XPU"), strings.HasPrefix(h, "Currentplatform"):
		return XPU
	case strings.HasPrefix(h, "NPU"):
		return NPU
	case strings.HasPrefix(h, "MUSA"):
		return MUSA
	case strings.HasPrefix(h, "MLU"):
		return MLU
	case h == tried:
		return UnknownBackend
	}
	return CUDA
}
