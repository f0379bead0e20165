package record

// Declaration is where a part of a workload was read: a key of a configuration file,
// a flag of a command (then file is null), or a rule of the software (then both are).
type Declaration struct {
	Field string  `json:"field"`
	Value string  `json:"value"`
	File  *string `json:"file"`
	Key   *string `json:"key"`
	Rule  *string `json:"rule"`
}
