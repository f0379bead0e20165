package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"floodmark/record"
)

// The schema accepts each record that the commands write, and the same with an
// added field.
func TestRecordsSatisfyTheSchema(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(record.JSONSchema(), &schema); err != nil {
		t.Fatal(err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"estimate", model},
		{"estimate", model, "--context", "8192", "--generated", "1024", "--sequences", "32", "--gpu", "h100"},
		{"estimate", "--parameters", "7000000000", "--bits", "4", "--reserve-gib", "4", "--gpu", "h100"},
		{"explain", oom},
		{"explain", "../../testdata/oom/fragmentation.txt"},
		{"explain", snapshot},
		{"measure", "--json", "--", "true"}, // and --json again, for true
		{"measure", "--device", "cuda:0", "--python", "no-such-python"},
		{"gpus"},
		{"gpus", "no such card"},
		{"estimate", "--no-such-flag"},
		{"explain", "no-such-file"},
	} {
		stdout, stderr, _ := run(80, nil, false, append(args, "--json")...)
		text := stdout + stderr
		var document map[string]any
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			t.Errorf("%v printed no JSON: %v in %.200q", args, err, text)
			continue
		}
		if err := resolved.Validate(document); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		document["a_field_of_tomorrow"] = []any{}
		if err := resolved.Validate(document); err != nil {
			t.Errorf("%v with an added field: %v", args, err)
		}
	}
}
