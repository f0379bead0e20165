package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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
	cardOptions
	operation                     string
	context, generated, sequences string
	images, resolution            string
	layout                        layoutOptions
	training                      trainOptions
	cacheFormat, engine           string
	adapters, configs             []string
	weightsFormat                 string
}

type layoutOptions struct {
	tensor, pipeline, data, expert, context int
}

func (o *workOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	textFlag(f, &o.operation, "operation", "what the workload does: load, generation, training, fine-tuning, evaluation or export (default: generation where a length is given)")
	textFlag(f, &o.context, "context", "`positions` of one prompt, before generation (8192, 8Ki)")
	textFlag(f, &o.generated, "generated", "`positions` that generation adds to each prompt")
	textFlag(f, &o.sequences, "sequences", "`sequences` present together")
	textFlag(f, &o.images, "images", "`images` of one sequence, for a model that sees (0 for none)")
	textFlag(f, &o.resolution, "resolution", "`pixels` along one side of an image")
	textFlag(f, &o.cacheFormat, "cache-format", "element `format` of the KV cache (default: that of the computation)")
	textFlag(f, &o.weightsFormat, "weights-format", "element `format` of weights whose files do not say it (bf16)")
	f.StringArrayVar(&o.adapters, "adapter", nil, "a LoRA or DoRA `folder` beside the model; may be given several times")
	textFlag(f, &o.engine, "engine", "what runs the model: transformers (default; also eager), torchtune, litgpt, torchtitan or trl, vllm, each with a version (vllm@0.19.0, torchtune@0.5), llama.cpp@b6325, ollama@0.11.7, or serving, a view of serving engines in general (sglang, tensorrt_llm and tgi are taken for it)")
	textsFlag(f, &o.configs, "config", "a training's configuration `file` (accelerate, DeepSpeed, TRL, axolotl, torchtune, …), told by its keys; may be given several times")
	o.layout.addFlags(f)
	o.training.addFlags(cmd)
	o.cardOptions.addFlags(f)
	completions(cmd)
}

func (o *layoutOptions) addFlags(f *pflag.FlagSet) {
	*o = layoutOptions{tensor: 1, pipeline: 1, data: 1, expert: 1, context: 1}
	numberFlag(f, &o.tensor, "tensor-parallel", "`ranks` that share each layer")
	numberFlag(f, &o.pipeline, "pipeline-parallel", "`stages` that share the layers")
	numberFlag(f, &o.data, "data-parallel", "`replicas` of the whole")
	numberFlag(f, &o.context, "context-parallel", "`ranks` that share the positions of each sequence, in training")
	numberFlag(f, &o.expert, "expert-parallel", "`ranks` that share the experts of a layer")
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
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(floodmark.Engines(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions([]string{"load", "generation", "training", "fine-tuning", "evaluation", "export"}, cobra.ShellCompDirectiveNoFileComp))
}

// request is what the command line asks: a model, a workload file that names one,
// or the command that starts an engine, with the flags on top.
func (s *session) request(cmd *cobra.Command, o *workOptions, arg string) (floodmark.Request, error) {
	asked, err := ask(cmd, arg, o.configs, o.engine)
	if err != nil {
		return floodmark.Request{}, err
	}
	file := &asked.File
	o.over(file)
	before := file.Workload.Inputs
	if err := o.apply(cmd.Flags(), &file.Workload); err != nil {
		return floodmark.Request{}, err
	}
	if err := asked.settled(cmd.Flags(), before); err != nil {
		return floodmark.Request{}, err
	}
	request := floodmark.Request{Workload: file.Workload, Open: s.model}
	if err := o.settle(file, &request); err != nil {
		return floodmark.Request{}, err
	}
	if err := s.onHere(cmd.Context(), &o.cardOptions, &request); err != nil {
		return floodmark.Request{}, err
	}
	m, err := s.modelOf(cmd.Context(), asked)
	if err != nil {
		return floodmark.Request{}, err
	}
	request.Model = m
	if o.weightsFormat != "" {
		format, ok := dtype.Parse(o.weightsFormat)
		if !ok {
			return request, &usageError{err: fmt.Errorf("--weights-format: %q is no element format such as bf16 or fp16", o.weightsFormat)}
		}
		request.Model = m.Stated(format)
	}
	if err := asked.onto(&request); err != nil {
		return request, err
	}
	adapters := o.adapters
	if r := asked.recipe; r != nil && r.Adapter != "" && len(adapters) == 0 {
		adapters = []string{r.Adapter}
	}
	return request, s.withAdapters(cmd.Context(), adapters, &request)
}

// withAdapters counts each adapter on the model.
func (s *session) withAdapters(ctx context.Context, names []string, r *floodmark.Request) error {
	for _, name := range names {
		a, err := load.OpenAdapter(ctx, name, r.Model, load.Options{Hub: hub.FromEnvironment(s.env.Getenv, s.env.Home)})
		if err != nil {
			return err
		}
		if r.Workload.Training != nil {
			if err := r.Tune(&a.Config); err != nil {
				return err
			}
			continue
		}
		r.Workload.Adapters = append(r.Workload.Adapters, workload.Adapter{
			Name: name, Kind: a.Config.KindName(), Rank: a.Config.Rank, Parameters: a.Parameters.Low(), Bytes: a.Bytes()})
		r.Warnings = append(r.Warnings, a.Warnings...)
		r.Workload.Open = append(slices.Clone(r.Workload.Open), a.Open...)
	}
	return nil
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
	f.Model = fromFile(path, f.Model)
	for i := range f.Workload.Resident {
		f.Workload.Resident[i].Model = fromFile(path, f.Workload.Resident[i].Model)
	}
	return f, nil
}

// fromFile is a model that a file names: a path is relative to the file.
func fromFile(path, name string) string {
	if strings.HasPrefix(name, "./") || strings.HasPrefix(name, "../") {
		return filepath.Join(filepath.Dir(path), name)
	}
	return name
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
		{"--images", o.images, workload.Images},
		{"--resolution", o.resolution, workload.Resolution},
		{"--micro-batch", o.training.microBatch, workload.MicroBatch},
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
	if err := o.training.apply(f, w); err != nil {
		return err
	}
	if w.Operation == "" && len(w.Inputs) > 0 {
		w.Operation = workload.Generation
	}
	switch op := workload.Operation(o.operation); op {
	case "":
	case workload.Load, workload.Generation, workload.Training, workload.FineTuning, workload.Evaluation, workload.Export:
		if err := o.training.beside(f, op); err != nil {
			return err
		}
		w.Operation = op
	default:
		return &usageError{err: fmt.Errorf("--operation: %q is not load, generation, training, fine-tuning, evaluation or export", o.operation)}
	}
	if name, version, stated := strings.Cut(o.engine, "@"); name != "" && (stated || name != w.Engine.Name) {
		w.Engine = workload.Engine{Name: name, Version: version} // a version belongs to the engine beside it
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
		{"context-parallel", o.context, &m.ContextParallel},
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
