package torchfile

import (
	"cmp"
	"encoding/binary"
	"io"
	"slices"
	"strings"

	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// Signatures and fixed sizes of APPNOTE.TXT, sections 4.3.7 to 4.3.16.
const (
	localSignature     = "PK\x03\x04"
	directorySignature = "PK\x01\x02"
	end64Signature     = "PK\x06\x06"
	locatorSignature   = "PK\x06\x07"
	endSignature       = "PK\x05\x06"

	localSize     = 30
	directorySize = 46
	end64Size     = 56
	locatorSize   = 20
	endSize       = 22

	maxDirectory = 64 << 20 // bytes; a checkpoint of 100,000 tensors has some 10 MB
	maxComment   = 1<<16 - 1
	full16       = 1<<16 - 1 // "see the zip64 record"
	full32       = 1<<32 - 1
)

// record is one stored file of the container.
type record struct {
	name   string
	header int64 // offset of its local header
	data   int64 // offset of its bytes
	size   int64
}

// archive is the list of contents of a zip file. We read it ourselves, because
// a torch file never compresses: a record that does is refused, so that no
// record can be larger than the file.
type archive struct {
	source  source.Source
	records []record
	byName  map[string]int
}

func (a *archive) fail(at int64, format string, args ...any) *source.FormatError {
	return source.AtByte(a.source.Name(), at, format, args...)
}

// bytes reads n bytes at an offset; the caller has checked that they are there.
func (a *archive) bytes(at, n int64) ([]byte, error) {
	if at < 0 || n < 0 || at > a.source.Size()-n {
		return nil, a.fail(at, "%d bytes are expected here, but the file has %d in all", n, a.source.Size())
	}
	out := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(a.source, at, n), out); err != nil {
		return nil, a.fail(at, "%d bytes cannot be read: %v", n, err)
	}
	return out, nil
}

// openArchive reads the directory and checks that its records lie side by side.
func openArchive(s source.Source) (*archive, error) {
	a := &archive{source: s, byName: map[string]int{}}
	at, size, count, err := a.directory()
	if err != nil {
		return nil, err
	}
	switch {
	case size > maxDirectory || count > size/directorySize:
		return nil, a.fail(at, "the zip directory is said to have %d entries in %d bytes", count, size)
	case at > s.Size()-size:
		return nil, a.fail(at, "the zip directory is said to have %d bytes, more than are left", size)
	}
	listing, err := a.bytes(at, size)
	if err != nil {
		return nil, err
	}
	if err := a.list(string(listing), at, count); err != nil {
		return nil, err
	}
	return a, a.separate(at)
}

// directory finds where the directory is, by the record at the end of the file
// and, in a large file, the zip64 record that it defers to.
func (a *archive) directory() (at, size, count int64, err error) {
	tail := min(a.source.Size(), endSize+maxComment)
	start := a.source.Size() - tail
	end, err := a.bytes(start, tail)
	if err != nil {
		return 0, 0, 0, err
	}
	i := strings.LastIndex(string(end), endSignature)
	if i < 0 || len(end)-i < endSize {
		return 0, 0, 0, a.fail(start, "the zip directory is not found at the end of the file").
			WithHint("the file is cut off: fetch it again")
	}
	record := end[i:]
	n, bytes, offset := u16(record, 10), u32(record, 12), u32(record, 16)
	if n != full16 && bytes != full32 && offset != full32 {
		return offset, bytes, n, nil
	}
	return a.directory64(start + int64(i))
}

// directory64 follows the locator in front of the end record.
func (a *archive) directory64(end int64) (at, size, count int64, err error) {
	locator, err := a.bytes(end-locatorSize, locatorSize)
	if err != nil {
		return 0, 0, 0, err
	}
	if string(locator[:4]) != locatorSignature {
		return 0, 0, 0, a.fail(end-locatorSize, "the locator of the zip64 directory is missing")
	}
	where := u64(locator, 8)
	record, err := a.bytes(where, end64Size)
	if err != nil {
		return 0, 0, 0, err
	}
	if string(record[:4]) != end64Signature {
		return 0, 0, 0, a.fail(where, "the zip64 directory is missing")
	}
	count, size, at = u64(record, 32), u64(record, 40), u64(record, 48)
	if count < 0 || size < 0 || at < 0 {
		return 0, 0, 0, a.fail(where, "the zip64 directory has sizes of 2⁶³ and more")
	}
	return at, size, count, nil
}

