package torchfile

import (
	"io"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// Bounds of what a file may make this program remember.
const (
	maxPickle = 256 << 20 // bytes of data.pkl; some 300 bytes a tensor
	maxNames  = 64 << 20  // bytes of all names together
)

// Storage is a run of bytes that tensors view.
type Storage struct {
	Key      string       // its name in the file
	Format   dtype.Format // Unknown for a storage of bytes (torch.UntypedStorage)
	Location string       // where it was when it was saved, "cpu" or "cuda:0"
	Elements int64
	Bytes    int64
}

// Tensor is one tensor of a file: a view of a storage.
type Tensor struct {
	Name    string // the keys that lead to it, joined by points; empty for a file that is one tensor
	Format  dtype.Format
	Shape   []int64
	Stride  []int64 // in elements
	Offset  int64   // of its first element in the storage, in elements
	Storage int     // its place in File.Storages
	Bytes   int64   // of its elements; 0 strides and gaps make it differ from the storage
}

// File is what a file holds.
type File struct {
	Legacy   bool     // the form before PyTorch 1.6
	Tensors  []Tensor // in the order of the file; one that stands twice has two names
	Storages []Storage
	Data     int64 // all storages together, in bytes: each counted once
}

// Read reads a file of torch.save. A file of neither form is
// [source.ErrNotThisFormat]; a TorchScript program, a compressed container, a
// pickle that names other code, and a storage that is not there whole are each
// a [source.FormatError].
func Read(s source.Source) (*File, error) {
	if err := source.RefusePointer(s); err != nil {
		return nil, err
	}
	head, err := source.Head(s, legacyHead)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(string(head), localSignature):
		return readZip(s)
	case strings.HasPrefix(string(head), legacyMagic):
		return readLegacy(s, string(head))
	}
	return nil, notThis(s, "is neither a zip container nor a pickle of torch.save")
}

// notThis is a message that also lets the caller try another format.
func notThis(s source.Source, msg string) error {
	return &source.FormatError{File: s.Name(), Offset: -1, Msg: msg, Err: source.ErrNotThisFormat}
}

// readZip reads the container: NAME/data.pkl, and a record NAME/data/KEY for
// each storage.
func readZip(s source.Source) (*File, error) {
	a, err := openArchive(s)
	if err != nil {
		return nil, err
	}
	root, ok := a.root()
	if !ok {
		return nil, notThis(s, "is a zip file without a data.pkl, so torch.save did not write it")
	}
	if a.script(root) {
		return nil, source.InField(s.Name(), root+"/code", "is a TorchScript program, not a checkpoint of tensors").
			WithHint("save its state_dict with torch.save, or better with safetensors")
	}
	pickled := a.records[a.byName[root+"/data.pkl"]]
	if pickled.size > maxPickle {
		return nil, source.InField(s.Name(), pickled.name, "has %d bytes, more than the %d that it may have", pickled.size, maxPickle)
	}
	b := newBuilder()
	f, err := b.read(io.NewSectionReader(s, pickled.data, pickled.size), s.Name()+": data.pkl", pickled.size)
	if err != nil {
		return nil, err
	}
	for _, storage := range f.Storages {
		name := root + "/data/" + storage.Key
		i, there := a.byName[name]
		if !there {
			return nil, source.InField(s.Name(), clip(name), "is missing: a tensor needs its %d bytes", storage.Bytes)
		}
		if size := a.records[i].size; size != storage.Bytes {
			return nil, source.InField(s.Name(), clip(name), "has %d bytes, but its tensors need %d", size, storage.Bytes)
		}
	}
	return f, nil
}

// root is the folder that holds data.pkl.
func (a *archive) root() (string, bool) {
	for _, r := range a.records {
		if root, found := strings.CutSuffix(r.name, "/data.pkl"); found && !strings.Contains(root, "/") {
			return root, true
		}
	}
	return "", false
}

// script reports a TorchScript archive, by the record that torch.load looks for.
func (a *archive) script(root string) bool {
	_, found := a.byName[root+"/constants.pkl"]
	return found
}

// read reads one pickle and gathers the tensors that can be reached in it.
func (b *builder) read(r io.Reader, name string, size int64) (*File, error) {
	root, err := pickle.Read(r, name, size, b.strings, b, b.options())
	if err != nil {
		return nil, err
	}
	f := &File{Storages: b.storages}
	if f.Tensors, err = b.reach(root, name); err != nil {
		return nil, err
	}
	for _, s := range f.Storages {
		var fits bool
		if f.Data, fits = bytesize.Add(f.Data, s.Bytes); !fits {
			return nil, source.InField(name, "", "its storages have more bytes than 63 bits count")
		}
	}
	return f, nil
}

// frame is a container that is being walked.
type frame struct {
	prefix string
	items  []pickle.Value
	dict   bool
	next   int
}

// step takes the next item of a frame and where it stands.
func (f *frame) step() (at int, item pickle.Value) {
	at = f.next
	if f.dict {
		f.next += 2
		return at, f.items[at+1]
	}
	f.next++
	return at, f.items[at]
}

// reach walks the containers in the order of the file, each of them once, and
// names the tensors by the keys that lead to them.
func (b *builder) reach(root pickle.Value, name string) ([]Tensor, error) {
	var found []Tensor
	letters := 0
	seen := make([]bool, len(b.nodes)+1)
	stack := []frame{{items: []pickle.Value{root}}}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if top.next >= len(top.items) {
			stack = stack[:len(stack)-1]
			continue
		}
		at, item := top.step()
		n := b.at(item)
		if n.kind == storageNode || n.kind == plain && (len(n.items) == 0 || seen[item.Ref()]) {
			continue
		}
		path := ""
		if len(stack) > 1 {
			path = b.path(top, at)
		}
		if letters += len(path); letters > maxNames {
			return nil, source.InField(name, "", "its tensors have names of more than %d bytes together", maxNames)
		}
		if n.kind == tensorNode {
			t := b.tensors[n.index]
			t.Name = path
			found = append(found, t)
			continue
		}
		seen[item.Ref()] = true
		stack = append(stack, frame{prefix: path, items: n.items, dict: item.Kind() == pickle.Dict})
	}
	return found, nil
}

// path joins the keys on the way to an item by points.
func (b *builder) path(f *frame, at int) string {
	key := strconv.Itoa(at)
	if f.dict {
		key = b.strings.At(f.items[at].Index())
	}
	if f.prefix == "" {
		return key
	}
	return f.prefix + "." + key
}
