package snapshot

import (
	"io"
	"math"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
	"floodmark/timeline"
)

// class says what a container is; a reference is its class and an index.
type class uint8

const (
	classEmpty class = iota // a container that no builder has seen

	classFrame      // dict: index into stacks.Frames
	classEntry      // dict: index into entries
	classSegment    // dict: index into segments
	classBlock      // dict: index into blocks
	classHistory    // dict: index into histories
	classAnnotation // dict: index into annotations
	classSettings   // dict: the last one read
	classTop        // dict: the last one read
	classNumbers    // dict: index into numbers

	classStack         // list: index into stacks
	classEntries       // list: index into spans
	classSegments      // list: index into spans
	classBlocks        // list: index into spans
	classAnnotations   // list: index into spans
	classHistories     // list: index of its first history
	classTraces        // list: index into traces
	classPool          // list or tuple of two integers: index into pools
	classFirst         // tuple: counted by tuples
	classUninteresting // anything else
)

const classShift = 40

func reference(c class, index int) uint64 { return uint64(c)<<classShift | uint64(index) }

func classOf(v pickle.Value) class {
	switch v.Kind() {
	case pickle.Dict, pickle.List, pickle.Tuple:
		return class(v.Ref() >> classShift)
	}
	return classUninteresting
}

func indexOf(v pickle.Value) int { return int(v.Ref() & (1<<classShift - 1)) }

// span is consecutive rows.
type span struct {
	first, count int
	held         bool // something contains the list already
}

// history is an owner of a block, in PyTorch 2.0's form.
type history struct {
	requested int64
	stack     uint32
}

// top is the dict of the whole snapshot.
type top struct {
	segments, traces, annotations, hostSegments, hostTraces pickle.Value
	settings                                                bool
}

// builder makes columns of what the pickle or JSON reader hands over. Dicts are
// told apart by their keys, for they are finished before what contains them.
type builder struct {
	name    string
	strings *pickle.Strings
	words   []word // by string index
	row     row
	strange []uint32 // keys of the dict that is being read, unknown ones

	entries     entries
	segments    []Segment
	blocks      []Block
	histories   []history
	annotations []Annotation
	settings    Settings
	top         top
	numbers     [][]Roundup

	spans  []span
	traces [][]span
	first  pickle.Value // item of the tuple that was read last
	tuples int
	rows   int   // made so far
	most   int   // rows that the file may make
	beyond int64 // bytes that were read and lie behind the end

	stacks  stacks
	streams handles
	pools   pools
	unknown unknownKeys
	actions map[string]int // unknown actions and how often they were met
}

// word is what a string means as a key and as an action.
type word struct {
	known  bool
	field  field
	action Action
}

// newBuilder reads a file of that many bytes; what wraps the snapshot counts as
// it is.
func newBuilder(name string, size int64, strings *pickle.Strings, progress func() float64) *builder {
	return &builder{
		name:    name,
		most:    int(min(freeRows+size/rowPrice, math.MaxUint32)),
		strings: strings,
		row:     row{texts: strings},
		entries: entries{progress: progress},
		stacks:  newStacks(),
		streams: newHandles(),
		pools:   newPools(),
		unknown: unknownKeys{count: map[unknownKey]int{}},
		actions: map[string]int{},
	}
}

// A row (an entry, a block, a frame, a stack) takes some hundred bytes in the
// end. A file of any length may make a million; beyond them it must have paid
// for each with four bytes on the disk, which no compression of a real trace
// comes near: in 30 public snapshots, compressed by gzip -9, an entry, segment or
// block takes 5.8 bytes with its frames in the file that packs them closest.
const (
	freeRows = 1 << 20
	rowPrice = 4
)

// take counts rows, and refuses more than the file can have paid for.
func (b *builder) take(rows int) error {
	if b.rows += rows; b.rows > b.most {
		return source.InField("", "", "makes more than %d rows of a file that is too short for them", b.most).
			WithHint("if the file is yours and compressed, unpack it first")
	}
	return nil
}

// word looks a string up once.
func (b *builder) word(index uint32) *word {
	for int(index) >= len(b.words) {
		b.words = append(b.words, word{})
	}
	w := &b.words[index]
	if !w.known {
		text := b.strings.At(index)
		*w = word{known: true, field: fieldNamed(text), action: actionNamed(text)}
	}
	return w
}

// Tuple makes a pool of two integers; of another tuple only the first item is
// kept, for REDUCE.
func (b *builder) Tuple(items []pickle.Value) (pickle.Value, error) {
	if p, ok := poolOf(items); ok {
		ref, err := b.poolRef(p)
		return pickle.TupleRef(ref), err
	}
	if len(items) == 0 {
		return pickle.TupleRef(reference(classUninteresting, 0)), nil
	}
	b.first = items[0]
	b.tuples++
	return pickle.TupleRef(reference(classFirst, b.tuples)), nil
}

// reduce takes the type tags that PyTorch's C++ pickler may write: each is the
// identity on its first argument, and comes right after its arguments.
func (b *builder) reduce(_ uint32, arguments pickle.Value) (pickle.Value, error) {
	if classOf(arguments) != classFirst || indexOf(arguments) != b.tuples {
		return pickle.Value{}, b.misplaced(arguments, "(object, tag)")
	}
	return b.first, nil
}

// options allows the four names that PyTorch's C++ pickler may write.
func (b *builder) options() pickle.Options {
	const module = "torch.jit._pickle"
	return pickle.Options{
		Globals: []pickle.Name{
			{Module: module, Name: "restore_type_tag"},
			{Module: module, Name: "build_intlist"},
			{Module: module, Name: "build_doublelist"},
			{Module: module, Name: "build_boollist"},
		},
		Reduce:  b.reduce,
		Repeats: true,
		End:     func(beyond int) { b.beyond = int64(beyond) },
	}
}

// counter counts what was read of a stream of known size.
type counter struct {
	r    io.Reader
	read int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.read += int64(n)
	return n, err
}

var (
	_ pickle.Builder = (*builder)(nil)
	_ pickle.Counter = (*builder)(nil)
)

func (b *builder) stack(f field) uint32 {
	r := &b.row
	if !r.has(f) {
		return timeline.NoStack
	}
	v := r.values[f]
	switch {
	case v.Kind() == pickle.None, v.Kind() == pickle.List && classOf(v) == classEmpty:
		return timeline.NoStack
	case v.Kind() == pickle.List && classOf(v) == classStack:
		return uint32(indexOf(v))
	}
	r.wrong(f, "a list of frames")
	return timeline.NoStack
}
