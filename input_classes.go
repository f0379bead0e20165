package floodmark

import (
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/workload"
)

// inputClassNotes say which of the three inputs that a workload file can prepare
// were, where the one that decides, close to the functional limit, is not among
// them.
func inputClassNotes(w workload.Workload) []account.Warning {
	classes := workload.InputNames()
	limit := classes[len(classes)-1]
	var declared []string
	for _, in := range w.Inputs {
		if slices.Contains(classes, in.Name) {
			declared = append(declared, in.Name)
		}
	}
	if len(declared) == 0 || slices.Contains(declared, limit) {
		return nil
	}
	return []account.Warning{{Code: "no_limit_input", Text: "of the inputs " + strings.Join(classes, ", ") + " the workload declares " +
		strings.Join(declared, " and ") + ": nothing here is about an input close to the functional limit"}}
}
