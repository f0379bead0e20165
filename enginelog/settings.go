package enginelog

import (
	"strings"
)

// reSettings is the variable of the allocator's settings with a value, in a
// shell line, a dictionary or a list of the environment.
var (
	reSettings = pattern(`^PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF["']?\]?\s*[=:,]\s*["']?([A-Za-z0-9_:,.>\[\]-]{1,400})`)
	reSetting  = pattern(`([a-z][a-z0-9_]{1,60}):(\[[^\]]{0,200}\]|[A-Za-z0-9.-]{1,40})`)
)

// mostSettings bounds what a text can make us keep.
const mostSettings = 100

// readSettings notes the settings that a line shows. A message's hint is none:
// it says "try setting" before the same words, perhaps in the line before.
func (r *oomReader) readSettings(l line, before string) {
	before = before[max(0, len(before)-tail):]
	if strings.Contains(l.text, "expandable_segments: memory mapping failed") {
		r.set(Setting{Name: "expandable_segments", Value: "True", Line: l.number})
	}
	if !strings.Contains(l.text, "ALLOC_CONF") || strings.HasPrefix(strings.TrimSpace(l.text), "#") {
		return
	}
	text := l.text
	for range 8 {
		at := strings.Index(text, "PYTORCH_")
		if at < 0 {
			return
		}
		said, _ := squash(text[max(0, at-tail):at])
		before, text = before+said, text[at:]
		if !strings.HasSuffix(before, "trysetting") {
			r.setAll(text[:min(len(text), 512)], l.number)
		}
		text = text[len("PYTORCH_"):]
	}
}

// setAll keeps the settings of a variable that a text begins with.
func (r *oomReader) setAll(text string, line int) {
	found := reSettings().FindStringSubmatch(text)
	if found == nil {
		return
	}
	for _, m := range reSetting().FindAllStringSubmatch(found[1], 32) {
		r.set(Setting{Name: m[1], Value: m[2], Line: line})
	}
}

// set keeps a setting, unless it is already known with that value.
func (r *oomReader) set(s Setting) {
	for i := len(r.settings) - 1; i >= 0; i-- {
		if r.settings[i].Name == s.Name {
			if r.settings[i].Value == s.Value {
				return
			}
			break
		}
	}
	if len(r.settings) < mostSettings {
		r.settings = append(r.settings, s)
	}
}
