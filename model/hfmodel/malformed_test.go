package hfmodel_test

import (
	"errors"
	"strings"
	"testing"

	"floodmark/internal/source"
	"floodmark/model/hfmodel"
)

// TestMalformed reads broken configurations: each is refused with the place of
// the fault, and where a person can do something about it, with a hint.
func TestMalformed(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 80) + "1" + strings.Repeat("}", 80)
	for _, c := range []struct {
		name, config string
		field        string // of the fault, where it has one
		offset       int64  // of the fault, −1 where it has none
		hint         bool
	}{
		{"cut off in an object", `{"model_type":"llama"`, "", 21, true},
		{"cut off before a value", `{"model_type":`, "", 14, true},
		{"cut off in a text", `{"model_type":"lla`, "", 14, false},
		{"a comma missing", `{"a":1 "b":2}`, "", 7, false},
		{"a comma too many", `{"a":1,}`, "", 7, false},
		{"a key without quotes", `{a:1}`, "", 1, false},
		{"a colon missing", `{"a" 1}`, "", 5, false},
		{"a word that is none", `{"a":nil}`, "", 5, false},
		{"an escape that is none", `{"a":"\q"}`, "", 5, false},
		{"one key twice", `{"hidden_size":1,"hidden_size":2}`, "hidden_size", 17, true},
		{"two files joined", `{"a":1}{"b":2}`, "", 7, true},
		{"nested too deep", deep, "", 320, false},
		{"a number as text", small("llama", "LlamaForCausalLM", `,"num_key_value_heads":"4"`), "num_key_value_heads", -1, true},
		{"an object for a number", small("llama", "LlamaForCausalLM", `,"num_key_value_heads":{}`), "num_key_value_heads", -1, false},
		{"true for a number", small("llama", "LlamaForCausalLM", `,"head_dim":true`), "head_dim", -1, false},
		{"a fraction", small("llama", "LlamaForCausalLM", `,"head_dim":16.5`), "head_dim", -1, false},
		{"less than nothing", small("llama", "LlamaForCausalLM", `,"head_dim":-16`), "head_dim", -1, true},
		{"infinitely many", small("llama", "LlamaForCausalLM", `,"head_dim":Infinity`), "head_dim", -1, false},
		{"10¹² wide", small("llama", "LlamaForCausalLM", `,"head_dim":1000000000000`), "head_dim", -1, true},
		{"a text for a switch", small("llama", "LlamaForCausalLM", `,"attention_bias":"no"`), "attention_bias", -1, false},
		{"a number for a name", small("llama", "LlamaForCausalLM", `,"hidden_act":7`), "hidden_act", -1, false},
		{"10¹² layers", `{"model_type":"llama","num_hidden_layers":1000000000000}`, "num_hidden_layers", -1, true},
		{"a text for what ties the head", small("llama", "LlamaForCausalLM", `,"tie_word_embeddings":"false"`), "tie_word_embeddings", -1, false},
		{"a number for what ties the head", small("llama", "LlamaForCausalLM", `,"tie_word_embeddings":1`), "tie_word_embeddings", -1, false},
		{"a list of fewer heads than layers", small("llama", "LlamaForCausalLM", `,"num_key_value_heads":[2]`), "num_key_value_heads", -1, false},
		{"a list for the width", `{"model_type":"llama","hidden_size":[64],"num_hidden_layers":2}`, "hidden_size", -1, false},
		{"a width beyond floating point", `{"model_type":"llama","hidden_size":1e400,"num_hidden_layers":2}`, "hidden_size", -1, false},
		{"a number for the classes", `{"model_type":"llama","architectures":7}`, "architectures", -1, false},
		{"a class that is a number", `{"model_type":"llama","architectures":["LlamaForCausalLM",7]}`, "architectures", -1, false},
		{"a million prediction layers", small("deepseek_v3", "DeepseekV3ForCausalLM", `,"num_nextn_predict_layers":1000000`), "num_nextn_predict_layers", -1, true},
		{"a million layers", `{"model_type":"llama","num_hidden_layers":1000000}`, "num_hidden_layers", -1, true},
	} {
		_, err := hfmodel.Read(source.Bytes("config.json", []byte(c.config)))
		var f *source.FormatError
		if !errors.As(err, &f) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if f.Field != c.field || f.Offset != c.offset || (f.Hint != "") != c.hint || f.File != "config.json" {
			t.Errorf("%s: field %q at %d, hint %q: %v", c.name, f.Field, f.Offset, f.Hint, f)
		}
	}
}

// TestTooLarge refuses a file by its size, before it is read.
func TestTooLarge(t *testing.T) {
	if _, err := hfmodel.Read(source.Bytes("config.json", make([]byte, 17<<20))); err == nil || errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("%v", err)
	}
}

// TestLenient reads what is odd and means something: a mark of byte order,
// numbers that are not finite, whole numbers written as fractions.
func TestLenient(t *testing.T) {
	for _, more := range []string{`,"time_step_limit":[0.0,Infinity,-Infinity,NaN]`, `,"num_key_value_heads":4.0`, `,"num_key_value_heads":4e0`, `,"num_key_value_heads":null`, `,"note":"\u00e4 \"quoted\""`} {
		if m := read(t, "\xef\xbb\xbf \n"+small("llama", "LlamaForCausalLM", more)); m.Parameters().Low() == 0 || len(m.Unknown) > 0 {
			t.Errorf("%s: %v", more, m.Unknown)
		}
	}
}

// TestBrokenBeside refuses a broken file beside the configuration, and names
// that file.
func TestBrokenBeside(t *testing.T) {
	config := source.Bytes("config.json", []byte(small("llama", "LlamaForCausalLM", "")))
	_, err := hfmodel.Read(config, source.Bytes("quantize_config.json", []byte(`{"bits":"four"}`)))
	var f *source.FormatError
	if !errors.As(err, &f) || f.File != "quantize_config.json" || f.Field != "bits" {
		t.Errorf("%v", err)
	}
}
