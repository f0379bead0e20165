package enginelog

import (
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
	announced  bool   // its head is one after which a request is said
	conflict   string // the two numbers that cannot both be true; empty where there are none
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
	ofAsync        // that of backend:cudaMallocAsync, since 2.0
)

// What a message says beside its numbers, in squashed text. Each begins with a
// literal, so that most texts are passed over by a plain search.
var (
	reVariable = pattern(`trysetting(PYTORCH_[A-Z_]{0,20}ALLOC_CONF)=`)
	reRetold   = pattern(`outofmemoryoccurredwhenwarmingup(sampler|pooler).{0,60}with\d{1,9}dummyrequests`)
)

// draft is a message while its numbers are read.
type draft struct {
	*OutOfMemory
	passage
	name string
	last int // where the last thing understood ends
}

// parse reads a squashed message, whose head ends at an offset. The second
// result is where the last thing that it understood ends. A message without a
// line is none: it is code that looks for one.
func parse(p passage, head int, by writer, name string) (OutOfMemory, int) {
	m := OutOfMemory{Rank: by.rank, PID: by.pid, Device: -1}
	d := draft{OutOfMemory: &m, passage: p, name: name, last: head}
	h := d.text[:head]
	m.Backend, m.Retried, m.announced = backend(h), strings.Contains(h, unmapped), announces(h)
	d.device()
	const tooLarge = tried + "morethan1EB"
	if at := strings.Index(d.text, tooLarge); at >= 0 {
		m.TooLarge = true
		d.last = max(d.last, at+len(tooLarge))
	}
	d.numbers()
	d.processes()
	d.age()
	d.retelling()
	m.Message = d.spaced(d.last)
	d.hint()
	if len(m.components) == 0 && quoted(d.text[head:]) {
		return OutOfMemory{}, 0
	}
	m.Line = d.lineAt(0)
	m.conflict = m.contradiction()
	m.derive()
	return m, d.last
}

// quoted reports code of the form "CUDA out of memory" in text, which
// tracebacks show.
func quoted(after string) bool {
	return strings.HasPrefix(after, `"in`) || strings.HasPrefix(after, `'in`) || strings.HasPrefix(after, `"not`) || strings.HasPrefix(after, `'not`)
}

// device reads which device refused.
func (d *draft) device() {
	for _, p := range [...]place{{"(GPU", ";"}, {"(NPU", ";"}, {"(MLU", ";"}, {"GPU", "hasatotalcapac"}, {"OOMondevice", ""}, {"ondevice", asyncRefused}, {"ondevice", ":" + ggmlRefused}} {
		if m, ok := p.find(d.text, 0, count); ok && len(m.number) <= 6 {
			d.Device, _ = strconv.Atoi(m.number)
			d.last = max(d.last, m.end)
			return
		}
	}
}

// numbers reads every figure, each into its component.
func (d *draft) numbers() {
	pytorch, device := "pytorch", "device"
	d.Request = d.figure(pytorch, KindRequest, account.Requested, place{tried, ""}, place{buffer, ""})
	if !d.Request.Known() {
		d.counted(&d.Request, pytorch, KindRequest, place{"tryingtomap", "bytes"}, place{"whiletryingtoallocate", "bytes"})
	}
	if strings.HasPrefix(d.text, ggmlTried) {
		d.Request = d.figure("llama.cpp", KindRequest, account.Process, place{ggmlTried, "ondevice"})
	}
	if d.Backend == NCCL {
		d.counted(&d.Request, "nccl", KindRequest, place{calloc, "bytes"}, place{calloc + "async", "bytes"})
	}
	if strings.HasPrefix(d.text, asyncTried) {
		d.asyncNumbers()
		return
	}
	d.Capacity = d.figure(device, KindCapacity, account.Device, place{"hasatotalcapacityof", ""}, place{"hasatotalcapactyof", ""}, place{";", "totalcapacity"})
	d.Free = d.figure(device, KindFree, account.Device, place{"ofwhich", "isfree"}, place{";", "free"})
	if d.Retried {
		d.counted(&d.Capacity, device, KindCapacity, place{",total:", ")"})
		d.counted(&d.Free, device, KindFree, place{"(free:", ""})
	}
	d.Allocated = d.figure(pytorch, KindAllocated, account.Allocated, place{"Oftheallocatedmemory", "isallocatedbyPyTorch"}, place{";", "alreadyallocated"})
	d.Active = d.figure(pytorch, KindActive, account.Active, place{";", "currentactive"})
	d.Reserved = d.figure(pytorch, KindReserved, account.Reserved, place{";", "reservedintotalbyPyTorch"}, place{"MPSallocated:", ""})
	d.Unallocated = d.figure(pytorch, KindUnallocated, account.Reserved, place{"", "isreservedbyPyTorchbutunallocated"}, place{";", "cached"})
	d.PrivatePools = d.figure(pytorch, KindPrivatePools, account.Reserved, place{"with", "allocatedinprivatepools"})
	d.Allowed = d.figure(pytorch, KindAllowed, account.Reserved, place{".", "allowed"}, place{";", "allowed"}, place{"maxallowed:", ""})
	d.OtherAllocations = d.figure("this process", KindOtherAllocations, account.Process, place{"otherallocations:", ""})
	d.figure(pytorch, KindInactive, account.Reserved, place{";", "inactive"})
}

