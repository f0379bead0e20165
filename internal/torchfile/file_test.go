package torchfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"floodmark/dtype"
	"floodmark/internal/source"
)

func read(data []byte) (*File, error) { return Read(source.Bytes("m.bin", data)) }

// TestRealFiles reads files of PyTorch itself; testdata/README.md says where
// they are from.
func TestRealFiles(t *testing.T) {
	long := func(name string, n int64, shape, stride []int64) *File {
		return &File{
			Tensors:  []Tensor{{Name: name, Format: dtype.I64, Shape: shape, Stride: stride, Bytes: 8 * n}},
			Storages: []Storage{{Key: "0", Format: dtype.I64, Location: "cpu", Elements: n, Bytes: 8 * n}},
			Data:     8 * n,
		}
	}
	for file, want := range map[string]*File{
		"test.pt":               long("test", 8, []int64{2, 4}, []int64{4, 1}),
		"test_with_key.pt":      long("model_state_dict.test", 8, []int64{2, 4}, []int64{4, 1}),
		"fortran_tensor_3d.pth": long("tensor_fortran", 24, []int64{2, 3, 4}, []int64{1, 2, 6}),
		"legacy.pt": {
			Legacy: true,
			Tensors: []Tensor{
				{"wte.weight", dtype.F32, []int64{4, 3}, []int64{3, 1}, 0, 0, 48},
				{"ln.weight", dtype.F16, []int64{4}, []int64{1}, 1, 1, 8},
				{"lm_head.weight", dtype.F32, []int64{4, 3}, []int64{3, 1}, 0, 0, 48},
			},
			Storages: []Storage{
				{"94012", dtype.F32, "cuda:0", 12, 48},
				{"94013", dtype.F16, "cuda:0", 5, 10},
			},
			Data: 58,
		},
	} {
		s, err := source.Open("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(s)
		s.Close()
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

// TestCheckpoint has what state dicts hold beside plain tensors: a tied weight,
// a parameter, an expanded view, an FP8 tensor over bytes, numbers and lists
// that are passed over.
func TestCheckpoint(t *testing.T) {
	matrix := storage("BFloat16Storage", "0", 6)
	fp8 := call(name("torch._utils", "_rebuild_tensor_v3"), tuple(text("storage"), name("torch.storage", "UntypedStorage"), text("1"), text("cuda:1"), number(4))+"Q",
		number(0), numbers(2, 2), numbers(2, 1), falsehood, call(name("collections", "OrderedDict")), name("torch", "float8_e4m3fn"))
	parameter := call(name("torch._utils", "_rebuild_parameter"), tensor(matrix, 0, numbers(3, 2), numbers(2, 1)), falsehood, call(name("collections", "OrderedDict")))
	pairs := call(name("collections", "OrderedDict"), list(tuple(text("old"), tensor(matrix, 4, numbers(), numbers()))))
	state := call(name("collections", "OrderedDict")) + "(" + text("embed") + parameter + text("head") + tensor(matrix, 0, numbers(3, 2), numbers(2, 1)) + "u" +
		"}(" + text("_metadata") + dict() + "ub"
	root := dict(
		text("epoch"), number(3),
		text("state_dict"), state,
		text("more"), list(fp8, none, tensor(matrix, 5, numbers(1000, 1), numbers(0, 1)), number(7)),
		text("size"), call(name("torch", "Size"), numbers(3, 2)),
		text("dtype"), name("torch", "float32"),
		text("python2"), pairs,
		text("empty"), tensor(matrix, 6, numbers(0, 5), numbers(5, 1)),
	)
	records := []content{{"archive/data.pkl", pickled(root)}, {"archive/version", "3\n"}, {"archive/data/0", strings.Repeat("\x00", 12)}, {"archive/data/1", "1234"}}
	want := &File{
		Tensors: []Tensor{
			{"state_dict.embed", dtype.BF16, []int64{3, 2}, []int64{2, 1}, 0, 0, 12},
			{"state_dict.head", dtype.BF16, []int64{3, 2}, []int64{2, 1}, 0, 0, 12},
			{"more.0", dtype.F8E4M3, []int64{2, 2}, []int64{2, 1}, 0, 1, 4},
			{"more.2", dtype.BF16, []int64{1000, 1}, []int64{0, 1}, 5, 0, 2000},
			{"python2.old", dtype.BF16, []int64{}, []int64{}, 4, 0, 2},
			{"empty", dtype.BF16, []int64{0, 5}, []int64{5, 1}, 6, 0, 0},
		},
		Storages: []Storage{{"0", dtype.BF16, "cpu", 6, 12}, {"1", dtype.Unknown, "cuda:1", 4, 4}},
		Data:     16,
	}
	for _, wide := range []bool{false, true} {
		got, err := read(container{records: records, wide: wide}.file())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("zip64 %v: %s", wide, diff)
		}
	}
}

// refused checks that an error is a FormatError with these words.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	var format *source.FormatError
	if !errors.As(err, &format) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want a FormatError with %q", err, want)
	}
}

