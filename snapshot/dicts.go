package snapshot

import (
	"floodmark/internal/pickle"
	"floodmark/internal/source"
	"floodmark/timeline"
)

// SetItems makes a row of a dict. Every dict that matters has fewer keys than
// come at once, so one that comes twice is another form than PyTorch's.
func (b *builder) SetItems(dict pickle.Value, items []pickle.Value) (pickle.Value, error) {
	if c := classOf(dict); c != classEmpty && c != classUninteresting && c != classNumbers {
		return pickle.Value{}, source.InField("", "", "is a dict whose keys come in two parts")
	}
	r := &b.row
	r.set, r.bad = 0, nil
	b.strange = b.strange[:0]
	for i := 0; i+1 < len(items); i += 2 {
		key := items[i].Index()
		f := b.word(key).field
		if f == fieldUnknown {
			b.strange = append(b.strange, key)
			continue
		}
		if r.has(f) && f != fieldConf {
			return pickle.Value{}, source.InField("", f.key(), "stands twice in one dict")
		}
		r.set |= 1 << f
		r.values[f] = items[i+1]
	}
	ref, err := b.classify(items)
	if err == nil {
		err = r.bad
	}
	if err != nil {
		return pickle.Value{}, err
	}
	return pickle.DictRef(ref), nil
}

// classify tells the dicts apart by keys that only one kind has.
func (b *builder) classify(items []pickle.Value) (uint64, error) {
	r := &b.row
	switch {
	case r.has(fieldAction):
		return b.known("entry", (*builder).entry)
	case r.any(fieldTotalSize, fieldBlocks):
		return b.known("segment", (*builder).segment)
	case r.has(fieldState):
		return b.known("block", (*builder).block)
	case r.has(fieldRealSize):
		return b.known("history", (*builder).history)
	case r.any(fieldFilename, fieldLine):
		return b.known("frame", (*builder).frame)
	case r.has(fieldStage):
		return b.known("annotation", (*builder).annotation)
	case r.any(fieldSegments, fieldTraces):
		return b.known("snapshot", (*builder).snapshot)
	case r.any(fieldConf, fieldMaxSplit, fieldGarbage, fieldExpandableSegments, fieldRoundup):
		return b.known("settings", (*builder).allocatorSettings)
	}
	r.kind = "dict"
	if n, ok := b.pairs(items); ok && len(b.numbers) < maxNumbers {
		b.numbers = append(b.numbers, n)
		return reference(classNumbers, len(b.numbers)-1), nil
	}
	return reference(classUninteresting, 0), nil
}

// maxNumbers bounds the dicts of numbers that are kept; a file has one.
const maxNumbers = 64

// known makes a row of one kind and counts the keys that are not of it. Frames
// are as many rows as are different.
func (b *builder) known(kind string, make func(*builder) (uint64, error)) (uint64, error) {
	b.row.kind = kind
	for _, key := range b.strange {
		b.unknown.add(kind, key)
	}
	rows := 1
	frames := len(b.stacks.table.Frames)
	ref, err := make(b)
	if kind == "frame" {
		rows = len(b.stacks.table.Frames) - frames
	}
	if err == nil {
		err = b.take(rows)
	}
	return ref, err
}

func (b *builder) entry() (uint64, error) {
	r := &b.row
	name := r.text(fieldAction)
	e := entry{action: b.word(name).action, stream: b.streams.index(r.handle(fieldStream)), stack: b.stack(fieldFrames)}
	if e.action == OtherAction {
		b.actions[b.strings.At(name)]++
	}
	if e.action.located() {
		r.require(fieldAddr)
		r.require(fieldSize)
	}
	e.addr, e.size = r.handle(fieldAddr), r.size(fieldSize)
	if e.action == OutOfMemory {
		e.addr = uint64(max(r.integer(fieldDeviceFree, -1), -1))
	}
	e.time, e.hasTime = r.integer(fieldTime, 0), r.has(fieldTime)
	if e.context = r.text(fieldContext); e.context != 0 && b.strings.At(e.context) == "N/A" {
		e.context = 0
	}
	e.metadata = r.text(fieldMetadata)
	if r.has(fieldPoolID) {
		e.pool, e.hasPool = b.pool(fieldPoolID), true
	}
	return reference(classEntry, b.entries.add(e)), nil
}

