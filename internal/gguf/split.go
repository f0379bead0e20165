package gguf

import (
	"fmt"
	"regexp"
	"strconv"

	"floodmark/internal/source"
)

// Split is a file's place among the parts of a model; Count is 0 in a file that
// stands alone. The keys are split.no, split.count and split.tensors.count.
type Split struct {
	No      int   // from 0
	Count   int   // of parts
	Tensors int64 // in all parts together
}

// split reads the place of a file among its parts.
func (r *reader) split(f *File) {
	count, ok := f.Value("split.count").Int()
	if r.err != nil || !ok || count == 0 {
		return
	}
	no, hasNo := f.Value("split.no").Int()
	tensors, hasTensors := f.Value("split.tensors.count").Int()
	switch {
	case count < 0 || count > 99_999:
		r.fail(source.InField(f.Name, "split.count", "is %d, expected at most the 99999 that five digits count", count))
	case !hasNo || no < 0 || no >= count:
		r.fail(source.InField(f.Name, "split.no", "is %d of %d parts, expected one from 0 to %d", no, count, count-1))
	case !hasTensors || tensors < int64(len(f.Tensors)):
		r.fail(source.InField(f.Name, "split.tensors.count", "is %d in all parts, but this one has %d", tensors, len(f.Tensors)))
	default:
		f.Split = Split{No: int(no), Count: int(count), Tensors: tensors}
	}
}

// CheckParts says whether the parts of a split model, in their order, are a
// whole: each in its place, no tensor twice, and as many tensors as the first
// part says. An error is a [source.FormatError] about the part that breaks this.
func CheckParts(parts []*File) error {
	names := map[string]string{}
	for i, part := range parts {
		if want := (Split{No: i, Count: len(parts), Tensors: parts[0].Split.Tensors}); part.Split != want {
			return source.InField(part.Name, "split", "is part %d of %d with %d tensors in all, expected part %d of %d with %d",
				part.Split.No+1, part.Split.Count, part.Split.Tensors, want.No+1, want.Count, want.Tensors)
		}
		for _, t := range part.Tensors {
			if other, twice := names[t.Name]; twice {
				return source.InField(part.Name, t.Name, "is in %s too", other)
			}
			names[t.Name] = part.Name
		}
	}
	if len(parts) > 0 && int64(len(names)) != parts[0].Split.Tensors {
		return source.InField(parts[0].Name, "split.tensors.count", "is %d, but the %d parts have %d tensors", parts[0].Split.Tensors, len(parts), len(names))
	}
	return nil
}

// PartName is the name of a part: prefix-00002-of-00005.gguf.
type PartName struct {
	Prefix    string
	No, Count int // No from 1, as names count
}

var partName = regexp.MustCompile(`^(.*)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// ParsePartName reads a file's name (or path); false when it is not a part's.
func ParsePartName(name string) (PartName, bool) {
	m := partName.FindStringSubmatch(name)
	if m == nil {
		return PartName{}, false
	}
	no, _ := strconv.Atoi(m[2])
	count, _ := strconv.Atoi(m[3])
	return PartName{Prefix: m[1], No: no, Count: count}, no >= 1 && no <= count
}

// All are the names of all parts, the first one first.
func (n PartName) All() []string {
	names := make([]string, n.Count)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%05d-of-%05d.gguf", n.Prefix, i+1, n.Count)
	}
	return names
}
