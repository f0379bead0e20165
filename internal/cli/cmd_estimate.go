package cli

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/record"
	"floodmark/workload"
)

// estimateOptions are the flags of estimate. Dimensions are texts, so that one
// that nobody gave is told from one that is 0.
type estimateOptions struct {
	context, generated, sequences string
	gpu, platform                 string
	parameters                    string
	bits                          string
	reserveGiB                    string
}

func (o *estimateOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.context, "context", "", "`positions` of one prompt, before generation (8192, 8Ki)")
	f.StringVar(&o.generated, "generated", "", "`positions` that generation adds to each prompt")
	f.StringVar(&o.sequences, "sequences", "", "`sequences` present together")
	f.StringVar(&o.gpu, "gpu", "", "the `card` under every rank, by a name of the catalogue")
	f.StringVar(&o.platform, "platform", "", "where the card is used: linux, wsl or windows (default: any of them)")
	f.StringVar(&o.parameters, "parameters", "", "no model: a `count` of parameters in one uniform format")
	f.StringVar(&o.bits, "bits", "16", "with --parameters: `bits` of one parameter")
	f.StringVar(&o.reserveGiB, "reserve-gib", "0", "with --parameters: a reserve that you assume, in `GiB`")
}

func newEstimate(s *session) *cobra.Command {
	var o estimateOptions
	cmd := &cobra.Command{
		Use:   "estimate [MODEL]",
		Short: "What does this workload need, on each rank, at each phase; with a card: does it fit?",
		Long: `Predicts the memory of a workload from a model folder or its config.json, and
with --gpu decides whether it fits. What it cannot predict is shown as unknown
and never counted as zero; a verdict that hangs on it is "cannot tell".

With --parameters and --bits it does arithmetic for a model of which only the
size is known: a payload of weights, and with --reserve-gib a reserve that you
assume. That is a preparation, not a proof that anything fits.`,
		Example: `  floodmark estimate ./Llama-3.1-8B
  floodmark estimate ./Llama-3.1-8B --context 8192 --generated 1024 --sequences 4 --gpu h100
  floodmark estimate --parameters 7000000000 --bits 16 --reserve-gib 4`,
		Args: exactly(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			evidence, err := o.run(cmd, args)
			if err != nil {
				return err
			}
			document := evidence.Record(s.tool)
			if err := s.answer(document); err != nil {
				return err
			}
			return verdictExit(document.(*record.Estimate).Verdict)
		},
	}
	o.addFlags(cmd.Flags())
	completions(cmd)
	return cmd
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
}

func (o *estimateOptions) run(cmd *cobra.Command, args []string) (floodmark.Evidence, error) {
	card, err := o.card()
	if err != nil {
		return nil, err
	}
	platform, err := o.parsePlatform()
	if err != nil {
		return nil, err
	}
	if o.parameters != "" {
		return o.prepare(args, card, platform)
	}
	if f := cmd.Flags(); f.Changed("bits") || f.Changed("reserve-gib") {
		return nil, &usageError{err: errors.New("--bits and --reserve-gib go with --parameters")}
	}
	if len(args) == 0 {
		return nil, &usageError{err: errors.New("there is no model to estimate"),
			hint: "name a model folder or its config.json, or give --parameters and --bits"}
	}
	w, err := o.workload()
	if err != nil {
		return nil, err
	}
	m, err := floodmark.LoadModel(args[0])
	if err != nil {
		return nil, err
	}
	return floodmark.Estimate(cmd.Context(), floodmark.Request{Model: m, Workload: w, Card: card, Platform: platform})
}

func (o *estimateOptions) card() (*device.Card, error) {
	if o.gpu == "" {
		return nil, nil
	}
	c, err := floodmark.FindCard(o.gpu)
	if err != nil {
		return nil, fmt.Errorf("--gpu: %w", err)
	}
	return &c, nil
}

func (o *estimateOptions) parsePlatform() (device.Platform, error) {
	switch p := device.Platform(strings.ToLower(o.platform)); p {
	case "":
		return device.UnknownPlatform, nil
	case device.Linux, device.WSL, device.Windows:
		return p, nil
	}
	return "", &usageError{err: fmt.Errorf("--platform: %q is not linux, wsl or windows", o.platform)}
}

func (o *estimateOptions) prepare(args []string, card *device.Card, platform device.Platform) (floodmark.Evidence, error) {
	if len(args) > 0 || o.context+o.generated+o.sequences != "" {
		return nil, &usageError{err: errors.New("--parameters stands for a model of which only the size is known: it takes no model and no dimensions")}
	}
	parameters, err := count("--parameters", o.parameters)
	if err != nil {
		return nil, err
	}
	bits, err := strconv.Atoi(o.bits)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("--bits: %q is not a whole number of bits", o.bits)}
	}
	reserve, err := bytesize.Parse(o.reserveGiB + " GiB")
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("--reserve-gib: %q is not a number of GiB", o.reserveGiB)}
	}
	p, err := floodmark.Prepare(parameters, bits, reserve, card, platform)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return p, nil
}

// workload is generation as soon as a dimension is given, else loading alone.
func (o *estimateOptions) workload() (workload.Workload, error) {
	w := workload.Workload{Operation: workload.Load, Mesh: workload.Single()}
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
			return w, err
		}
		dimensions[d.name] = n
	}
	if len(dimensions) > 0 {
		w.Operation = workload.Generation
		w.Inputs = []workload.Input{{Name: "command line", Dimensions: dimensions}}
	}
	return w, nil
}

// count reads a non-negative whole number: 8192, 7000000000, 7e9, 8Ki.
func count(flag, text string) (int64, error) {
	number, factor := text, int64(1)
	for suffix, f := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, factor = n, f
		}
	}
	wrong := &usageError{err: fmt.Errorf("%s: %q is not a whole number", flag, text), hint: "write 8192, 8Ki or 7e9"}
	if len(number) > 20 || strings.ContainsAny(number, "_/xXoObBpP") {
		return 0, wrong
	}
	if _, exponent, ok := strings.Cut(strings.ToLower(number), "e"); ok && len(strings.TrimLeft(exponent, "+")) > 2 {
		return 0, wrong
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