func TestHostilePickles(t *testing.T) {
	floats := storage("FloatStorage", "0", 4)
	good := tensor(floats, 0, numbers(4), numbers(1))
	for what, c := range map[string]struct {
		root string
		want string
	}{
		"code":               {call(name("os", "system"), text("true")), `the name "system" of module "os" is refused`},
		"a module":           {call(name("torch.nn.modules.linear", "Linear")), "is refused"},
		"eval as a dtype":    {name("builtins", "eval"), "is refused"},
		"a class is called":  {call(name("torch", "FloatStorage"), number(4)), "torch.FloatStorage is called"},
		"a dtype is called":  {call(name("torch", "float32")), "torch.float32 is called"},
		"too few arguments":  {call(name("torch._utils", "_rebuild_tensor_v2"), floats), "called with other arguments"},
		"parameter of a 3":   {call(name("torch._utils", "_rebuild_parameter"), number(3)), "called with other arguments"},
		"no storage":         {tensor(number(1), 0, numbers(4), numbers(1)), "a tensor is made of a int, not of a storage"},
		"tuple for storage":  {tensor(numbers(1), 0, numbers(4), numbers(1)), "not of a storage"},
		"outside storage":    {tensor(floats, 1, numbers(4), numbers(1)), `does not lie in its storage "0" of 16 bytes`},
		"stride outside":     {tensor(floats, 0, numbers(2, 2), numbers(3, 1)), "does not lie in its storage"},
		"stride overflow":    {tensor(floats, 0, numbers(3, 2), numbers(1<<62, 1)), "does not lie in its storage"},
		"sum overflow":       {tensor(floats, 1<<62, numbers(2), numbers(1<<62)), "does not lie in its storage"},
		"shape overflow":     {tensor(floats, 0, numbers(1<<32, 1<<32), numbers(0, 0)), "more bytes than 63 bits"},
		"negative shape":     {tensor(floats, 0, numbers(-1), numbers(1)), "no whole number"},
		"negative offset":    {tensor(floats, -1, numbers(1), numbers(1)), "has the offset -1"},
		"stride too many":    {tensor(floats, 0, numbers(4), numbers(1, 1)), "1 dimensions and 2 strides"},
		"shape is a list":    {tensor(floats, 0, list(number(4)), numbers(1)), "is a list of 1, expected a tuple"},
		"65 dimensions":      {tensor(floats, 0, numbers(make([]int64, 65)...), numbers(make([]int64, 65)...)), "expected a tuple of at most 64"},
		"negative storage":   {storage("FloatStorage", "0", -4), "fewer than none"},
		"absurd storage":     {storage("DoubleStorage", "0", 1<<61), "more elements than 63 bits"},
		"storage changes":    {list(floats, storage("FloatStorage", "0", 8)), `the storage "0" has 32 bytes here and 16 before`},
		"storage type":       {list(floats, storage("IntStorage", "0", 4)), `the storage "0" has 16 bytes here and 16 before`},
		"text as an id":      {text("storage") + "Q", "a persistent id is not that of a storage"},
		"another id":         {tuple(text("module"), none, none, none, none) + "Q", "a persistent id is not that of a storage"},
		"id without a class": {tuple(text("storage"), text("x"), text("0"), text("cpu"), number(1)) + "Q", "a storage is named by a str"},
		"view of a storage":  {tuple(text("storage"), name("torch", "FloatStorage"), text("0"), text("cpu"), number(1), numbers(1)) + "Q", "a view of another"},
		"attributes":         {good + dict() + "b", "gets attributes"},
		"missing storage":    {tensor(storage("FloatStorage", "7", 4), 0, numbers(4), numbers(1)), "m.bin: model/data/7: is missing: a tensor needs its 16 bytes"},
		"storage too short":  {tensor(storage("FloatStorage", "0", 5), 0, numbers(4), numbers(1)), "model/data/0: has 16 bytes, but its tensors need 20"},
		"odd pairs":          {call(name("collections", "OrderedDict"), list(tuple(number(1), good))), "pairs with a name first"},
		"no dtype":           {call(name("torch._utils", "_rebuild_tensor_v3"), floats, number(0), numbers(4), numbers(1), falsehood, none, none), "where a torch dtype is expected"},
		"storage for dtype":  {call(name("torch._utils", "_rebuild_tensor_v3"), floats, number(0), numbers(4), numbers(1), falsehood, none, name("torch", "FloatStorage")), "where a torch dtype is expected"},
		"cut off":            {"(", "stops with"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := read(checkpoint(c.root, 16))
			refused(t, err, c.want)
		})
	}
	if f, err := read(checkpoint(good, 16)); err != nil || len(f.Tensors) != 1 || f.Tensors[0].Name != "" {
		t.Errorf("one tensor alone: %+v, %v", f, err)
	}
}

