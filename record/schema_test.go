package record

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write schema.json")

// generate makes the schema from the types: one alternative a kind, told apart
// by the constant in "kind", and open, because fields may be added.
func generate(t *testing.T) []byte {
	t.Helper()
	root := &jsonschema.Schema{
		Schema:      "https://json-schema.org/draft/2020-12/schema",
		Title:       "Floodmark record",
		Description: "Byte counts are integers, or null when unknown; an interval is null with x_low_bytes and x_high_bytes beside it. Lists are never null.",
	}
	for _, kind := range Kinds() {
		s, err := jsonschema.ForType(reflect.TypeOf(New(kind)).Elem(), nil)
		if err != nil {
			t.Fatal(err)
		}
		open(s)
		s.Title = string(kind)
		constant := any(string(kind))
		s.Properties["kind"] = &jsonschema.Schema{Type: "string", Const: &constant}
		schema := any(Schema)
		s.Properties["schema"] = &jsonschema.Schema{Type: "string", Const: &schema}
		root.OneOf = append(root.OneOf, s)
	}
	data, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}

// open takes away what would refuse further fields, and null from lists.
func open(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	s.AdditionalProperties = openAdditional(s.AdditionalProperties)
	if len(s.Types) == 2 && (s.Types[0] == "array" || s.Types[1] == "array") {
		s.Types, s.Type = nil, "array"
	}
	for _, p := range s.Properties {
		open(p)
	}
	open(s.Items)
}

// openAdditional keeps the schema of a map's values and drops "false".
func openAdditional(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil || s.Not != nil {
		return nil
	}
	open(s)
	return s
}

func TestSchemaIsUpToDate(t *testing.T) {
	want := generate(t)
	if *update {
		if err := os.WriteFile("schema.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(want, JSONSchema()) {
		t.Error("schema.json is not what the types say: run go test ./record -update")
	}
}

// Validator checks documents against the committed schema.
func validator(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// Every kind, empty, is valid; so is one with an added field; one whose list is
// null, or whose kind is another's, is not.
func TestSchemaAcceptsAddedFields(t *testing.T) {
	v := validator(t)
	for _, kind := range Kinds() {
		doc := New(kind)
		reflect.ValueOf(doc).Elem().FieldByName("Envelope").Set(reflect.ValueOf(NewEnvelope(kind, Tool{Version: "test"}, nil)))
		var b bytes.Buffer
		if err := Encode(&b, doc); err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if err := v.Validate(m); err != nil {
			t.Errorf("%s is refused: %v", kind, err)
		}
		m["a_field_of_tomorrow"] = map[string]any{"x": 1.0}
		if err := v.Validate(m); err != nil {
			t.Errorf("%s with an added field is refused: %v", kind, err)
		}
		m["warnings"] = nil
		if err := v.Validate(m); err == nil {
			t.Errorf("%s with a null list is accepted", kind)
		}
	}
	if err := v.Validate(map[string]any{"schema": Schema, "kind": "horoscope"}); err == nil {
		t.Error("an unknown kind is accepted")
	}
}
