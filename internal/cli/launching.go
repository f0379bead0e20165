package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/internal/launch"
	"floodmark/internal/recipe"
	"floodmark/internal/source"
	"floodmark/workload"
)

// behindDash cuts arguments at "--": what stands behind it is the command by
// which an engine is started. ok is false where there is none.
func behindDash(cmd *cobra.Command, args []string) (before, command []string, ok bool) {
	at := cmd.ArgsLenAtDash()
	if at < 0 || at >= len(args) {
		return args, nil, false
	}
	return args[:at], args[at:], true
}

// takesCommand is takes for arguments of which the last may be a command behind
// "--".
func takesCommand(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		before, command, launched := behindDash(cmd, args)
		if launched {
			before = append(slices.Clone(before), command[0])
		}
		return takes(least, most, what)(cmd, before)
	}
}

// asked is a workload that is asked about: of a workload file, a model, or the
// command that starts an engine.
type asked struct {
	workload.File
	launch *launch.Command // nil where no command was read
	recipe *recipe.Recipe  // nil where no training's configuration was read
}

// ask reads what an argument, the files of a recipe, or the command behind "--" asks
// about, of the engine of --engine, whose release bears on defaults.
func ask(cmd *cobra.Command, arg string, configs []string, engine string) (*asked, error) {
	_, words, launched := behindDash(cmd, cmd.Flags().Args())
	recipes := recipe.Reader{Files: configuration}
	recipes.Engine.Name, recipes.Engine.Version, _ = strings.Cut(engine, "@")
	switch {
	case launched && len(configs) > 0:
		return nil, &usageError{err: fmt.Errorf("--config %s stands beside a command, which names its own files", configs[0]), hint: "name the file in the command, or leave the command out"}
	case launched && recipe.Starts(words):
		r, err := recipes.Parse(words)
		return askedOf(r, err, arg)
	case launched:
		c, err := launch.Parse(words)
		return askedBy(c, err)
	case len(configs) > 0:
		r, err := recipes.Read(configs)
		return askedOf(r, err, arg)
	case isRecipe(arg):
		r, err := recipes.Read([]string{arg})
		return askedOf(r, err, "")
	}
	if !isWorkloadFile(arg) {
		return &asked{File: workload.File{Model: arg, Workload: workload.Workload{Mesh: workload.Single()}}}, nil
	}
	switch c, err := compose(arg); {
	case err == nil || !errors.Is(err, launch.ErrNotCompose):
		return askedBy(c, err)
	}
	file, err := readWorkload(arg)
	if err != nil {
		return nil, err
	}
	if file.Model == "" {
		return nil, source.InField(arg, "model", "is missing").WithHint("name the model that does the work")
	}
	return &asked{File: *file}, nil
}

// askedOf is a recipe with the model that is named beside it, which goes over those
// that it names.
func askedOf(r *recipe.Recipe, err error, model string) (*asked, error) {
	if err != nil {
		return nil, ofRecipe(err)
	}
	own := ""
	if len(r.Models) > 0 {
		own = r.Models[0]
	}
	for i, beside := range r.Workload.Resident {
		if model != "" && beside.Model == own { // of the same model as is trained
			r.Workload.Resident[i].Model = model
		}
	}
	return &asked{File: workload.File{Model: model, Workload: r.Workload}, recipe: r}, nil
}

// mostRecipe bounds what is read of a configuration file.
const mostRecipe = 1 << 20

// configuration reads a file that a command or a configuration names.
func configuration(name string) ([]byte, error) {
	src, err := source.Open(name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	return source.ReadAll(src, mostRecipe)
}

// isRecipe reports a file whose keys are those of a training's configuration.
func isRecipe(arg string) bool {
	if !isWorkloadFile(arg) && !strings.HasSuffix(strings.ToLower(arg), ".toml") {
		return false
	}
	text, err := configuration(arg)
	return err == nil && recipe.Is(arg, text)
}

func askedBy(c *launch.Command, err error) (*asked, error) {
	var wrong *launch.Error
	if errors.As(err, &wrong) {
		return nil, &usageError{err: wrong, hint: wrong.Hint}
	}
	if err != nil {
		return nil, err
	}
	return &asked{File: workload.File{Model: c.Model, Workload: c.Workload}, launch: c}, nil
}

// mostCompose bounds what is read of a YAML file to tell what it is.
const mostCompose = 1 << 20

// compose reads a compose file. A YAML file that is none, or not there, is left to
// the reader of workload files.
func compose(path string) (*launch.Command, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, launch.ErrNotCompose
	}
	defer src.Close()
	data, err := source.ReadAll(src, mostCompose)
	if err != nil || !launch.IsCompose(data) {
		return nil, launch.ErrNotCompose
	}
	c, err := launch.Compose(data, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// onto puts what a command says beside its workload into a request: devices, what
// it had to say, and weights that the engine packs while it loads them.
func (a *asked) onto(r *floodmark.Request) error {
	c := a.launch
	if err := a.ontoRecipe(r); err != nil || c == nil {
		return err
	}
	r.Devices = c.Devices
	r.Warnings = append(r.Warnings, c.Warnings...)
	b := r.Workload.Serving.Budget
	if r.Model.Quantised != nil || b.Quantise == "" {
		return nil
	}
	packed, err := r.Model.WithFormat(formatOf(b.Quantise))
	if err != nil {
		why := "--quantization " + b.Quantise + ": the files are not packed so, and what the engine makes of them is not known"
		r.Workload.Open, r.Workload.Lowering = append(r.Workload.Open, why), append(r.Workload.Lowering, why)
		return nil
	}
	r.Model = packed
	return nil
}

// formatOf is the format of a way to pack weights while they are loaded.
func formatOf(way string) string {
	switch way {
	case "bitsandbytes":
		return "nf4"
	case "fp8", "fp8_per_tensor", "fp8_per_block", "fbgemm_fp8":
		return "fp8"
	}
	return way
}
