package cli

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/device"
	"floodmark/dtype"
	"floodmark/internal/hub"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// workOptions are the flags that say which model does what, divided how, on
// which card. Counts are texts, so that one that nobody gave is told from 0.
type workOptions struct {
	operation                     string
	context, generated, sequences string
	layout                        layoutOptions
	cacheFormat                   string
	gpu, platform                 string
}

type layoutOptions struct {
	tensor, pipeline, data, expert int
}

func (o *workOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.operation, "operation", "", "what the workload does: load or generation (default: generation where a length is given)")
	f.StringVar(&o.context, "context", "", "`positions` of one prompt, before generation (8192, 8Ki)")
	f.StringVar(&o.generated, "generated", "", "`positions` that generation adds to each prompt")
	f.StringVar(&o.sequences, "sequences", "", "`sequences` present together")
	f.StringVar(&o.cacheFormat, "cache-format", "", "element `format` of the KV cache (default: that of the computation)")
	o.layout.addFlags(f)
	f.StringVar(&o.gpu, "gpu", "", "the `card` under every rank, by a name of the catalogue")
	f.StringVar(&o.platform, "platform", "", "where the card is used: linux, wsl or windows (default: any of them)")
	completions(cmd)
}

func (o *layoutOptions) addFlags(f *pflag.FlagSet) {
	f.IntVar(&o.tensor, "tensor-parallel", 1, "`ranks` that share each layer")
	f.IntVar(&o.pipeline, "pipeline-parallel", 1, "`stages` that share the layers")
	f.IntVar(&o.data, "data-parallel", 1, "`replicas` of the whole")
	f.IntVar(&o.expert, "expert-parallel", 1, "`ranks` that share the experts of a layer")
}

