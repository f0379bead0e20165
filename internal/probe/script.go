package probe

import (
	_ "embed"
	"os"
	"path/filepath"

	"floodmark/internal/packed"
)

// The settings of floodmark_probe.py; doc.go says what each means.
const (
	EnvOut       = "FLOODMARK_PROBE_OUT"
	EnvRun       = "FLOODMARK_PROBE_RUN"
	EnvPhases    = "FLOODMARK_PROBE_PHASES"
	EnvSteps     = "FLOODMARK_PROBE_STEPS"
	EnvBudget    = "FLOODMARK_PROBE_BUDGET"
	EnvFirst     = "FLOODMARK_PROBE_FIRST"
	EnvSnapshot  = "FLOODMARK_PROBE_SNAPSHOT"
	EnvHashBytes = "FLOODMARK_PROBE_HASH_BYTES"
)

// Names of the one Python file. Python runs a sitecustomize that it finds in
// PYTHONPATH before it runs anything else.
const (
	ScriptName = "floodmark_probe.py"
	startName  = "sitecustomize.py"
)

//go:embed floodmark_probe.py.gz
var script []byte

// Script is the Python file.
func Script() (string, error) { return packed.Text(script) }

// WriteScript puts the Python file into an existing folder, under the name that
// programs import and under the name that Python starts by itself. Both must not
// exist yet. The folder goes first into PYTHONPATH; the lab is run as
// `python FOLDER/floodmark_probe.py lab …`.
func WriteScript(folder string) error {
	text, err := Script()
	if err != nil {
		return err
	}
	for _, name := range []string{ScriptName, startName} {
		f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.WriteString(text); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}
