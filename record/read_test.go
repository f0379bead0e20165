package record

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"floodmark/internal/source"
)

// envelope is the head of a record, with more fields behind it.
func envelope(kind Kind, more string) string {
	return `{"schema": "floodmark/record", "schema_version": 1, "kind": "` + string(kind) + `", ` + more + `}`
}

// cards is a record of one card with these fields.
func cards(fields string) string { return envelope(KindGPUs, `"cards": [{`+fields+`}]`) }

// What does not begin as a record is another reader's, whatever its size.
func TestReadLeavesOtherFormats(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"another JSON", `{"model_type": "llama"}`},
		{"no JSON", "torch.cuda.OutOfMemoryError"},
		{"an empty file", ""},
		{"lines of JSON", `{"level": "info"}` + "\n" + `{"level": "error", "schema": "floodmark/record"`},
		{"a text about records", `a record has "schema": "floodmark/record"`},
		{"a schema far behind", `{"padding": "` + strings.Repeat(" ", headSize) + `", "schema": "floodmark/record"}`},
	} {
		if c.name == "lines of JSON" {
			c.text = strings.Repeat(`{"level": "info", "message": "loading"}`+"\n", 100) + c.text
		}
		if _, err := Read(source.Bytes("f", []byte(c.text))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A log of JSON lines larger than any record is not read to be told apart.
func TestSizeIsAskedOfRecordsAlone(t *testing.T) {
	log := huge{source.Bytes("vllm.jsonl", []byte(strings.Repeat(`{"level": "info"}`+"\n", 100)))}
	if _, err := Read(log); !errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("a large log: %v", err)
	}
	var f *source.FormatError
	if _, err := Read(huge{source.Bytes("r.json", []byte(cards("")))}); !errors.As(err, &f) {
		t.Errorf("a large record: %v", err)
	}
}

// huge says that it is larger than it is.
type huge struct{ source.Source }

func (huge) Size() int64 { return MaxBytes + 1 }

// What begins as a record and is damaged says where, and what to do.
func TestReadSaysWhatIsDamaged(t *testing.T) {
	good := cards(`"id": "größe"`)
	var wide bytes.Buffer
	wide.Write([]byte{0xff, 0xfe})
	for _, unit := range utf16.Encode([]rune(good)) {
		wide.Write([]byte{byte(unit), byte(unit >> 8)})
	}
	for _, c := range []struct {
		name, text, want, hint string
	}{
		{"cut off", good[:80], "at byte 80: ends within the record", "is cut off"},
		{"cut off in a word", envelope(KindGPUs, `"cards": [{"id": nul`)[:88], "ends within the record", "is cut off"},
		{"overwritten", strings.Replace(good, `"id"`, `}!`, 1), "is not JSON from here on", "damaged"},
		{"zeros at the end", good[:80] + strings.Repeat("\x00", 20), "at byte 80: has a byte of value 0", "copy it again"},
		{"text behind", good + " x", "goes on after the end of the record", "one file holds one record"},
		{"two records", good + "\n" + good, "goes on after the end of the record", "one file holds one record"},
		{"a byte order mark", "\ufeff" + good, "begins with a byte order mark", "UTF-8"},
		{"UTF-16", wide.String(), "begins with a byte order mark", "UTF-8"},
		{"UTF-16 without a mark", wide.String()[2:], "has a byte of value 0", "UTF-8"},
		{"Latin-1", strings.ReplaceAll(good, "ö", "\xf6"), "at byte 88: is not UTF-8", "UTF-8"},
	} {
		_, err := Read(source.Bytes("r.json", []byte(c.text)))
		refused(t, c.name, err, c.want, c.hint)
	}
}

func refused(t *testing.T, name string, err error, want, hint string) {
	t.Helper()
	var f *source.FormatError
	if !errors.As(err, &f) || errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("%s is not refused as a record: %v", name, err)
		return
	}
	if !strings.Contains(f.Error(), want) || !strings.Contains(f.Hint, hint) {
		t.Errorf("%s: %v (hint: %s), want %q (hint: %q)", name, f, f.Hint, want, hint)
	}
}