// completions offers the catalogue's ids for --gpu.
func completions(cmd *cobra.Command) {
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("gpu", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		cards, err := device.Catalogue()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var ids []string
		for _, c := range cards {
			ids = append(ids, c.ID)
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions([]string{"linux", "wsl", "windows"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions([]string{"load", "generation"}, cobra.ShellCompDirectiveNoFileComp))
}

// request is what the command line asks: a model, or a workload file that names
// one, with the flags on top.
func (s *session) request(cmd *cobra.Command, o *workOptions, arg string) (floodmark.Request, error) {
	file := &workload.File{Model: arg, Workload: workload.Workload{Mesh: workload.Single()}, GPU: o.gpu, Platform: o.platform}
	if isWorkloadFile(arg) {
		var err error
		if file, err = readWorkload(arg); err != nil {
			return floodmark.Request{}, err
		}
		if file.Model == "" {
			return floodmark.Request{}, source.InField(arg, "model", "is missing").WithHint("name the model that does the work")
		}
		if o.gpu != "" {
			file.GPU = o.gpu
		}
		if o.platform != "" {
			file.Platform = o.platform
		}
	}
	if err := o.apply(cmd.Flags(), &file.Workload); err != nil {
		return floodmark.Request{}, err
	}
	card, platform, err := findCard(file.GPU, file.Platform)
	if err != nil {
		return floodmark.Request{}, err
	}
	m, err := s.model(cmd.Context(), file.Model)
	if err != nil {
		return floodmark.Request{}, err
	}
	return floodmark.Request{Model: m, Workload: file.Workload, Card: card, Platform: platform}, nil
}

func isWorkloadFile(arg string) bool {
	ext := strings.ToLower(filepath.Ext(arg))
	return ext == ".yaml" || ext == ".yml"
}

// readWorkload reads a workload file; a model in it that is a path is relative
// to the file.
func readWorkload(path string) (*workload.File, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	f, err := workload.ReadFile(src)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(f.Model, "./") || strings.HasPrefix(f.Model, "../") {
		f.Model = filepath.Join(filepath.Dir(path), f.Model)
	}
	return f, nil
}

// model reads a model by path, by its name on the hub, or by its name in the
// catalogue.
func (s *session) model(ctx context.Context, name string) (*model.Model, error) {
	return load.Model(ctx, name, load.Options{Hub: hub.FromEnvironment(s.env.Getenv, s.env.Home)})
}

func findCard(name, platform string) (*device.Card, device.Platform, error) {
	p, err := parsePlatform(platform)
	if err != nil || name == "" {
		return nil, p, err
	}
	c, err := floodmark.FindCard(name)
	if err != nil {
		return nil, p, fmt.Errorf("--gpu: %w", err)
	}
	return &c, p, nil
}

func parsePlatform(text string) (device.Platform, error) {
	switch p := device.Platform(strings.ToLower(text)); p {
	case "":
		return device.UnknownPlatform, nil
	case device.Linux, device.WSL, device.Windows:
		return p, nil
	}
	return "", &usageError{err: fmt.Errorf("--platform: %q is not linux, wsl or windows", text)}
}

// apply puts the flags that were given over a workload. Lengths given as flags
// stand in place of the inputs of a file.
func (o *workOptions) apply(f *pflag.FlagSet, w *workload.Workload) error {
	dimensions := map[workload.Dimension]int64{}
	for _, d := range []struct {
		flag, text string
		name       workload.Dimension
	}{
		{"--context", o.context, workload.Context},
		{"--generated", o.generated, workload.Generated},
		{"--sequences", o.sequences, workload.Sequences},
	} {
		if d.text == "" {
			continue
		}
		n, err := count(d.flag, d.text)
		if err != nil {
			return err
		}
		dimensions[d.name] = n
	}
	if len(dimensions) > 0 {
		w.Inputs = []workload.Input{{Name: "command line", Dimensions: dimensions}}
	}
	if w.Operation == "" && len(w.Inputs) > 0 {
		w.Operation = workload.Generation
	}
	switch op := workload.Operation(o.operation); op {
	case "":
	case workload.Load, workload.Generation:
		w.Operation = op
	default:
		return &usageError{err: fmt.Errorf("--operation: %q is not load or generation", o.operation)}
	}
	if o.cacheFormat != "" {
		format, ok := dtype.Parse(o.cacheFormat)
		if !ok {
			return &usageError{err: fmt.Errorf("--cache-format: %q is no element format such as bf16 or fp8", o.cacheFormat)}
		}
		w.Precision.Cache = format
	}
	return o.layout.apply(f, &w.Mesh)
}

// apply puts the degrees that were given over a mesh.
func (o *layoutOptions) apply(f *pflag.FlagSet, m *workload.Mesh) error {
	for _, d := range []struct {
		flag  string
		value int
		into  *int
	}{
		{"tensor-parallel", o.tensor, &m.TensorParallel}, {"pipeline-parallel", o.pipeline, &m.PipelineParallel},
		{"data-parallel", o.data, &m.DataParallel}, {"expert-parallel", o.expert, &m.ExpertParallel},
	} {
		if f.Changed(d.flag) {
			*d.into = d.value
		}
		if d.value < 1 || d.value > workload.MaxDegree {
			return &usageError{err: fmt.Errorf("--%s: %d is not between 1 and %d", d.flag, d.value, workload.MaxDegree)}
		}
	}
	return nil
}

// errNoModel is a command line without a model.
var errNoModel = errors.New("there is no model to estimate")

// count reads a non-negative whole number: 8192, 7000000000, 7e9, 8Ki.
func count(flag, text string) (int64, error) {
	number, factor := text, int64(1)
	if n, ok := strings.CutSuffix(text, "Ki"); ok {
		number, factor = n, 1<<10
	} else if n, ok := strings.CutSuffix(text, "Mi"); ok {
		number, factor = n, 1<<20
	}
	wrong := &usageError{err: fmt.Errorf("%s: %q is not a whole number", flag, text), hint: "write 8192, 8Ki or 7e9"}
	if len(number) > 20 || strings.ContainsAny(number, "_/xXoObBpP") {
		return 0, wrong
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(number), "e"); ok {
		// A large exponent would make a number of as many digits.
		if n, err := strconv.Atoi(exponent); err != nil || n < -20 || n > 20 {
			return 0, wrong
		}
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		return 0, wrong
	}
	r.Mul(r, new(big.Rat).SetInt64(factor))
	switch {
	case r.Sign() < 0:
		return 0, &usageError{err: fmt.Errorf("%s: %q is negative", flag, text)}
	case r.IsInt() && !r.Num().IsInt64():
		return 0, &usageError{err: fmt.Errorf("%s: %q does not fit in 63 bits", flag, text)}
	case !r.IsInt():
		return 0, wrong
	}
	return r.Num().Int64(), nil
}
