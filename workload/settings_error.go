package workload

import "fmt"

// SettingsError is a workload whose settings contradict each other, or do not say what
// the work needs.
type SettingsError struct{ Rule string }

// Error is the rule.
func (e *SettingsError) Error() string { return e.Rule }

// Contradiction is a [*SettingsError].
func Contradiction(format string, args ...any) error {
	return &SettingsError{fmt.Sprintf(format, args...)}
}
