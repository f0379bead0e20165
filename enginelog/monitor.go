package enginelog

import (
	"strings"

	"floodmark/account"
)

// monitor is what lines of nvidia-smi said before the next one: whose card the
// next numbers are of, and which columns a table has.
type monitor struct {
	device  int      // of the table and of XML
	cards   int      // that XML began
	columns []string // of a query
	inside  string   // the element of XML that sizes stand in
}

// monitors reads a line of a program that watches cards; false when it is of none.
func (e *engineReader) monitors(l line, at reading, text string) bool {
	switch {
	case strings.HasPrefix(text, "DCGM_FI_DEV_FB_"):
		return e.dcgm(at, text)
	case strings.HasPrefix(strings.TrimSpace(text), "<"):
		return e.xml(at, strings.TrimSpace(text))
	case strings.HasPrefix(l.text, "|"):
		return e.table(at, l.text)
	case strings.Contains(text, "memory.") && strings.Contains(text, ",") || e.monitor.columns != nil:
		return e.query(at, text)
	}
	return false
}

// blankDCGM is the least of the values that DCGM gives where it has none
// (DCGM_INT64_BLANK of dcgm_structs.h).
const blankDCGM = "92233720368547757"

// dcgm reads DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-…"} 39354: whole MiB, by card.
func (e *engineReader) dcgm(at reading, text string) bool {
	name, rest, _ := strings.Cut(text, "{")
	labels, value, closes := strings.Cut(rest, "}")
	kind, known := map[string]Kind{"USED": KindInUse, "FREE": KindFree, "TOTAL": KindCapacity, "RESERVED": KindOverhead}[strings.TrimPrefix(name, "DCGM_FI_DEV_FB_")]
	number, _, _ := strings.Cut(strings.TrimSpace(value), " ")
	if !known || !closes || number == "" {
		return false
	}
	at.component = "device"
	if _, after, found := strings.Cut(labels, `gpu="`); found {
		if n := digitsFrom(after, 0, 6); n > 0 {
			at.device = ordinal(after[:n])
		}
	}
	if strings.HasPrefix(number, blankDCGM) {
		e.keep(at, kind, account.Device, func(p account.Provenance) account.Figure {
			return account.Unknown("the source has no value (DCGM's blank)", p)
		}, number)
		return true
	}
	number = strings.TrimSuffix(number, ".0")
	if n := digitsFrom(number, 0, mostDigits); n < len(number) || n == 0 {
		return false
	}
	e.size(at, kind, account.Device, number, "MiB", false)
	return true
}

// table reads nvidia-smi's own table: a row that begins with the card's index, and
// under it one with what is used of the total; below, the processes.
func (e *engineReader) table(at reading, text string) bool {
	cells := strings.Split(strings.Trim(text, "| \t"), "|")
	fields := strings.Fields(cells[0])
	if len(fields) == 0 {
		return false
	}
	squashed, _ := squash(text)
	if used, total, found := strings.Cut(squashed, "MiB/"); found && strings.Contains(total, "MiB") {
		n := digitsUntil(used, len(used), mostDigits)
		m := digitsFrom(total, 0, mostDigits)
		if n == len(used) || m == 0 {
			return false
		}
		at.component, at.device = "device", e.monitor.device
		e.size(at, KindInUse, account.Device, used[n:], "MiB", false)
		e.size(at, KindCapacity, account.Device, total[:m], "MiB", false)
		return true
	}
	index := digitsFrom(fields[0], 0, 6)
	if index != len(fields[0]) {
		return false
	}
	last := fields[len(fields)-1]
	if number, is := strings.CutSuffix(last, "MiB"); is && len(cells) == 1 && len(fields) >= 5 {
		pid := ""
		for _, f := range fields[1:] {
			if digitsFrom(f, 0, mostDigits) == len(f) {
				pid = f
				break
			}
		}
		if pid == "" || digitsFrom(number, 0, mostDigits) != len(number) || number == "" {
			return false
		}
		at.component, at.device = "process "+pid, ordinal(fields[0])
		e.size(at, KindInUse, account.Process, number, "MiB", false)
		return true
	}
	e.monitor.device = ordinal(fields[0])
	return false
}

// query reads the CSV of nvidia-smi --query-gpu: a row of column names, then one a
// card.
func (e *engineReader) query(at reading, text string) bool {
	cells := strings.Split(text, ",")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if strings.Contains(text, "memory.") {
		e.monitor.columns = cells
		if len(cells) > 64 {
			e.monitor.columns = nil
		}
		return false
	}
	columns := e.monitor.columns
	if len(cells) != len(columns) {
		e.monitor.columns = nil
		return false
	}
	found := false
	at.component = "device"
	for i, c := range columns {
		if c == "index" && digitsFrom(cells[i], 0, 6) == len(cells[i]) && cells[i] != "" {
			at.device = ordinal(cells[i])
		}
	}
	for i, c := range columns {
		name, _, _ := strings.Cut(c, " ")
		kind, known := map[string]Kind{"memory.used": KindInUse, "memory.total": KindCapacity, "memory.free": KindFree, "memory.reserved": KindOverhead}[name]
		number, _, _ := strings.Cut(cells[i], " ")
		if known && number != "" && digitsFrom(number, 0, mostDigits) == len(number) {
			e.size(at, kind, account.Device, number, "MiB", false)
			found = true
		}
	}
	return found
}

// xml reads nvidia-smi -q -x: sizes stand inside fb_memory_usage of a gpu, and in
// used_memory of a process.
func (e *engineReader) xml(at reading, text string) bool {
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, "<"), ">")
	name, _, _ = strings.Cut(name, " ")
	value, _, _ := strings.Cut(rest, "<")
	m := &e.monitor
	switch name {
	case "nvidia_smi_log":
		m.cards = 0
		return false
	case "gpu":
		m.device = m.cards
		m.cards++
		return false
	case "fb_memory_usage":
		m.inside = name
		return false
	case "/fb_memory_usage":
		m.inside = ""
		return false
	case "pid":
		m.inside = "process " + strings.TrimSpace(value)
		return false
	}
	kind, known := map[string]Kind{"total": KindCapacity, "reserved": KindOverhead, "used": KindInUse, "free": KindFree, "used_memory": KindInUse}[name]
	number, unit, _ := strings.Cut(strings.TrimSpace(value), " ")
	if !known || unit != "MiB" || number == "" || digitsFrom(number, 0, mostDigits) != len(number) {
		return false
	}
	at.device = m.device
	switch {
	case name == "used_memory" && strings.HasPrefix(m.inside, "process ") && len(m.inside) < 32:
		at.component = m.inside
		e.size(at, kind, account.Process, number, unit, false)
	case name != "used_memory" && m.inside == "fb_memory_usage":
		at.component = "device"
		e.size(at, kind, account.Device, number, unit, false)
	default:
		return false
	}
	return true
}