// asyncNumbers reads what the allocator of backend:cudaMallocAsync prints, a number a
// line. What the driver's pool holds beside them is not printed.
func (d *draft) asyncNumbers() {
	const pytorch, device = "pytorch", "device"
	d.Allocated = d.figure(pytorch, KindAllocated, account.Allocated, place{"Currentlyallocated:", ""})
	d.Request = d.figure(pytorch, KindRequest, account.Requested, place{"Requested:", ""})
	d.Capacity = d.figure(device, KindCapacity, account.Device, place{"Devicelimit:", ""})
	d.Free = d.figure(device, KindFree, account.Device, place{"Free(accordingtoCUDA):", ""})
	d.Allowed = d.figure(pytorch, KindAllowed, account.Allocated, place{"memoryfraction):", ""})
	none := func(kind Kind) account.Figure { return d.figure(pytorch, kind, account.Reserved) }
	d.Active, d.Reserved, d.Unallocated, d.PrivatePools = none(KindActive), none(KindReserved), none(KindUnallocated), none(KindPrivatePools)
	d.OtherAllocations = none(KindOtherAllocations)
}

// processes reads who else is on the device, in either order of sentences.
func (d *draft) processes() {
	const most = 64
	for from := 0; len(d.Processes) < most; {
		m, ok := place{"has", "memoryinuse"}.find(d.text, from, sized)
		if !ok {
			return
		}
		from = m.end
		use, component := ProcessUse{}, "this process"
		if before := d.text[:m.at]; !strings.HasSuffix(before, "thisprocess") {
			at := digitsUntil(before, len(before), 18)
			if at == len(before) || !strings.HasSuffix(before[:at], "Process") {
				continue
			}
			use.PID, _ = strconv.ParseInt(before[at:], 10, 64)
			component = "process " + before[at:]
			m.at = at
		}
		use.Bytes = d.reading(component, KindInUse, account.Process, m)
		d.Processes = append(d.Processes, use)
	}
}

// age notes what the form of the message says of its PyTorch.
func (d *draft) age() {
	switch {
	case strings.HasPrefix(d.text, asyncTried):
		d.era = ofAsync
	case strings.Contains(d.text, "hasatotalcapac"):
		d.era = since21
	case strings.Contains(d.text, "reservedintotalbyPyTorch"):
		d.era = upTo20
	case d.Unallocated.Known():
		d.era = upTo13
	}
}

// retelling reads the words in which vLLM reports a failure again, and what it
// advises (vllm/v1/worker/gpu_model_runner.py, _dummy_sampler_run).
func (d *draft) retelling() {
	at := reRetold().FindStringSubmatchIndex(d.text)
	if at == nil {
		return
	}
	d.retold = true
	d.last = max(d.last, at[1])
	if d.text[at[2]:at[3]] == "sampler" {
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
	for _, end := range [...]string{"avoidfragmentation", "unoccupiedcachedmemory", "(maycausesystemfailure)"} {
		if at := strings.Index(d.text, end); at >= 0 {
			d.last = max(d.last, at+len(end))
		}
	}
	if at := strings.Index(d.text, documentation); at >= 0 {
		at += len(documentation)
		d.last = max(d.last, at+reference(d.text[at:]))
	}
}

const documentation = "SeedocumentationforMemoryManagement"

// reference is how many bytes name the documentation: a variable or an address.
func reference(text string) int {
	if after, found := strings.CutPrefix(text, "and"); found {
		n := len(after) - len(strings.TrimLeft(after, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"))
		return len("and") + n
	}
	if strings.HasPrefix(text, "(http") {
		return strings.IndexByte(text[:min(len(text), 200)], ')') + 1
	}
	return 0
}

// advises reports a setting that the message says to try.
func (d *draft) advises(setting string) bool {
	_, after, found := strings.Cut(d.text, "trysetting")
	return found && strings.Contains(after[:min(len(after), 80)], setting)
}

// figure reads the first of some places where a size is.
func (d *draft) figure(component string, kind Kind, scope account.Scope, places ...place) account.Figure {
	for _, p := range places {
		if m, ok := p.find(d.text, 0, sized); ok {
			return d.reading(component, kind, scope, m)
		}
	}
	return account.Unknown("the message does not give the bytes "+strings.ReplaceAll(string(kind), "_", " "),
		account.Provenance{Origin: account.Observed, Scope: scope, Counter: string(kind), Source: d.name})
}

// counted reads a number without a unit into a figure, if it is there.
func (d *draft) counted(f *account.Figure, component string, kind Kind, places ...place) {
	for _, p := range places {
		if m, ok := p.find(d.text, 0, count); ok {
			*f = d.reading(component, kind, f.Scope, m)
			return
		}
	}
}

// reading is one number, added to the components.
func (d *draft) reading(component string, kind Kind, scope account.Scope, m match) account.Figure {
	d.last = max(d.last, m.end)
	line := d.lineAt(m.at)
	f := printed(m.number, m.unit, account.Provenance{
		Origin: account.Observed, Scope: scope, Counter: string(kind), Source: d.name + ":" + strconv.Itoa(line),
	})
	d.components = append(d.components, Component{
		Component: component, Rank: d.Rank, Device: d.Device, Kind: kind, Bytes: f, Printed: asPrinted(m.number, m.unit), Line: line,
	})
	return f
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