func (b *builder) segment() (uint64, error) {
	r := &b.row
	r.require(fieldTotalSize)
	r.require(fieldAddress)
	s := Segment{
		Address:    r.handle(fieldAddress),
		Total:      r.size(fieldTotalSize),
		Allocated:  r.size(fieldAllocatedSize),
		Active:     r.size(fieldActiveSize),
		Requested:  r.size(fieldRequestedSize),
		Stream:     b.streams.index(r.handle(fieldStream)),
		Pool:       b.pool(fieldSegmentPool),
		Stack:      b.stack(fieldFrames),
		Small:      b.strings.At(r.text(fieldSegmentType)) == "small",
		Expandable: r.truth(fieldExpandable),
	}
	device := r.integer(fieldDevice, 0)
	if device < 0 || device > maxDevice {
		return 0, source.InField("", fieldDevice.key(), "is %d, expected an ordinal from 0 to %d", device, maxDevice)
	}
	s.Device = int32(device)
	rows, err := b.list(fieldBlocks, classBlocks)
	if err == nil && rows.count > 0 {
		_, err = b.hold(r.values[fieldBlocks], "list of blocks")
	}
	if err != nil {
		return 0, err
	}
	s.First, s.Count = rows.first, rows.count
	b.place(s)
	b.count(&s)
	b.segments = append(b.segments, s)
	return reference(classSegment, len(b.segments)-1), nil
}

// maxDevice bounds device ordinals; a node has some tens of devices.
const maxDevice = 1<<10 - 1

// place gives blocks without an address theirs: PyTorch 2.0 writes them in
// order, and leaves no gap.
func (b *builder) place(s Segment) {
	address := s.Address
	for i := range b.blocks[s.First : s.First+s.Count] {
		block := &b.blocks[s.First+i]
		if !block.placed {
			block.Address, block.placed = address, true
		}
		address = block.Address + uint64(block.Size)
	}
}

// count adds the blocks up where the segment does not do so itself.
func (b *builder) count(s *Segment) {
	for _, block := range b.blocks[s.First : s.First+s.Count] {
		if block.State == Allocated && !b.row.has(fieldAllocatedSize) {
			s.Allocated += block.Size
		}
		if block.State != Inactive && !b.row.has(fieldActiveSize) {
			s.Active += block.Size
		}
		if !b.row.has(fieldRequestedSize) {
			s.Requested += block.Requested
		}
	}
}

func (b *builder) block() (uint64, error) {
	r := &b.row
	r.require(fieldSize)
	name := b.strings.At(r.text(fieldState))
	state, ok := stateNamed(name)
	if !ok && r.bad == nil {
		return 0, source.InField("", fieldState.key(), "is %.40q, expected inactive, active_allocated or active_pending_free", name)
	}
	block := Block{
		Address: r.handle(fieldAddress), placed: r.has(fieldAddress),
		Size: r.size(fieldSize), Requested: r.size(fieldRequestedSize),
		Stack: b.stack(fieldFrames), State: state,
	}
	field := b.owner(&block)
	if state == Inactive {
		// What the file has here is left over from the last owner.
		block.Requested = 0
	}
	if block.Requested > block.Size && r.bad == nil {
		return 0, source.InField("", field, "is %d, more than the %d bytes of the block", block.Requested, block.Size)
	}
	b.blocks = append(b.blocks, block)
	return reference(classBlock, len(b.blocks)-1), nil
}

// owner adds what PyTorch 2.0 writes as the owners of a block, the last one
// first, and names the field that has the requested size.
func (b *builder) owner(block *Block) (field string) {
	r := &b.row
	field = fieldRequestedSize.key()
	if v := r.values[fieldHistory]; r.has(fieldHistory) && classOf(v) == classHistories {
		owner := b.histories[indexOf(v)]
		if block.Stack == timeline.NoStack {
			block.Stack = owner.stack
		}
		if !r.has(fieldRequestedSize) {
			block.Requested, field = owner.requested, "history[0].real_size"
		}
	} else if !r.has(fieldRequestedSize) {
		block.Requested = block.Size
	}
	return field
}

