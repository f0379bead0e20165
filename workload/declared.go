package workload

// Declaration is where a part of a workload was read: under a key of a configuration
// file, by a flag of a command, or by a rule of the software from what these say.
type Declaration struct {
	Field, Value string
	File, Key    string // File is empty for a flag; both are for a rule
	Rule         string
}