// TestSharedContainers visits a container once, however often it is referred
// to: a pickle can make exponentially many paths of few bytes.
func TestSharedContainers(t *testing.T) {
	root := list(tensor(storage("FloatStorage", "0", 4), 0, numbers(4), numbers(1))) + "q\x00"
	for level := byte(1); level < 10; level++ {
		again := "h" + string(level-1)
		root = "(" + root + again + again + again + again + "tq" + string(level)
	}
	f, err := read(checkpoint(root, 16))
	if err != nil || len(f.Tensors) != 1 || f.Tensors[0].Name != "0.0.0.0.0.0.0.0.0.0" {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestHostileContainers(t *testing.T) {
	good := checkpoint(tensor(storage("FloatStorage", "0", 4), 0, numbers(4), numbers(1)), 16)
	// change replaces bytes at an offset from the first sign of a text.
	change := func(sign string, at int, bytes string) []byte {
		i := strings.Index(string(good), sign) + at
		return []byte(string(good[:i]) + bytes + string(good[i+len(bytes):]))
	}
	wide := container{records: []content{{"m/data.pkl", pickled(dict())}}, wide: true}.file()
	changeWide := func(sign string, at int, bytes string) []byte {
		i := strings.Index(string(wide), sign) + at
		return []byte(string(wide[:i]) + bytes + string(wide[i+len(bytes):]))
	}
	records := func(names ...string) []byte {
		var c container
		for _, n := range names {
			c.records = append(c.records, content{n, pickled(dict())})
		}
		return c.file()
	}
	for what, c := range map[string]struct {
		file  []byte
		want  string
		other bool // another reader may try it
	}{
		"text":                  {[]byte("hello"), "is neither a zip container nor a pickle", true},
		"empty":                 {nil, "is neither a zip container nor a pickle", true},
		"another zip":           {records("word/document.xml"), "without a data.pkl", true},
		"deep data.pkl":         {records("a/b/data.pkl"), "without a data.pkl", true},
		"TorchScript":           {records("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"), "is a TorchScript program", false},
		"no end":                {good[:len(good)-30], "the zip directory is not found", false},
		"compressed":            {change(directorySignature, 10, "\x08"), "is compressed or encrypted", false},
		"encrypted":             {change(directorySignature, 8, "\x01"), "is compressed or encrypted", false},
		"larger than it is":     {change(directorySignature, 24, "\xff\xff\xff\x7f"), "is compressed or encrypted", false},
		"lying size":            {change(directorySignature, 20, "\xff\xff\xff\x7f\xff\xff\xff\x7f"), "is said to have 2147483647 bytes, more than are left", false},
		"lying place":           {change(directorySignature, 42, "\x01"), "is not where the zip directory says", false},
		"place outside":         {change(directorySignature, 42, "\xff\xff\xff\x7f"), "30 bytes are expected here", false},
		"lying name length":     {change(directorySignature, 28, "\xff\xff"), "is longer than the directory", false},
		"lying count":           {change(endSignature, 10, "\xff\x00"), "is said to have 255 entries", false},
		"lying directory":       {change(endSignature, 12, "\xff\xff\xff\x03"), "more than are left", false},
		"huge directory":        {change(endSignature, 12, "\xff\xff\xff\x7f"), "is said to have 2 entries in 2147483647 bytes", false},
		"directory elsewhere":   {change(endSignature, 16, "\x00\x00"), "entry 1 of the zip directory is missing", false},
		"no zip64 field":        {change(directorySignature, 20, "\xff\xff\xff\xff\xff\xff\xff\xff"), "without a zip64 field", false},
		"no zip64 locator":      {changeWide(locatorSignature, 0, "XXXX"), "the locator of the zip64 directory is missing", false},
		"no zip64 directory":    {changeWide(end64Signature, 0, "XXXX"), "the zip64 directory is missing", false},
		"lying locator":         {changeWide(locatorSignature, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"), "56 bytes are expected here", false},
		"2⁶³ in zip64":          {changeWide(end64Signature, 40, "\xff\xff\xff\xff\xff\xff\xff\xff"), "sizes of 2⁶³ and more", false},
		"2⁶³ entries in zip64":  {changeWide(end64Signature, 32, "\xff\xff\xff\xff\xff\xff\xff\x7f"), "is said to have 9223372036854775807 entries", false},
		"2⁶⁴−1 bytes in zip64":  {changeWide("\x01\x00\x18\x00", 4, strings.Repeat("\xff", 16)), "is said to have -1 bytes", false},
		"duplicate record":      {records("m/data.pkl", "m/data.pkl"), "stands twice in the zip directory", false},
		"two names, same bytes": {overlapping(), "shares bytes with another", false},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := read(c.file)
			refused(t, err, c.want)
			if errors.Is(err, source.ErrNotThisFormat) != c.other {
				t.Errorf("%v: is another format: want %v", err, c.other)
			}
		})
	}
	for n := range good {
		if _, err := read(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were taken for a whole file", n, len(good))
		}
	}
}

// overlapping is a container whose second entry points at the first one's
// record, as a zip bomb without compression does.
func overlapping() []byte {
	data := container{records: []content{{"m/data.pkl", pickled(dict())}, {"m/data/00", pickled(dict())}}}.file()
	second := strings.LastIndex(string(data), directorySignature)
	copy(data[second+42:], "\x00\x00\x00\x00")
	return data
}

func TestHostileLegacyFiles(t *testing.T) {
	machine := pickled(dict(text("protocol_version"), number(1001)))
	tied := pickled(tensor(storage("FloatStorage", "a.b", 4), 0, numbers(4), numbers(1)))
	keys := pickled(list(text("a.b")))
	data := strings.Repeat("\x00", 8+16)
	for what, c := range map[string]struct{ file, want string }{
		"protocol":   {legacyMagic + pickled("K\x01"), "another protocol than 1001"},
		"no machine": {legacyMagic + legacyProtocol + "....", "are not a pickle"},
		"code":       {legacyMagic + legacyProtocol + machine + pickled(call(name("os", "system"), text("true"))), `the name "system" of module "os" is refused`},
		"cut off":    {legacyMagic + legacyProtocol + machine + tied[:20], "the file ends"},
		"no data":    {legacyMagic + legacyProtocol + machine + pickled(tensor(storage("FloatStorage", "0", 1<<40), 0, numbers(4), numbers(1))), "its storages have 4398046511104 bytes"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := read([]byte(c.file))
			refused(t, err, c.want)
		})
	}
	f, err := read([]byte(legacyMagic + legacyProtocol + machine + tied + keys + data))
	if err != nil || !f.Legacy || f.Data != 16 {
		t.Errorf("%+v, %v", f, err)
	}
	// Offsets of errors count from the start of the file.
	bad := legacyMagic + legacyProtocol + machine + pickled(name("os", "system"))
	_, err = read([]byte(bad))
	var format *source.FormatError
	if !errors.As(err, &format) || !strings.HasPrefix(bad[format.Offset:], "cos\n") {
		t.Errorf("%v does not point at the name", err)
	}
}

func FuzzTorchFile(f *testing.F) {
	matrix := tensor(storage("BFloat16Storage", "0", 6), 0, numbers(3, 2), numbers(2, 1))
	f.Add(checkpoint(dict(text("w"), matrix, text("v"), matrix), 12))
	f.Add(container{records: []content{{"m/data.pkl", pickled(list(none))}}, wide: true}.file())
	f.Add([]byte(legacyMagic + legacyProtocol + pickled(dict()) + pickled(matrix) + strings.Repeat("\x00", 40)))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			return
		}
		// The storages of an accepted file fit in it, each tensor has one, and
		// a tensor without overlapping strides fits in its storage.
		if file.Data < 0 || file.Data > int64(len(data)) {
			t.Fatalf("storages of %d bytes in a file of %d", file.Data, len(data))
		}
		for _, tensor := range file.Tensors {
			if tensor.Storage >= len(file.Storages) || len(tensor.Shape) != len(tensor.Stride) || tensor.Bytes < 0 {
				t.Fatalf("%+v", tensor)
			}
		}
	})
}
