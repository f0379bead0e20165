package megatronmodel

import (
	"fmt"
	"strconv"
	"strings"
)

// Arguments are those of pretrain_gpt.py by name, without dashes: a switch is
// "true".
type Arguments map[string]string

// most bounds every size: more than any model has.
const most = 1 << 26

// reader takes sizes out of arguments and keeps the first fault.
type reader struct {
	a   Arguments
	err error
}

func (r *reader) fail(name, expected string) {
	if r.err == nil {
		r.err = fmt.Errorf("--%s is %q, expected %s", name, r.a[name], expected)
	}
}

// count is a size; otherwise where the argument is absent.
func (r *reader) count(name string, otherwise int) int {
	text, has := r.a[name]
	if !has || text == "None" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		r.fail(name, "a whole number of up to 67,108,864")
		return 0
	}
	return n
}

// needed is a size that must be there.
func (r *reader) needed(name string) int {
	n := r.count(name, 0)
	if n < 1 {
		r.fail(name, "a size of 1 or more")
	}
	return max(n, 1)
}

func (r *reader) is(name string) bool {
	text, has := r.a[name]
	return has && !strings.EqualFold(text, "false")
}

func (r *reader) text(name, otherwise string) string {
	if text, has := r.a[name]; has {
		return text
	}
	return otherwise
}

// mostLayers bounds the list of layers that a frequency makes.
const mostLayers = 1 << 14

// expertLayers says of each layer whether its network is experts:
// --moe-layer-freq is a number, the first of each so many.
func (r *reader) expertLayers(layers int) []bool {
	return r.pattern("moe-layer-freq", layers, func(i, n int) bool { return i%n == 0 })
}

// window is how many positions a window keeps, and which layers have it: of
// --window-size what is before a position, with itself, and --window-attn-skip-freq is
// a number, all but the last of each so many (is_layer_window_attention of
// megatron/core/transformer/utils.py).
func (r *reader) window(layers int) (positions int, windowed []bool) {
	before, _, _ := strings.Cut(strings.Trim(r.text("window-size", "-1"), "()'\" "), ",")
	n, err := strconv.Atoi(strings.TrimSpace(before))
	switch {
	case err != nil || n < -1 || n > most:
		r.fail("window-size", "two numbers of positions, before and behind")
		n = -1
	case n >= 0 && r.a["window-attn-skip-freq"] != "":
		return n + 1, r.pattern("window-attn-skip-freq", layers, func(i, n int) bool { return (i+1)%n != 0 })
	}
	windowed = make([]bool, layers)
	for i := range windowed {
		windowed[i] = n >= 0
	}
	return n + 1, windowed
}

// pattern is of each layer whether it is of a kind: a number, of which each layer is
// asked, or a list of 0 and 1 as Python writes it, [0]*3+[1]*12.
func (r *reader) pattern(name string, layers int, of func(i, n int) bool) []bool {
	list := make([]bool, layers)
	text := strings.ReplaceAll(strings.Trim(r.text(name, "1"), "()'\" "), " ", "")
	if n, err := strconv.Atoi(text); err == nil && n > 0 {
		for i := range list {
			list[i] = of(i, n)
		}
		return list
	}
	var pattern []bool
	for _, part := range strings.Split(text, "+") {
		body, times, has := strings.Cut(part, "*")
		n := 1
		if has {
			var err error
			if n, err = strconv.Atoi(times); err != nil || n < 0 || n > mostLayers {
				r.fail(name, "a number, or lists of 0 and 1")
				return list
			}
		}
		one, ok := zerosAndOnes(body)
		if !ok || len(pattern)+n*len(one) > mostLayers {
			r.fail(name, "a number, or lists of 0 and 1")
			return list
		}
		for range n {
			pattern = append(pattern, one...)
		}
	}
	if len(pattern) != layers {
		r.fail(name, fmt.Sprintf("%d layers", layers))
		return list
	}
	return pattern
}

// zerosAndOnes reads "[0,1]".
func zerosAndOnes(text string) (list []bool, ok bool) {
	if !strings.HasPrefix(text, "[") || !strings.HasSuffix(text, "]") {
		return nil, false
	}
	for _, digit := range strings.Split(strings.Trim(text, "[]"), ",") {
		if digit != "0" && digit != "1" {
			return nil, false
		}
		list = append(list, digit == "1")
	}
	return list, true
}
