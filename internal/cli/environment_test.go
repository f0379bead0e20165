package cli_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"floodmark/device/nvml/fakenvml"
	"floodmark/internal/checklist"
)

// TestEnvironmentScripts runs the scripts about machines that are made up: their
// NVML is a library that says what the file "scenario" beside it says, and their
// Python and nvidia-smi are scripts.
func TestEnvironmentScripts(t *testing.T) {
	checklist.Covers(t, 4, 18, 23, 113, 121, 126, 158, 170, 172)
	library := fakenvml.Build(t, "")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/environment",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			programs, err := filepath.Glob(filepath.Join(env.WorkDir, "bin", "*"))
			for _, p := range programs {
				err = cmp.Or(err, os.Chmod(p, 0o700))
			}
			env.Setenv("LIBRARY", library)
			env.Setenv("LD_LIBRARY_PATH", env.WorkDir)
			env.Setenv("PATH", env.WorkDir+"/bin"+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("COLUMNS", "240")
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"status": status},
	})
}