func (b *builder) history() (uint64, error) {
	b.histories = append(b.histories, history{requested: b.row.size(fieldRealSize), stack: b.stack(fieldFrames)})
	return reference(classHistory, len(b.histories)-1), nil
}

func (b *builder) frame() (uint64, error) {
	r := &b.row
	f := timeline.Frame{Function: r.text(fieldName), File: r.text(fieldFilename), Line: int32(r.integer(fieldLine, 0))}
	return reference(classFrame, int(b.stacks.frame(f, b.strings))), nil
}

func (b *builder) annotation() (uint64, error) {
	r := &b.row
	b.annotations = append(b.annotations, Annotation{
		Name:   b.strings.At(r.text(fieldName)),
		Start:  b.strings.At(r.text(fieldStage)) == "START",
		Device: int32(r.integer(fieldDevice, 0)),
		Time:   r.integer(fieldTime, 0),
	})
	return reference(classAnnotation, len(b.annotations)-1), nil
}

func (b *builder) snapshot() (uint64, error) {
	v := func(f field) pickle.Value {
		if b.row.has(f) {
			return b.row.values[f]
		}
		return pickle.Nothing()
	}
	b.top = top{
		segments: v(fieldSegments), traces: v(fieldTraces), annotations: v(fieldAnnotations),
		hostSegments: v(fieldHostSegments), hostTraces: v(fieldHostTraces),
		settings: b.hasSettings(),
	}
	return reference(classTop, 0), nil
}

func (b *builder) allocatorSettings() (uint64, error) {
	r := &b.row
	b.settings = Settings{
		Conf:                          b.strings.At(r.text(fieldConf)),
		MaxSplitSize:                  r.integer(fieldMaxSplit, -1),
		GarbageCollectionThreshold:    r.real(fieldGarbage),
		ExpandableSegments:            r.truth(fieldExpandableSegments),
		PinnedNumRegisterThreads:      r.integer(fieldRegisterThreads, 1),
		ReleaseLockOnCudaMalloc:       r.truth(fieldReleaseLock),
		PinnedUseCudaHostRegister:     r.truth(fieldHostRegister),
		GraphCaptureRecordStreamReuse: r.truth(fieldCaptureReuse),
		Roundups:                      b.roundups(),
	}
	if b.settings.MaxSplitSize < -1 {
		r.wrong(fieldMaxSplit, "a number of bytes, or -1 for no limit")
	}
	if x := b.settings.GarbageCollectionThreshold; !(x >= 0 && x < 1) {
		r.wrong(fieldGarbage, "a share from 0 to below 1")
	}
	return reference(classSettings, 0), nil
}

// roundups is the divisions of the current dict; an empty list of them is none.
func (b *builder) roundups() []Roundup {
	r := &b.row
	if !r.has(fieldRoundup) {
		return nil
	}
	switch v := r.values[fieldRoundup]; {
	case v.Kind() == pickle.None, v.Kind() == pickle.Dict && classOf(v) == classEmpty:
		return nil
	case classOf(v) == classNumbers:
		list := b.numbers[indexOf(v)]
		for _, roundup := range list {
			if roundup.FromMiB < 1 || roundup.Divisions < 0 {
				r.wrong(fieldRoundup, "numbers of MiB from 1, with divisions from 0")
				break
			}
		}
		return list
	}
	r.wrong(fieldRoundup, "a dict of numbers")
	return nil
}

// hasSettings reports whether the current dict, of the whole snapshot, has the
// allocator's settings. A dict of keys that nobody knows has none.
func (b *builder) hasSettings() bool {
	r := &b.row
	if !r.has(fieldSettings) || r.values[fieldSettings].Kind() == pickle.None {
		return false
	}
	v := r.values[fieldSettings]
	switch c := classOf(v); {
	case v.Kind() != pickle.Dict, c != classSettings && c != classEmpty && c != classUninteresting && c != classNumbers:
		r.wrong(fieldSettings, "a dict of settings")
		return false
	default:
		return c == classSettings
	}
}
