package safetensors

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/internal/source"
)

// MaxIndex is the longest index that is read. The largest ones known have some
// 25 MB.
const MaxIndex = 128 << 20

// Index says which tensor is in which shard of a checkpoint.
type Index struct {
	Entries         []Entry  // in the order of the file; never empty
	Shards          []string // file names, sorted, each once
	TotalSize       Declared // metadata.total_size: bytes, as the writer counted them
	TotalParameters Declared // metadata.total_parameters
	Warnings        []account.Warning
}

// Entry is one tensor of an index.
type Entry struct {
	Name  string
	Shard int32 // its place in Index.Shards
}

// Declared is a number that an index declares, kept as the file writes it: real
// ones are whole, fractional ("13731385408.0"), 0, quoted, or absent.
type Declared struct {
	Text string // the number as written, without quotes; empty when absent
}

// Value is the number when it is a whole one that is not negative, whatever its
// spelling. It is what the file says, not what is true.
func (d Declared) Value() (int64, bool) {
	whole, fraction, _ := strings.Cut(d.Text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	return n, err == nil && n >= 0 && strings.Trim(fraction, "0") == ""
}

// ReadIndex reads an index in one pass. An empty weight_map, a Git LFS pointer,
// a comment, a key that stands twice, and text after the end are each a
// [source.FormatError]; a text that is no JSON object is
// [source.ErrNotThisFormat].
func ReadIndex(s source.Source) (*Index, error) {
	if s.Size() > MaxIndex {
		return nil, source.InField(s.Name(), "", "has %d bytes, more than the %d that an index may have", s.Size(), MaxIndex)
	}
	if err := source.RefusePointer(s); err != nil {
		return nil, err
	}
	text, err := readText(source.Stream(s), s.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	p := &indexParser{scanner: scanner{file: s.Name(), text: text}}
	if c := p.space(); c != '{' && c != '/' {
		return nil, notThis(s.Name(), "is not an index: expected a JSON object")
	}
	if err := p.parse(); err != nil {
		return nil, err
	}
	p.sortShards()
	p.warn()
	return &p.index, nil
}

// indexParser holds what entries share while an index is read.
type indexParser struct {
	scanner
	index    Index
	shards   map[string]int32
	previous Entry // most neighbours are in one shard
}

func (p *indexParser) parse() error {
	seen := map[string]struct{}{}
	err := p.object(func(key string, at int) error {
		if err := p.once(seen, key, at, maxMetadata); err != nil {
			return err
		}
		switch key {
		case "metadata":
			return p.metadata()
		case "weight_map":
			return p.weightMap()
		}
		return p.skip()
	})
	if err != nil {
		return err
	}
	if p.space(); p.pos < len(p.text) {
		return p.fail(p.pos, "has %d bytes after the end of the index", len(p.text)-p.pos).
			WithHint("keep the first %d bytes of the file, or fetch it again", p.pos)
	}
	if len(p.index.Entries) == 0 {
		return source.InField(p.file, "weight_map", "is absent or names no tensor").
			WithHint("name a weight file itself, or fetch the index again")
	}
	return nil
}

// metadata keeps the two numbers that writers declare and skips the rest.
func (p *indexParser) metadata() error {
	if p.null() {
		return nil
	}
	seen := map[string]struct{}{}
	return p.object(func(key string, at int) (err error) {
		if err := p.once(seen, key, at, maxMetadata); err != nil {
			return err
		}
		switch key {
		case "total_size":
			p.index.TotalSize, err = p.declared()
		case "total_parameters":
			p.index.TotalParameters, err = p.declared()
		default:
			err = p.skip()
		}
		return err
	})
}

// declared reads a number, or a text that is to be one.
func (p *indexParser) declared() (d Declared, err error) {
	switch {
	case p.null():
	case p.space() == '"':
		d.Text, err = p.str()
	default:
		d.Text, err = p.number()
	}
	return d, err
}

// weightMap reads the map from tensors to files.
func (p *indexParser) weightMap() error {
	// An entry of a real index takes about a hundred bytes.
	expected := len(p.text) / 96
	p.index.Entries = make([]Entry, 0, expected)
	p.shards = map[string]int32{}
	names := make(map[string]struct{}, expected)
	return p.object(func(name string, at int) error {
		if err := p.once(names, name, at, maxTensors); err != nil {
			return err
		}
		shard, err := p.shard()
		if err != nil {
			return err
		}
		p.index.Entries = append(p.index.Entries, Entry{Name: name, Shard: shard})
		return nil
	})
}

// shard reads a file name and finds its number.
func (p *indexParser) shard() (int32, error) {
	p.space()
	at := p.pos
	file, err := p.str()
	if err != nil {
		return 0, err
	}
	if file == p.previous.Name && len(p.index.Shards) > 0 {
		return p.previous.Shard, nil
	}
	n, known := p.shards[file]
	if !known {
		// A file outside the index's own folder is nobody's shard.
		if !filepath.IsLocal(file) {
			return 0, p.fail(at, "%q is not the name of a file in the index's folder", clip(file))
		}
		n = int32(len(p.index.Shards))
		p.index.Shards = append(p.index.Shards, file)
		p.shards[file] = n
	}
	p.previous = Entry{Name: file, Shard: n}
	return n, nil
}

// sortShards puts the shards in order and renumbers the entries.
func (p *indexParser) sortShards() {
	slices.Sort(p.index.Shards)
	place := make([]int32, len(p.index.Shards))
	for i, file := range p.index.Shards {
		place[p.shards[file]] = int32(i)
	}
	for i := range p.index.Entries {
		e := &p.index.Entries[i]
		e.Shard = place[e.Shard]
	}
}

// warn says what a declared total cannot be used for.
func (p *indexParser) warn() {
	say := func(code, format string, args ...any) {
		p.index.Warnings = append(p.index.Warnings, account.Warning{Code: code, Text: p.file + ": " + fmt.Sprintf(format, args...)})
	}
	total := p.index.TotalSize
	n, whole := total.Value()
	switch {
	case total.Text == "":
		say("total_size_absent", "the index does not declare a total_size")
	case !whole:
		say("total_size_not_whole", "the index declares a total_size of %q, which is not a whole number of bytes", clip(total.Text))
	case n == 0:
		say("total_size_zero", "the index declares a total_size of 0 for %d tensors", len(p.index.Entries))
	case strings.Contains(total.Text, "."):
		say("total_size_fractional", "the index declares a total_size of %s; writers that use a fraction have counted bool tensors as bits", total.Text)
	}
}
