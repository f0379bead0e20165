package aliases

import (
	"fmt"
	"strings"
	"testing"
)

// nested is aliases of aliases: nine times more values with each line.
func nested(kind string) string {
	var b strings.Builder
	b.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for at := 'b'; at <= 'z'; at++ {
		if kind == "map" {
			fmt.Fprintf(&b, "%c: &%c {p: *%c, q: *%c, r: *%c}\n", at, at, at-1, at-1, at-1)
		} else {
			fmt.Fprintf(&b, "%c: &%c [%s*%c]\n", at, at, strings.Repeat(fmt.Sprintf("*%c, ", at-1), 8), at-1)
		}
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for name, text := range map[string]string{"lists": nested("list"), "tables": nested("map")} {
		if err := Check([]byte(text)); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	for name, text := range map[string]string{
		"a common part, merged": "x-common: &common {image: vllm/vllm-openai, shm_size: 16gb}\nservices:\n  a: {<<: *common}\n  b: {<<: *common}\n",
		"no alias, many values": "a: [" + strings.Repeat("x, ", 2*Most) + "x]\n",
		"no YAML":               "a: [",
		"an unknown anchor":     "a: *b\n",
		"a word with a star":    "a: '*b'\nb: 2 * 3\n",
		"nothing":               "",
	} {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
