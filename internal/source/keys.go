package source

import (
	"bytes"
	"encoding/json"
)

// TwiceHint is what to do about a key that stands twice in one object.
const TwiceHint = "remove one of the two; they may disagree"

// OneOfEachKey refuses JSON in which a key stands twice in one object. Readers of JSON,
// Python's too, take the last without a word, and nobody can say which was meant;
// DeepSpeed refuses such a file itself
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/config_utils.py).
// What is no JSON passes: its reader says so.
func OneOfEachKey(file string, data []byte) error {
	type object struct {
		keys  map[string]bool // nil of a list
		value bool            // a key was read, and its value was not
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []object
	for {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		var in *object
		if n := len(open); n > 0 {
			in = &open[n-1]
		}
		delim, bracket := token.(json.Delim)
		if bracket && (delim == '}' || delim == ']') {
			open = open[:len(open)-1]
			continue
		}
		if key, text := token.(string); text && in != nil && in.keys != nil && !in.value {
			if in.keys[key] {
				e := AtByte(file, d.InputOffset()-int64(len(key))-2, "the key appears twice in one object").WithHint(TwiceHint)
				e.Field = key
				return e
			}
			in.keys[key], in.value = true, true
			continue
		}
		if in != nil {
			in.value = false
		}
		if delim == '{' {
			open = append(open, object{keys: map[string]bool{}})
		} else if delim == '[' {
			open = append(open, object{})
		}
	}
}
