package workload

// Declaration is where a part of a workload was read: of a configuration file, of a
// command, or by a rule of the software from what these say.
type Declaration struct {
	Field, Value string
	Source       string // "ds_config.json: zero_optimization.stage", "--bf16", "default of …"
}
