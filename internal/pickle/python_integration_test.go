//go:build integration

package pickle

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAgainstPython reads 200 random plain objects as the Python on this
// machine pickles them, in every protocol that it writes.
func TestAgainstPython(t *testing.T) {
	const count = 200
	out, err := exec.Command("python3", "testdata/random.py", "20261129", "200").Output()
	if err != nil {
		t.Fatalf("python3: %v", err)
	}
	cases := bufio.NewScanner(bytes.NewReader(out))
	cases.Buffer(nil, 64<<20)
	seen := 0
	for cases.Scan() {
		seen++
		part := strings.SplitN(cases.Text(), "\t", 3)
		data, err := base64.StdEncoding.DecodeString(part[1])
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(strings.NewReader(part[2]))
		d.UseNumber()
		var want any
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		for _, repeats := range []bool{false, true} {
			got, err := parse(string(data), Options{Repeats: repeats})
			if err != nil {
				t.Errorf("case %d, protocol %s: %v", seen, part[0], err)
				continue
			}
			if diff := cmp.Diff(floats(want), floats(got)); diff != "" {
				t.Errorf("case %d, protocol %s, repeats %v: %s", seen, part[0], repeats, diff)
			}
		}
	}
	if err := cases.Err(); err != nil || seen != count {
		t.Errorf("%d of %d cases: %v", seen, count, err)
	}
}

// floats turns the numbers that JSON writes with a point into floats, which a
// pickle keeps apart from integers.
func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		if strings.ContainsAny(v.String(), ".e") {
			f, _ := v.Float64()
			return f
		}
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = floats(v[k])
		}
	}
	return v
}