// A record that says what no record can say is refused, with the field.
func TestReadRefusesImpossibleRecords(t *testing.T) {
	const e = `{"schema": "floodmark/record", `
	phase := func(fields string) string {
		return envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": 0, "ranks": [0], "phases": [{`+fields+`}]}]`)
	}
	for _, c := range []struct{ name, text, want string }{
		{"no version", e + `"kind": "gpus", "cards": []}`, "schema_version: is missing"},
		{"version 0", e + `"schema_version": 0, "kind": "gpus"}`, "schema_version: is 0, expected 1 to 1"},
		{"a negative version", e + `"schema_version": -1, "kind": "gpus"}`, "schema_version: is -1"},
		{"a newer version", e + `"schema_version": 99, "kind": "gpus"}`, "schema_version: is 99, and this program reads up to 1"},
		{"a version in words", e + `"schema_version": "one", "kind": "gpus"}`, "schema_version: is a text, expected a whole number"},
		{"no kind", e + `"schema_version": 1}`, "kind: is missing"},
		{"an unknown kind", envelope("horoscope", `"cards": []`), `kind: "horoscope"`},
		{"a key in another case", e + `"Schema_Version": 1, "kind": "gpus"}`, `Schema_Version: is spelled "schema_version" in a record`},
		{"a key that folds to one of ours", envelope(KindGPUs, `"card\u017f": []`), `is spelled "cards" in a record`},
		{"a key twice", envelope(KindGPUs, `"cards": [], "cards": []`), "cards: comes twice in one object"},
		{"a key twice below", cards(`"id": "a", "id": "b"`), "cards[0].id: comes twice in one object"},
		{"another schema behind", envelope(KindGPUs, `"schema": "x"`), "schema: comes twice"},
		{"text for a count", cards(`"label_bytes": "24"`), "cards[0].label_bytes: is a text, expected a whole number"},
		{"a list for a text", cards(`"id": []`), "cards[0].id: is a list, expected a text"},
		{"a fraction of a byte", cards(`"label_bytes": 1.5`), "cards[0].label_bytes: is 1.5, expected a whole number"},
		{"a count beyond 63 bits", cards(`"label_bytes": 9223372036854775808`), "expected a whole number of at most 63 bits"},
		{"null for a text", cards(`"id": null`), "cards[0].id: is null, expected a text"},
		{"negative bytes", cards(`"label_bytes": -1`), "cards[0].label_bytes: is -1, which is negative"},
		{"negative bytes of a text that prints no sign", envelope(KindLog, `"source": "vllm.log", "components": [{"component": "vllm", "kind": "weights", "printed": "4 B", "line": 1, "bytes": -4}]`), "components[0].bytes: is -4, which is negative"},
		{"low above high", cards(`"reported_low_bytes": 9, "reported_high_bytes": 3`), "cards[0].reported_low_bytes: is 9, above reported_high_bytes, which is 3"},
		{"low above exact", phase(`"process_bytes": 5, "process_low_bytes": 6`), "ranks[0].phases[0].process_low_bytes: is 6, above process_bytes"},
		{"exact above high", phase(`"process_bytes": 5, "process_high_bytes": 4`), "ranks[0].phases[0].process_bytes: is 5, above process_high_bytes"},
		{"a negative step", phase(`"step": -1`), "ranks[0].phases[0].step: is -1"},
		{"a negative rank", envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": -1}]`), "ranks[0].rank: is -1"},
		{"a negative rank of a class", envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": 0, "ranks": [0, -2]}]`), "ranks[0].ranks[1]: is -2"},
		{"an empty estimate", envelope(KindEstimate, `"warnings": []`), "model: is missing"},
		{"an estimate of no rank", envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": []`), "ranks: is empty"},
		{"a count that is absent", envelope(KindEstimate, `"model": {"stored_formats": [{"name": "bf16"}]}, "engine": {}, "ranks": [{"rank": 0}]`), "model.stored_formats[0].bytes: is missing"},
		{"a nest", envelope(KindGPUs, `"x": `+strings.Repeat("[", 100)+strings.Repeat("]", 100)), "nests deeper"},
	} {
		_, err := Read(source.Bytes("r.json", []byte(c.text)))
		refused(t, c.name, err, c.want, "")
	}
}

// A record is open to fields of tomorrow, and headroom may be short.
func TestReadAccepts(t *testing.T) {
	for _, text := range []string{
		cards(`"id": "a", "of_tomorrow": {"Id": [null, {"id": 1}]}, "reported_low_bytes": 3, "reported_high_bytes": 3`),
		envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": 0}], "verdict": {"headroom_low_bytes": -5, "headroom_high_bytes": -1}`),
		// A change may hold more than it frees, and a card may lack room.
		envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": 0}], "advice": {"rank": 0, "options": [{"low_moved_bytes": -5, "high_moved_bytes": 3, "verdict": {}}]}`),
		envelope(KindDecision, `"options": [], "evidence": [], "cards": [{"room_low_bytes": -5, "room_high_bytes": -1}]`),
		// vLLM prints what is left for its cache with a sign.
		envelope(KindLog, `"source": "vllm.log", "components": [{"component": "vllm", "kind": "kv_cache_available", "low_bytes": -5, "high_bytes": -3, "printed": "-4 B", "line": 1}]`),
		"\n\t " + cards(""),
	} {
		if _, err := Read(source.Bytes("r.json", []byte(text))); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// JSON shows nothing that steers a terminal, and means the same.
func TestEncodeEscapesWhatIsHidden(t *testing.T) {
	g := gpus()
	g.Cards[0].Name = "a\x1b[31m\x7f\u009b\u202e\u2066\U000e0041\nb"
	var b bytes.Buffer
	if err := Encode(&b, g); err != nil {
		t.Fatal(err)
	}
	if want := `"name": "a\u001b[31m\u007f\u009b\u202e\u2066\udb40\udc41\nb"`; !strings.Contains(b.String(), want) {
		t.Errorf("no %s in %s", want, b.String())
	}
	back, err := Read(source.Bytes("r.json", b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got := back.(*GPUs).Cards[0].Name; got != g.Cards[0].Name {
		t.Errorf("%q came back as %q", g.Cards[0].Name, got)
	}
}

// FuzzRead holds that no file makes the reader panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte(cards(`"label_bytes": 1`)))
	f.Add([]byte(envelope(KindEstimate, `"model": {}, "engine": {}, "ranks": [{"rank": 0}]`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if document, err := Read(source.Bytes("f", data)); err == nil && document == nil {
			t.Error("neither a record nor an error")
		}
	})
}
