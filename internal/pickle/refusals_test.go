package pickle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// TestRefusals: each of these would run code, take memory without end, or is
// damaged. The error says at which byte.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		name, data string
		offset     int64
		says       string
	}{
		{"a global", "\x80\x02cos\nsystem\n", 2, `the name "system" of module "os" is refused`},
		{"a global on the stack", "\x80\x04\x8c\x02os\x8c\x06system\x93.", 14, `the name "system" of module "os" is refused`},
		{"a global named by numbers", "K\x01K\x02\x93.", 4, "named by a int and a int"},
		{"REDUCE on plain data", "K\x01)R.", 3, "REDUCE on a int with a tuple is refused"},
		{"BUILD", "}}b.", 2, "BUILD is refused"},
		{"BINPERSID", "K\x01Q.", 2, "BINPERSID is refused"},
		{"PERSID", "Pid\n.", 0, "PERSID (0x50) is refused"},
		{"OBJ", "(o.", 1, "OBJ (0x6f) is refused"},
		{"INST", "(ios\nsystem\n.", 1, "INST (0x69) is refused"},
		{"NEWOBJ", "\x81", 0, "NEWOBJ (0x81) is refused"},
		{"NEWOBJ_EX", "\x92", 0, "NEWOBJ_EX (0x92) is refused"},
		{"EXT1", "N\x82\x01.", 1, "EXT1 (0x82) is refused: it can run code"},
		{"EXT2", "N\x83\x01\x00.", 1, "EXT2 (0x83) is refused"},
		{"EXT4", "N\x84\x01\x00\x00\x00.", 1, "EXT4 (0x84) is refused"},
		{"bytes", "C\x01a.", 0, "SHORT_BINBYTES (0x43) is refused"},
		{"a bytearray", "\x96\x01\x00\x00\x00\x00\x00\x00\x00a.", 0, "BYTEARRAY8 (0x96) is refused"},
		{"DUP", "]2a.", 1, "DUP (0x32) is refused"},
		{"POP_MARK", "(1", 1, "POP_MARK (0x31) is refused"},
		{"a set", "\x8f(K\x01\x90.", 0, "EMPTY_SET (0x8f) is refused"},
		{"no opcode", "N\xff.", 1, "0xff is not a pickle opcode"},
		{"a protocol of the future", "\x80\x06N.", 0, "protocol 6 is not known"},

		{"a length beyond the file, BINUNICODE", "X\xff\xff\xff\x7fabc", 5, "a length of 2147483647 bytes is claimed, but at most 3 are left"},
		{"a length beyond the file, BINUNICODE8", "\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", 9, "a length of 18446744073709551615 bytes is claimed"},
		{"a length beyond the file, LONG4", "\x8b\xff\xff\xff\xff\x01", 5, "a length of 4294967295 bytes is claimed"},
		{"a frame beyond the file", "\x80\x04\x95\x00\x00\x00\x00\x00\x01\x00\x00N.", 2, "a frame of 1099511627776 bytes is claimed, but at most 2 are left"},
		{"an integer of 72 bits", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.", 0, "an integer of 9 bytes does not fit in 64 bits"},
		{"an integer of 65 bits, negative", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff.", 0, "does not fit in 64 bits"},
		{"a long string", "\x8d\x01\x00\x10\x00\x00\x00\x00\x00" + strings.Repeat("a", 1<<20+1), 9, "longer than the 1048576 that one may have"},
		{"a long line", "I" + strings.Repeat("1", 200) + "\n.", 1, "a line is longer than the 64 bytes"},
		{"text that is no integer", "Ix\n.", 0, `"x" is not an integer`},
		{"text that is no float", "Fx\n.", 0, `"x" is not a float`},
		{"text that is no index", "Np-1\n.", 1, `"-1" is not a memo index`},

		{"a memo index without a value", "h\x00.", 0, "memo entry 0 is used before it is set"},
		{"a memo index without a value, in a list of references", "N0](h!e.", 4, "memo entry 33 is used before it is set"},
		{"a memo index far away", "j\xff\xff\xff\xff.", 0, "memo entry 4294967295 is used before it is set"},
		{"a memo index that takes memory", "Nr\xff\xff\xff\x03.", 1, "memo index 67108863 is larger than a file of this length can need"},
		{"a container in the memo twice", "]q\x00q\x01.", 3, "entered in the memo twice"},
		{"the memo of nothing", "q\x00.", 0, "needs 1 values, but 0 are on the stack"},

		{"a list in itself", "]q\x00h\x00a.", 5, "changed after it was used: that makes a cycle"},
		{"a list in itself, at once", "]q\x00(h\x00h\x00e.", 8, "makes a cycle"},
		{"a dict in itself", "}q\x00\x8c\x01ah\x00s.", 8, "makes a cycle"},
		{"a list in a list in itself", "]q\x00]q\x01h\x00aa.", 9, "makes a cycle"},
		{"a list that grows after it was shared", "]q\x00K\x01ah\x00K\x02a.", 10, "makes a cycle"},
		{"nesting", strings.Repeat("]", 17) + strings.Repeat("a", 16) + ".", 33, "nest deeper than 16 levels"},
		{"nesting by tuples", ")" + strings.Repeat("\x85", 16) + ".", 16, "nest deeper than 16 levels"},
		{"nesting by marks", strings.Repeat("(", 65), 64, "more than 64 marks are open"},

		{"no mark", "]e.", 1, "needs a mark, and none is open"},
		{"no list below the mark", "(K\x01e.", 3, "there is no list below the mark"},
		{"a list below another mark", "](K\x01(K\x02e", 7, "items for a list are given to a int"},
		{"a list that only another mark has", "]((K\x02e", 5, "there is no list below the mark"},
		{"items for a dict given to a list", "](K\x01K\x02u.", 6, "a dict key is a int"},
		{"pairs for a dict given to a list", "](\x8c\x01aK\x02u.", 7, "items for a dict are given to a list"},
		{"an item for a list given to a number", "K\x01K\x02a.", 4, "items for a list are given to a int"},
		{"a key without a value", "}(\x8c\x01au.", 5, "an odd number"},
		{"a key that is no string", "}K\x01K\x02s.", 5, "a dict key is a int: only strings are read"},
		{"SETITEM on too little", "}K\x01s.", 3, "needs 3 values, but 2 are on the stack"},
		{"TUPLE3 of two", "NN\x87.", 2, "needs 3 values, but 2 are on the stack"},
		{"TUPLE without a mark", "Nt.", 1, "needs a mark"},
		{"POP of nothing", "0.", 0, "needs 1 values"},
		{"STOP with nothing", ".", 0, "stops with 0 values on the stack"},
		{"STOP with two values", "NN.", 2, "stops with 2 values on the stack"},
		{"STOP with a mark", "(N.", 2, "1 marks open"},
		{"nothing at all", "", 0, "the file ends"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.data, Options{Repeats: true})
			var format *source.FormatError
			if !errors.As(err, &format) {
				t.Fatalf("got %v, want a FormatError", err)
			}
			if format.Offset != c.offset || !strings.Contains(err.Error(), c.says) || format.File != "test.pickle" {
				t.Errorf("got %q, want %q at byte %d", err, c.says, c.offset)
			}
		})
	}
}

