package torchfile

import (
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

// maxDims is PyTorch's own limit (kMaxDim of its dimension list).
const maxDims = 64

// nodeKind says what a reference of the builder stands for. The pickle reader
// has no kind of its own for tensors and storages; they travel as tuples.
type nodeKind uint8

const (
	plain nodeKind = iota // a dict, list or tuple: items
	tensorNode
	storageNode
)

type node struct {
	kind  nodeKind
	index int            // of a tensor or storage
	items []pickle.Value // of a container; keys and values of a dict alternate
}

// builder turns the containers of a pickle into nodes. A reference is a node's
// index and one.
type builder struct {
	strings  *pickle.Strings
	globals  []global
	nodes    []node
	storages []Storage
	byKey    map[string]int
	tensors  []Tensor
}

func newBuilder() *builder {
	return &builder{strings: pickle.NewStrings(), globals: globals(), byKey: map[string]int{}}
}

// options are the callbacks by which the builder sees what is no plain data.
func (b *builder) options() pickle.Options {
	return pickle.Options{Globals: names(b.globals), Reduce: b.reduce, Build: b.build, Persistent: b.persistent}
}

// add makes a node and gives its reference.
func (b *builder) add(n node) uint64 {
	b.nodes = append(b.nodes, n)
	return uint64(len(b.nodes))
}

// extend adds items to a container's node, making one for an empty container.
func (b *builder) extend(ref uint64, items []pickle.Value) uint64 {
	if ref == 0 {
		ref = b.add(node{})
	}
	n := &b.nodes[ref-1]
	n.items = append(n.items, items...)
	return ref
}

// SetItems implements [pickle.Builder].
func (b *builder) SetItems(dict pickle.Value, items []pickle.Value) (pickle.Value, error) {
	return pickle.DictRef(b.extend(dict.Ref(), items)), nil
}

// Append implements [pickle.Builder].
func (b *builder) Append(list pickle.Value, items []pickle.Value) (pickle.Value, error) {
	return pickle.ListRef(b.extend(list.Ref(), items)), nil
}

// Tuple implements [pickle.Builder].
func (b *builder) Tuple(items []pickle.Value) (pickle.Value, error) {
	return pickle.TupleRef(b.extend(0, items)), nil
}

// at is the node of a container; an empty one for an empty container and for
// what is none.
func (b *builder) at(v pickle.Value) node {
	switch v.Kind() {
	case pickle.Dict, pickle.List, pickle.Tuple:
		if ref := v.Ref(); ref > 0 && ref <= uint64(len(b.nodes)) {
			return b.nodes[ref-1]
		}
	}
	return node{}
}

// malformed is an error that the pickle reader gives its place.
func malformed(format string, args ...any) error {
	return source.AtByte("", -1, format, args...)
}

// reduce makes what a call of a listed name would make.
func (b *builder) reduce(index uint32, arguments pickle.Value) (pickle.Value, error) {
	g := b.globals[index]
	args := b.at(arguments).items
	switch g.role {
	case rebuildTensor:
		if len(args) >= 4 {
			return b.tensor(args, dtype.Unknown)
		}
	case rebuildTensorV3:
		if len(args) >= 7 {
			format, err := b.elementType(args[6])
			if err != nil {
				return pickle.Value{}, err
			}
			return b.tensor(args, format)
		}
	case rebuildParameter:
		if len(args) >= 1 && args[0].Kind() == pickle.Tuple && b.at(args[0]).kind == tensorNode {
			return args[0], nil
		}
	case orderedDict:
		return b.orderedDict(args)
	case torchSize:
		if len(args) == 1 && args[0].Kind() == pickle.Tuple {
			return args[0], nil
		}
	default:
		return pickle.Value{}, malformed("%s.%s is called, which no checkpoint of tensors does", g.name.Module, g.name.Name)
	}
	return pickle.Value{}, malformed("%s.%s is called with other arguments than PyTorch gives it", g.name.Module, g.name.Name)
}

// orderedDict makes an empty dict, or one of the pairs that Python 2 passed.
func (b *builder) orderedDict(args []pickle.Value) (pickle.Value, error) {
	dict := b.add(node{})
	if len(args) == 0 {
		return pickle.DictRef(dict), nil
	}
	for _, pair := range b.at(args[0]).items {
		items := b.at(pair).items
		if len(items) != 2 || items[0].Kind() != pickle.String {
			return pickle.Value{}, malformed("an OrderedDict is made of something other than pairs with a name first")
		}
		b.extend(dict, items)
	}
	return pickle.DictRef(dict), nil
}

// build passes over the attributes of an object: a state dict has _metadata.
func (b *builder) build(object, _ pickle.Value) (pickle.Value, error) {
	if object.Kind() != pickle.Dict {
		return pickle.Value{}, malformed("a %s gets attributes, which only a state dict does", object.Kind())
	}
	return object, nil
}

// elementType is the format of a torch dtype.
func (b *builder) elementType(v pickle.Value) (dtype.Format, error) {
	if v.Kind() != pickle.Global || b.globals[v.Index()].role != elementType {
		return dtype.Unknown, malformed("a %s stands where a torch dtype is expected", v.Kind())
	}
	return b.globals[v.Index()].format, nil
}

// persistent makes the storage that ('storage', class, key, location, numel)
// names; the older form has a view at its end, which is None.
func (b *builder) persistent(id pickle.Value) (pickle.Value, error) {
	args := b.at(id).items
	if id.Kind() != pickle.Tuple || len(args) < 5 || len(args) > 6 || args[0].Kind() != pickle.String || b.strings.At(args[0].Index()) != "storage" {
		return pickle.Value{}, malformed("a persistent id is not that of a storage")
	}
	if len(args) == 6 && args[5].Kind() != pickle.None {
		return pickle.Value{}, malformed("a storage is a view of another, which PyTorch before 0.4 wrote")
	}
	class, key, location := args[1], args[2], args[3]
	if class.Kind() != pickle.Global || b.globals[class.Index()].role != storageClass || key.Kind() != pickle.String || location.Kind() != pickle.String {
		return pickle.Value{}, malformed("a storage is named by a %s, a %s and a %s, not by a class and two texts", class.Kind(), key.Kind(), location.Kind())
	}
	n, whole := args[4].Int()
	s := Storage{Key: b.strings.At(key.Index()), Location: b.strings.At(location.Index()), Format: b.globals[class.Index()].format, Elements: n}
	bytes, fits := bytesize.Mul(n, width(s.Format))
	if s.Bytes = bytes; !whole || !fits {
		return pickle.Value{}, malformed("the storage %q has more elements than 63 bits count, or fewer than none", clip(s.Key))
	}
	index, err := b.storage(s)
	if err != nil {
		return pickle.Value{}, err
	}
	return pickle.TupleRef(b.add(node{kind: storageNode, index: index})), nil
}

// storage finds or enters a storage; the same key must mean the same storage.
func (b *builder) storage(s Storage) (int, error) {
	if index, known := b.byKey[s.Key]; known {
		if b.storages[index] != s {
			return 0, malformed("the storage %q has %d bytes here and %d before", clip(s.Key), s.Bytes, b.storages[index].Bytes)
		}
		return index, nil
	}
	b.byKey[s.Key] = len(b.storages)
	b.storages = append(b.storages, s)
	return len(b.storages) - 1, nil
}

// width is how many bytes an element takes; a storage of bytes has one.
func width(f dtype.Format) int64 {
	_, bytes := f.Block()
	return max(bytes, 1)
}

// tensor makes a tensor of (storage, offset, size, stride, …), in the format of
// its storage or in one of its own.
func (b *builder) tensor(args []pickle.Value, format dtype.Format) (pickle.Value, error) {
	place := b.at(args[0])
	if args[0].Kind() != pickle.Tuple || place.kind != storageNode {
		return pickle.Value{}, malformed("a tensor is made of a %s, not of a storage", args[0].Kind())
	}
	t := Tensor{Storage: place.index, Format: format}
	storage := b.storages[place.index]
	if format == dtype.Unknown {
		t.Format = storage.Format
	}
	var err error
	if t.Shape, err = b.integers(args[2], "shape"); err != nil {
		return pickle.Value{}, err
	}
	if t.Stride, err = b.integers(args[3], "stride"); err != nil {
		return pickle.Value{}, err
	}
	offset, whole := args[1].Int()
	if t.Offset = offset; !whole || offset < 0 || len(t.Shape) != len(t.Stride) {
		return pickle.Value{}, malformed("a tensor has the offset %d, %d dimensions and %d strides", offset, len(t.Shape), len(t.Stride))
	}
	if err := t.measure(storage); err != nil {
		return pickle.Value{}, err
	}
	b.tensors = append(b.tensors, t)
	return pickle.TupleRef(b.add(node{kind: tensorNode, index: len(b.tensors) - 1})), nil
}

// integers reads a tuple of whole numbers that are not negative.
func (b *builder) integers(v pickle.Value, what string) ([]int64, error) {
	items := b.at(v).items
	if v.Kind() != pickle.Tuple || len(items) > maxDims {
		return nil, malformed("the %s of a tensor is a %s of %d, expected a tuple of at most %d", what, v.Kind(), len(items), maxDims)
	}
	out := make([]int64, len(items))
	for i, item := range items {
		n, ok := item.Int()
		if !ok || n < 0 || item.Kind() != pickle.Int {
			return nil, malformed("the %s of a tensor has an entry that is no whole number from 0 to 2⁶³−1", what)
		}
		out[i] = n
	}
	return out, nil
}

// measure sets the tensor's bytes and checks that its last element lies in the
// storage: at offset + Σ (size − 1) · stride.
func (t *Tensor) measure(s Storage) error {
	elements, fits := bytesize.Mul(t.Shape...)
	bytes, ok := bytesize.Mul(elements, width(t.Format))
	if t.Bytes = bytes; !fits || !ok {
		return malformed("the shape %v has more bytes than 63 bits count", t.Shape)
	}
	if elements == 0 {
		return nil
	}
	terms := []int64{t.Offset, 1}
	for i, size := range t.Shape {
		reach, ok := bytesize.Mul(size-1, t.Stride[i])
		fits = fits && ok
		terms = append(terms, reach)
	}
	last, ok := bytesize.Add(terms...)
	end, within := bytesize.Mul(last, width(t.Format))
	if !fits || !ok || !within || end > s.Bytes {
		return malformed("a tensor of shape %v and stride %v at %d does not lie in its storage %q of %d bytes", t.Shape, t.Stride, t.Offset, clip(s.Key), s.Bytes)
	}
	return nil
}
