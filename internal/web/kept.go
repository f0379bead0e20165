package web

import (
	"bytes"
	"encoding/binary"
	"slices"

	"floodmark"
)

// keptTrace is as much of a trace as one file holds: the whole of it at a few levels
// of detail, and the largest allocations one by one.
type keptTrace struct {
	Devices []keptDevice `json:"devices"`
}

type keptDevice struct {
	floodmark.TracedDevice
	Levels   [][]byte                  `json:"levels"`   // [levelColumns], coarse to fine, as base64
	Segments []floodmark.TracedSegment `json:"segments"` // of the peak; null where they are too many
	Largest  []keptAllocation          `json:"largest"`
	Stacks   [][]int                   `json:"stacks"` // indexes into Frames, innermost first
	Frames   []string                  `json:"frames"`
}

type keptAllocation struct {
	Bytes    int64  `json:"bytes"`
	Born     int    `json:"born"`
	Freed    int    `json:"freed"`
	Category int    `json:"category"` // index into the categories; −1 is unattributed
	Stream   string `json:"stream"`
	Stack    int    `json:"stack"` // index into Stacks, −1 for none
}

// keptShare is how much of each device a file may hold, so that the whole stays under
// 5 MB: a column of a level takes 11 bytes a bucket as base64.
type keptShare struct {
	buckets     int // of the finest level
	allocations int
	blocks      int // within segments
	text        int // bytes of distinct frames
}

const (
	coarsest     = 512
	finer        = 4   // times as many buckets in the next level
	maxFrameText = 200 // of one frame
)

// kept takes a trace down; of none nothing is kept.
func kept(t *floodmark.Trace) keptTrace {
	var k keptTrace
	if t == nil {
		return k
	}
	devices := t.Devices()
	n := max(len(devices), 1)
	share := keptShare{buckets: max(64, 6144/n), allocations: max(16, 2000/n), blocks: 4000 / n, text: (1 << 20) / n}
	for i, d := range devices {
		k.Devices = append(k.Devices, share.device(t, i, d))
	}
	return k
}

// device takes a device of a trace down to its share. The questions are those of a
// view, whose answers are never refused for a device that is there.
func (s keptShare) device(t *floodmark.Trace, i int, d floodmark.TracedDevice) keptDevice {
	k := keptDevice{TracedDevice: d, Levels: [][]byte{}, Largest: []keptAllocation{}, Stacks: [][]int{}, Frames: []string{}}
	for n := min(coarsest, s.buckets); d.Moments > 0; n = min(n*finer, s.buckets) {
		if l, err := t.Levels(i, 0, d.Moments, n); err == nil {
			k.Levels = append(k.Levels, levelColumns(l))
		}
		if n >= s.buckets || n >= d.Moments {
			break
		}
	}
	if list, err := t.Segments(i, d.PeakMoment); err == nil && blocksOf(list) <= s.blocks {
		k.Segments = list
	}
	frames := frameTable{device: &k, left: s.text, seen: map[string]int{}, stacks: map[string]int{}}
	largest, _ := t.Allocations(i, 0, max(d.Moments, 1), s.allocations)
	for _, a := range largest {
		k.Largest = append(k.Largest, keptAllocation{a.Bytes, a.Born, a.Freed, slices.Index(d.Categories, a.Category), a.Stream, frames.stack(a.Stack)})
	}
	return k
}

func blocksOf(list []floodmark.TracedSegment) int {
	n := len(list)
	for _, s := range list {
		n += len(s.Blocks)
	}
	return n
}

// levelColumns are the columns of a level as 64-bit little-endian integers: a count
// of buckets and one of categories, then first, low, high and reserved of each bucket,
// then the shares.
func levelColumns(l floodmark.TraceLevels) []byte {
	categories := 0
	if len(l.First) > 0 {
		categories = len(l.Shares) / len(l.First)
	}
	var b bytes.Buffer
	for _, column := range [][]int64{{int64(len(l.First)), int64(categories)}, l.First, l.Low, l.High, l.Reserved, l.Shares} {
		_ = binary.Write(&b, binary.LittleEndian, column) // a buffer takes everything
	}
	return b.Bytes()
}

// frameTable keeps each stack and frame once, and stops keeping frames when their
// text has used up its share.
type frameTable struct {
	device *keptDevice
	left   int
	seen   map[string]int
	stacks map[string]int
}

func (t *frameTable) stack(frames []string) int {
	var list []int
	var key []byte
	for _, f := range frames {
		if i, kept := t.frame(f); kept {
			list = append(list, i)
			key = binary.AppendVarint(key, int64(i))
		}
	}
	if len(list) == 0 {
		return -1
	}
	i, known := t.stacks[string(key)]
	if !known {
		i = len(t.device.Stacks)
		t.device.Stacks = append(t.device.Stacks, list)
		t.stacks[string(key)] = i
	}
	return i
}

func (t *frameTable) frame(text string) (int, bool) {
	if len(text) > maxFrameText {
		text = text[:maxFrameText] + "…"
	}
	if i, seen := t.seen[text]; seen {
		return i, true
	}
	if t.left -= len(text); t.left < 0 {
		return 0, false
	}
	t.device.Frames = append(t.device.Frames, text)
	t.seen[text] = len(t.device.Frames) - 1
	return t.seen[text], true
}