// list reads the directory's entries.
func (a *archive) list(text string, base, count int64) error {
	pos := 0
	for n := int64(0); n < count; n++ {
		at := base + int64(pos)
		rest := text[pos:]
		if len(rest) < directorySize || rest[:4] != directorySignature {
			return a.fail(at, "entry %d of the zip directory is missing", n+1)
		}
		head := []byte(rest[:directorySize])
		name, extra, comment := int(u16(head, 28)), int(u16(head, 30)), int(u16(head, 32))
		length := directorySize + name + extra + comment
		if length > len(rest) {
			return a.fail(at, "entry %d of the zip directory is longer than the directory", n+1)
		}
		r := record{name: rest[directorySize : directorySize+name]}
		if err := a.entry(&r, head, []byte(rest[directorySize+name:directorySize+name+extra]), at); err != nil {
			return err
		}
		if _, twice := a.byName[r.name]; twice {
			return a.fail(at, "the record %q stands twice in the zip directory", clip(r.name))
		}
		a.byName[r.name] = len(a.records)
		a.records = append(a.records, r)
		pos += length
	}
	return nil
}

// entry reads an entry's sizes and place, and follows it to its local header.
func (a *archive) entry(r *record, head, extra []byte, at int64) error {
	flags, method := u16(head, 8), u16(head, 10)
	sizes := [3]int64{u32(head, 24), u32(head, 20), u32(head, 42)} // uncompressed, compressed, place
	if !zip64(extra, &sizes) {
		return a.fail(at, "the record %q has a size of 4 GiB or more without a zip64 field", clip(r.name))
	}
	if flags&1 != 0 || method != 0 || sizes[0] != sizes[1] {
		return a.fail(at, "the record %q is compressed or encrypted, which torch.save does not do", clip(r.name)).
			WithHint("it is not a file of torch.save, or somebody packed it again: unpack it, and name what is inside")
	}
	r.size, r.header = sizes[0], sizes[2]
	local, err := a.bytes(r.header, localSize)
	if err != nil {
		return err
	}
	if string(local[:4]) != localSignature {
		return a.fail(r.header, "the record %q is not where the zip directory says", clip(r.name))
	}
	r.data = r.header + localSize + u16(local, 26) + u16(local, 28)
	if r.size < 0 || r.data > a.source.Size()-r.size {
		return a.fail(at, "the record %q is said to have %d bytes, more than are left", clip(r.name), r.size).
			WithHint("the file is cut off: fetch it again")
	}
	return nil
}

// zip64 takes the values that did not fit in 32 bits from the extra field 1,
// which holds just those, in order (APPNOTE.TXT 4.5.3).
func zip64(extra []byte, values *[3]int64) bool {
	var wide []byte
	for len(extra) >= 4 {
		id, n := u16(extra, 0), int(u16(extra, 2))
		if n > len(extra)-4 {
			break
		}
		if id == 1 {
			wide = extra[4 : 4+n]
		}
		extra = extra[4+n:]
	}
	for i, v := range values {
		if v != full32 {
			continue
		}
		if len(wide) < 8 {
			return false
		}
		values[i] = u64(wide, 0)
		wide = wide[8:]
	}
	return true
}

// separate refuses records that share bytes with another or with the directory:
// that is how a small zip pretends to hold much.
func (a *archive) separate(directory int64) error {
	order := slices.Clone(a.records)
	sorting.By(order, func(i, j int) int {
		x, y := order[i], order[j]
		return cmp.Or(cmp.Compare(x.header, y.header), cmp.Compare(x.size, y.size))
	})
	end := int64(0)
	for _, r := range order {
		if r.header < end {
			return a.fail(r.header, "the record %q shares bytes with another", clip(r.name))
		}
		end = r.data + r.size
	}
	if end > directory {
		return a.fail(directory, "a record reaches into the zip directory")
	}
	return nil
}

// Little-endian numbers at an offset of a slice that is long enough. A u64 of
// 2⁶³ and above comes out negative, and is refused where it is used.
func u16(b []byte, at int) int64 { return int64(binary.LittleEndian.Uint16(b[at:])) }
func u32(b []byte, at int) int64 { return int64(binary.LittleEndian.Uint32(b[at:])) }
func u64(b []byte, at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }

// clip shortens a text from a file for a message.
func clip(text string) string {
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
