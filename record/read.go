package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"slices"
	"unicode/utf8"

	"floodmark/internal/source"
)

// MaxBytes bounds a record that is read back.
const MaxBytes = 256 << 20

// headSize is how far into a file the envelope's schema is looked for. Every
// record begins with it, so that a log of JSON lines of any size is told apart
// without being read.
const headSize = 1 << 10

// reSchema is the schema of an envelope.
var reSchema = regexp.MustCompile(`"schema"\s*:\s*"` + regexp.QuoteMeta(Schema) + `"`)

// Read reads a record of any kind and returns a pointer to its type. What does
// not begin as a record is [source.ErrNotThisFormat]; what does, and is cut off,
// goes on too long or says what no record can say, is a [*source.FormatError].
func Read(src source.Source) (any, error) {
	head, err := source.Head(src, headSize)
	if err != nil {
		return nil, err
	}
	if !begins(head) {
		return nil, source.ErrNotThisFormat
	}
	data, err := source.ReadAll(src, MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := whole(src.Name(), data); err != nil {
		return nil, err
	}
	kind, err := readEnvelope(src.Name(), data)
	if err != nil {
		return nil, err
	}
	document := New(kind)
	if err := checkForm(src.Name(), data, reflect.TypeOf(document).Elem(), required(kind)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, document); err != nil {
		return nil, source.InField(src.Name(), "", "is not a record of kind %q", kind)
	}
	return document, checkValues(src.Name(), document)
}

// begins reports the head of a record, in whatever encoding of Unicode somebody
// saved it again: whole says which one is wanted.
func begins(head []byte) bool {
	text := bytes.ReplaceAll(head, []byte{0}, nil)
	for _, mark := range byteOrderMarks() {
		text = bytes.TrimPrefix(text, mark)
	}
	text = bytes.TrimLeft(text, " \t\r\n")
	return len(text) > 0 && text[0] == '{' && reSchema.Match(text)
}

// byteOrderMarks are those of UTF-8, and of UTF-16 in both orders.
func byteOrderMarks() [][]byte {
	return [][]byte{{0xef, 0xbb, 0xbf}, {0xff, 0xfe}, {0xfe, 0xff}}
}

// whole checks that the bytes are one JSON value in UTF-8 and nothing more.
func whole(file string, data []byte) error {
	for _, mark := range byteOrderMarks() {
		if bytes.HasPrefix(data, mark) {
			return source.AtByte(file, 0, "begins with a byte order mark").WithHint("save it as UTF-8 without a byte order mark")
		}
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return source.AtByte(file, int64(i), "has a byte of value 0, which no record has").WithHint("save it as UTF-8; or it was damaged on its way: copy it again")
	}
	if !utf8.Valid(data) {
		return source.AtByte(file, int64(firstInvalid(data)), "is not UTF-8").WithHint("save it as UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	var value json.RawMessage
	err := d.Decode(&value)
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return source.AtByte(file, int64(len(data)), "ends within the record").WithHint("the file is cut off: copy it again from where it was written")
	case errors.As(err, &syntax):
		return source.AtByte(file, max(syntax.Offset-1, 0), "is not JSON from here on").WithHint("the file was changed or damaged: copy it again from where it was written")
	case err != nil:
		return source.InField(file, "", "is not JSON")
	}
	end := d.InputOffset()
	if rest := bytes.TrimLeft(data[end:], " \t\r\n"); len(rest) > 0 {
		return source.AtByte(file, int64(len(data)-len(rest)), "goes on after the end of the record").WithHint("one file holds one record")
	}
	return nil
}

func firstInvalid(data []byte) int {
	at := 0
	for at < len(data) {
		r, n := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// readEnvelope checks the version and gives the kind.
func readEnvelope(file string, data []byte) (Kind, error) {
	if err := checkForm(file, data, reflect.TypeFor[Envelope](), []string{"schema", "schema_version", "kind"}); err != nil {
		return "", err
	}
	var e Envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return "", source.InField(file, "", "has no envelope of a record")
	}
	switch {
	case e.Schema != Schema:
		return "", source.InField(file, "schema", "is %q, expected %q", e.Schema, Schema)
	case e.SchemaVersion > Version:
		return "", source.InField(file, "schema_version", "is %d, and this program reads up to %d", e.SchemaVersion, Version).
			WithHint("use a newer floodmark")
	case e.SchemaVersion < 1:
		return "", source.InField(file, "schema_version", "is %d, expected 1 to %d", e.SchemaVersion, Version)
	case !slices.Contains(Kinds(), e.Kind):
		return "", source.InField(file, "kind", "%q is not a kind of record that this version reads", e.Kind).
			WithHint("use a newer floodmark")
	}
	return e.Kind, nil
}

// required lists what no record of a kind goes without, beside its envelope.
// Fields that are added later are not among them.
func required(kind Kind) []string {
	switch kind {
	case KindEstimate:
		return []string{"model", "engine", "ranks"}
	case KindSolve:
		return []string{"model", "engine", "ranks", "solution"}
	case KindSnapshot, KindReplay:
		return []string{"source", "devices"}
	case KindLog:
		return []string{"source", "components"}
	case KindMeasurement:
		return []string{"subject", "series", "phases"}
	case KindComparison:
		return []string{"a", "b", "rows", "totals"}
	case KindSweep:
		return []string{"varied", "points", "boundary"}
	case KindDecision:
		return []string{"options", "evidence", "cards"}
	case KindGPUs:
		return []string{"cards"}
	case KindEnvironment:
		return []string{"devices", "allocator"}
	case KindError:
		return []string{"code", "message"}
	}
	return nil
}
