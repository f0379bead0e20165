package pickle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"floodmark/internal/source"
)

// TestCPython reads what CPython wrote of one object in every protocol.
func TestCPython(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "plain.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var want any
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	// JSON does not tell integers and floats apart, a pickle does.
	want.(map[string]any)["floats"] = []any{0.0, -1.5, 1e300}
	for protocol := range 6 {
		for _, repeats := range []bool{false, true} {
			t.Run(fmt.Sprintf("protocol %d, repeats %v", protocol, repeats), func(t *testing.T) {
				got, err := parse(committed(t, protocol), Options{Repeats: repeats})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func committed(t testing.TB, protocol int) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", fmt.Sprintf("plain.p%d.pickle", protocol)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestForms reads forms that CPython does not write in the file above.
func TestForms(t *testing.T) {
	for _, c := range []struct{ name, data, want string }{
		{"C++: the memo follows the value, APPENDS is one batch",
			"\x80\x02](X\x01\x00\x00\x00aq\x00h\x00](K\x01eq\x01h\x01e.", `["a","a",[1],[1]]`},
		{"C++: an empty list is filled with nothing", "\x80\x02](e.", `[]`},
		{"LONG1 of nine bytes", "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", `18446744073709551615`},
		{"LONG1 of nine bytes, negative", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\xff.", `-9223372036854775808`},
		{"LONG1 of no bytes", "\x8a\x00.", `0`},
		{"LONG4", "\x8b\x02\x00\x00\x00\xff\xff.", `-1`},
		{"BINUNICODE8", "\x8d\x02\x00\x00\x00\x00\x00\x00\x00hi.", `"hi"`},
		{"INT and LONG as text", "(I-5\nL7L\nL18446744073709551615L\nI01\nI00\nl.", `[-5,7,18446744073709551615,true,false]`},
		{"raw unicode escapes", "V\\u20ac \\U0001d11e \\u00 \xe9\n.", `"€ 𝄞 \\u00 é"`},
		{"DICT and LIST with their items", "(V\xe9\n(K\x01K\x02ld.", `{"é":[1,2]}`},
		{"POP", "]K\x010K\x02a.", `[2]`},
		{"one container, filled by APPEND and APPENDS", "]K\x01a(K\x02K\x03eK\x04a.", `[1,2,3,4]`},
		{"a dict filled in two ways", "}\x8c\x01aK\x01s(\x8c\x01bK\x02u.", `{"a":1,"b":2}`},
		{"PUT far ahead of the others", strings.Repeat("N0", 300) + "]r\x00\x01\x00\x00j\x00\x01\x00\x000.", `[]`},
		{"a list is shared while it is on the stack", "](](K\x01eq\x00h\x00e.", `[[1],[1]]`},
		{"what follows STOP is left alone", "K\x01.\x00\x00\x82", `1`},
		{"strings that are not UTF-8", "\x8c\x02\xff!.", `"�!"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse(c.data, Options{})
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			e := json.NewEncoder(&text)
			e.SetEscapeHTML(false)
			if err := e.Encode(got); err != nil {
				t.Fatal(err)
			}
			if strings.TrimSpace(text.String()) != c.want {
				t.Errorf("read %s, want %s", text.String(), c.want)
			}
		})
	}
}

// TestBatches: a builder gets the same calls whatever the protocol, also where
// items come one by one.
func TestBatches(t *testing.T) {
	var calls []int
	for protocol := range 6 {
		tree := newTree()
		data := committed(t, protocol)
		if _, err := Read(strings.NewReader(data), "", int64(len(data)), tree.strings, tree, Options{}); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, tree.calls)
	}
	for _, n := range calls {
		if n != calls[0] {
			t.Fatalf("protocols 0 to 5 call the builder %v times", calls)
		}
	}
}

// TestSlowReader reads a stream that gives one byte at a time.
func TestSlowReader(t *testing.T) {
	data := committed(t, 4)
	tree := newTree()
	if _, err := Read(iotest.OneByteReader(strings.NewReader(data)), "", int64(len(data)), tree.strings, tree, Options{}); err != nil {
		t.Fatal(err)
	}
}

// TestReadError hands an error of the stream on.
func TestReadError(t *testing.T) {
	broken := errors.New("the disk is gone")
	r := io.MultiReader(strings.NewReader("\x80\x04](K\x01"), iotest.ErrReader(broken))
	tree := newTree()
	_, err := Read(r, "f", 100, tree.strings, tree, Options{})
	var format *source.FormatError
	if !errors.Is(err, broken) || !errors.As(err, &format) {
		t.Errorf("got %v", err)
	}
}

// TestCutAnywhere: a file that ends too early is an error wherever it ends.
func TestCutAnywhere(t *testing.T) {
	for _, protocol := range []int{0, 2, 4} {
		data := committed(t, protocol)
		for n := range min(len(data), 4000) {
			if v, err := parse(data[:n], Options{}); err == nil {
				t.Fatalf("protocol %d, cut at %d of %d bytes, reads as %v", protocol, n, len(data), v)
			}
		}
	}
}

func TestFirstString(t *testing.T) {
	for protocol := range 6 {
		if got, ok := FirstString([]byte(committed(t, protocol)[:64])); got != "integers" || !ok {
			t.Errorf("protocol %d: first string %q, %v", protocol, got, ok)
		}
	}
	for _, head := range []string{"", "\x80", "\x80\x06}", "}", "K\x01.", "\x8c\x05abc", "X\x05", "Vabc", "}p1", "\x80\x04\x95\x01", "ctorch\n"} {
		if got, ok := FirstString([]byte(head)); ok {
			t.Errorf("%q begins with %q", head, got)
		}
	}
}
