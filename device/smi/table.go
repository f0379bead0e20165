package smi

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"floodmark/account"
	"floodmark/device"
)

// fields are what is asked of each card. The name comes last: it alone may hold
// a comma.
func fields() []string {
	return []string{"index", "uuid", "pci.bus_id", "driver_version", "memory.total", "memory.reserved", "memory.free", "memory.used",
		"compute_cap", "compute_mode", "mig.mode.current", "driver_model.current", "name"}
}

// reNoField is the complaint about a field that this release does not have.
var reNoField = regexp.MustCompile(`Field "([a-z_.]+)" is not a valid field to query`)

// row is one card's line, by field.
type row map[string]string

// rows reads lines of comma-separated values. A line of another form is left
// out.
func rows(text []byte, fields []string) []row {
	var list []row
	for line := range strings.Lines(string(text)) {
		if r, ok := parse(line, fields); ok {
			list = append(list, r)
		}
	}
	return list
}

func parse(line string, fields []string) (row, bool) {
	if !utf8.ValidString(line) {
		return nil, false
	}
	values := strings.SplitN(strings.TrimSpace(line), ",", len(fields))
	if len(values) != len(fields) {
		return nil, false
	}
	r := row{}
	for i, f := range fields {
		r[f] = strings.TrimSpace(values[i])
	}
	return r, true
}

// text is a value; empty where the program has none: "[N/A]", "N/A", "[Unknown
// Error]".
func (r row) text(field string) string {
	v := r[field]
	if strings.HasPrefix(v, "[") || v == "N/A" {
		return ""
	}
	return v
}

// bytes is a count of MiB. Whether the program rounds or cuts is not documented,
// so that the interval holds both.
func (r row) bytes(field string, scope account.Scope) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: scope, Counter: "nvidia-smi " + field}
	v, asked := r[field]
	if !asked {
		return account.Unknown("this nvidia-smi does not know "+field, p)
	}
	n, err := strconv.ParseUint(v, 10, 42) // MiB of the largest count of bytes
	if err != nil {
		return account.Unknown(p.Counter+": "+printed(v), p)
	}
	if whole := device.Bytes(n<<20, p); !whole.Known() {
		return whole
	}
	return account.Between(max(int64(n-1)<<20+1, 0), int64(n+1)<<20-1, p)
}

// printed is a value that is no number, as a reason.
func printed(v string) string {
	if v == "" {
		return "nothing was printed"
	}
	return strings.ToLower(strings.Trim(v, "[]"))
}

// reInstance is a line of nvidia-smi -L: a card, or a MIG instance of the last
// card.
var reInstance = regexp.MustCompile(`^\s*(?:GPU (\d{1,4}):|MIG (\S+)\s+Device\s+\d+:)\s*.*\(UUID:\s*([A-Za-z0-9/-]+)\)`)