// TestBounds: what takes memory must have been paid for with bytes of the file,
// beyond what a file of any length may have.
func TestBounds(t *testing.T) {
	text := func(i int) string {
		return fmt.Sprintf("\x8c\x04%04x0", i&0xffff) + fmt.Sprintf("\x8c\x05x%04x0", i&0xffff)
	}
	var texts strings.Builder
	for i := range headStart {
		texts.WriteString(text(i))
	}
	for _, c := range []struct{ name, data, says string }{
		{"containers that are never put into another", strings.Repeat("]", 1<<18), "values on the stack are more than plain data needs"},
		{"references to one value", "](Nq\x01" + strings.Repeat("h\x01", 1<<18), "values on the stack are more than plain data needs"},
		{"values that only the memo holds", strings.Repeat("N\x940", 1<<18), "values in the memo are more than"},
		{"one memo entry that is set anew", "G\x3f\xf0\x00\x00\x00\x00\x00\x00" + strings.Repeat("q\x00", 1<<18), "values in the memo are more than"},
		{"strings", texts.String(), "different strings are more than"},
		{"lists that are filled one by one and stay open", strings.Repeat("]"+strings.Repeat("Na", 900), 80), "items of containers that are not finished"},
	} {
		_, err := parse(c.data, Options{Repeats: true})
		var format *source.FormatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// TestEnd: the caller learns from where it can read on.
func TestEnd(t *testing.T) {
	tree, beyond := newTree(), -1
	data := "\x80\x02N.more"
	options := Options{End: func(n int) { beyond = n }}
	if _, err := Read(strings.NewReader(data), "", int64(len(data)), tree.strings, tree, options); err != nil || beyond != 4 {
		t.Errorf("%d bytes were read beyond STOP, %v", beyond, err)
	}
}

// TestAllowed: names that the caller lists reach its callbacks, and nothing
// else does.
func TestAllowed(t *testing.T) {
	tree := newTree()
	var seen []string
	options := Options{
		Globals: []Name{{"collections", "OrderedDict"}, {"torch", "FloatStorage"}},
		Reduce: func(global uint32, arguments Value) (Value, error) {
			seen = append(seen, "reduce")
			return DictRef(0), nil
		},
		Build: func(object, state Value) (Value, error) {
			seen = append(seen, "build "+state.Kind().String())
			return object, nil
		},
		Persistent: func(id Value) (Value, error) {
			seen = append(seen, "persistent "+id.Kind().String())
			return Integer(7), nil
		},
	}
	// An OrderedDict with one storage and attributes, as torch.save writes it.
	data := "\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\x00\x00\x00w(X\x07\x00\x00\x00storagectorch\nFloatStorage\ntQs}X\x01\x00\x00\x00aK\x01sb."
	v, err := Read(strings.NewReader(data), "", int64(len(data)), tree.strings, tree, options)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen, ", "); got != "reduce, persistent tuple, build dict" || v.Kind() != Dict {
		t.Errorf("saw %s; root is a %s", got, v.Kind())
	}
	options.Globals = options.Globals[:1]
	if _, err := parse(data, options); err == nil || !strings.Contains(err.Error(), `"FloatStorage" of module "torch" is refused`) {
		t.Errorf("got %v", err)
	}
}

// TestBuilderErrors: an error of the builder gets its place in the file.
func TestBuilderErrors(t *testing.T) {
	own := errors.New("no room")
	for _, c := range []struct {
		err  error
		says string
	}{
		{own, "f: at byte 3: is refused: no room"},
		{source.InField("", "size", "is odd"), "f: at byte 3: size: is odd"},
	} {
		b := failing{newTree(), c.err}
		_, err := Read(strings.NewReader("](Neb."), "f", 6, b.strings, b, Options{})
		if err == nil || err.Error() != c.says {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
}

type failing struct {
	*tree
	err error
}

func (f failing) Append(Value, []Value) (Value, error) { return Value{}, f.err }
