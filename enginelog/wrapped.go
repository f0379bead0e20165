package enginelog

import "strings"

// opened is a refusal of which the end is not there yet: it stands in the next
// lines of a paste that was wrapped by hand.
type opened struct {
	first line
	lines int // 0 for none
}

// mostWrapped is over how many lines a refusal is looked for.
const mostWrapped = 6

// sentences are how refusals begin and what their last number stands behind, without
// white space (vllm/v1/worker/utils.py, vllm/v1/core/kv_cache_utils.py).
func sentences() [3][2]string {
	return [3][2]string{{"Freememoryondevice", "utilization"}, {"Toserveatleastonerequest", "KVcachememory("}, {"maxseqlen(", "storedinKVcache("}}
}

// unfinished reports a text with the beginning of a refusal and without its last
// number.
func unfinished(text string) bool {
	if !strings.Contains(text, "emory on") && !strings.Contains(text, "at least one") && !strings.Contains(text, "max seq len") {
		return false
	}
	squashed, _ := squash(text)
	for _, s := range sentences() {
		if _, after, begins := strings.Cut(squashed, s[0]); begins {
			_, rest, there := strings.Cut(after, s[1])
			return !there || !strings.Contains(rest, ")")
		}
	}
	return false
}

// begin opens at a line that begins a refusal and does not end it.
func (o *opened) begin(l line) bool {
	if !unfinished(l.text) {
		return false
	}
	*o = opened{first: l, lines: 1}
	return true
}

// add puts a line behind what is there; false for one that another writer wrote, or
// that is a log line of its own.
func (o *opened) add(l line) bool {
	by, rest := prefix(l.text)
	if by.name != "" || rest != l.text || strings.TrimSpace(l.text) == "" || o.lines >= mostWrapped {
		return false
	}
	o.first.text += " " + strings.TrimSpace(l.text)
	o.lines++
	return true
}

// done reports that the refusal's last number is there.
func (o *opened) done() bool { return !unfinished(o.first.text) }

// close is what was put together, as one line.
func (o *opened) close() line {
	l := o.first
	*o = opened{}
	return l
}
