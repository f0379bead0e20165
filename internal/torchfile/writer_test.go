package torchfile

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// The pickle opcodes of protocol 2 that torch.save uses, as functions that give
// their bytes (CPython's pickletools documents them).

func text(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}
func number(n int64) string {
	return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, uint64(n)))
}
func name(module, name string) string { return "c" + module + "\n" + name + "\n" }
func tuple(items ...string) string    { return "(" + strings.Join(items, "") + "t" }
func list(items ...string) string     { return "](" + strings.Join(items, "") + "e" }
func dict(items ...string) string     { return "}(" + strings.Join(items, "") + "u" }
func call(callable string, args ...string) string {
	return callable + tuple(args...) + "R"
}
func pickled(root string) string { return "\x80\x02" + root + "." }

const (
	none      = "N"
	falsehood = "\x89"
)

func numbers(n ...int64) string {
	items := make([]string, len(n))
	for i := range n {
		items[i] = number(n[i])
	}
	return tuple(items...)
}

// storage is a persistent id, as _save writes it.
func storage(class, key string, n int64) string {
	return tuple(text("storage"), name("torch", class), text(key), text("cpu"), number(n)) + "Q"
}

// tensor is a call of _rebuild_tensor_v2.
func tensor(storage string, offset int64, shape, stride string) string {
	return call(name("torch._utils", "_rebuild_tensor_v2"), storage, number(offset), shape, stride, falsehood, call(name("collections", "OrderedDict")))
}

// content is a record of a container.
type content struct{ name, data string }

// container lays records out as a zip file without compression, after
// APPNOTE.TXT 4.3; wide writes the zip64 forms of sizes, places and directory.
type container struct {
	records []content
	wide    bool
}

func le(width int, n uint64) string {
	return string(binary.LittleEndian.AppendUint64(nil, n)[:width])
}

func (c container) file() []byte {
	var out, directory strings.Builder
	for _, r := range c.records {
		at, size := uint64(out.Len()), uint64(len(r.data))
		out.WriteString(localSignature + strings.Repeat("\x00", 14) + le(4, size) + le(4, size) + le(2, uint64(len(r.name))) + le(2, 0) + r.name + r.data)
		directory.WriteString(c.entry(r.name, size, at))
	}
	at, size, n := uint64(out.Len()), uint64(directory.Len()), uint64(len(c.records))
	out.WriteString(directory.String())
	end := endSignature + le(4, 0) + le(2, n) + le(2, n) + le(4, size) + le(4, at) + le(2, 0)
	if c.wide {
		out.WriteString(end64Signature + le(8, 44) + le(4, 0) + le(8, 0) + le(8, n) + le(8, n) + le(8, size) + le(8, at))
		out.WriteString(locatorSignature + le(4, 0) + le(8, at+size) + le(4, 1))
		end = endSignature + le(4, 0) + le(2, full16) + le(2, full16) + le(4, full32) + le(4, full32) + le(2, 0)
	}
	return []byte(out.String() + end)
}

func (c container) entry(name string, size, at uint64) string {
	extra, size32, at32 := "", size, at
	if c.wide {
		extra = le(2, 7) + le(2, 1) + "x" + le(2, 1) + le(2, 24) + le(8, size) + le(8, size) + le(8, at)
		size32, at32 = full32, full32
	}
	return directorySignature + strings.Repeat("\x00", 16) + le(4, size32) + le(4, size32) +
		le(2, uint64(len(name))) + le(2, uint64(len(extra))) + strings.Repeat("\x00", 10) + le(4, at32) + name + extra
}

// checkpoint is a container with a pickle and storages of zeros under the keys
// "0", "1", ….
func checkpoint(root string, storages ...int) []byte {
	c := container{records: []content{{"model/data.pkl", pickled(root)}}}
	for key, size := range storages {
		c.records = append(c.records, content{fmt.Sprint("model/data/", key), strings.Repeat("\x00", size)})
	}
	return c.file()
}
