package cli

import (
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/internal/launch"
	"floodmark/internal/recipe"
	"floodmark/record"
	"floodmark/workload"
)

type estimateOptions struct {
	workOptions
	byModule, byLayer bool
	whatIf            []string
	parameters        string
	bits              string
	reserveGiB        string
	share             string
	page              string
	calibrate         string
}

func newEstimate(s *session) *cobra.Command {
	var o estimateOptions
	cmd := &cobra.Command{
		Use:   "estimate [MODEL | WORKLOAD.yaml]...",
		Short: "What does this workload need, on each rank, at each phase; with a card: does it fit?",
		Long: `Predicts the memory of a workload, and with --gpu decides whether it fits. What it
cannot predict is shown as unknown and never counted as zero; a verdict that
hangs on it is "cannot tell".

MODEL is a folder or a file (config.json, safetensors, GGUF, torch), a name on
the hub (org/name, org/name@revision; HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE) or a
name of the catalogue. Only headers are read. A workload file says the same in
YAML (docs/workload.md, "Workload files"), and flags go over it. A compose file,
or the command that starts vLLM, behind --, is read as well: its flags, and the
defaults of its version. So are a training's configurations (--config), and the
command that starts it: docs/workload.md, "Recipes".

With --parameters and --bits it does arithmetic for a model of which only the
size is known: a payload of weights, and with --reserve-gib a reserve that you
assume. That is a preparation, not a proof that anything fits.`,
		Example: `  floodmark estimate ./Llama-3.1-8B --by-module
  floodmark estimate llama-3.1-8b --context 8192 --generated 1024 --sequences 4 --gpu h100
  floodmark estimate ./Llama-3.1-8B --context 8192 --what-if weights=int8
  floodmark estimate gpt-oss-20b --context 8192 --generated 512 --sequences 4 --engine serving --gpu h100
  floodmark estimate workload.yaml
  floodmark estimate --gpu h100 -- vllm serve ./Llama-3.1-8B --max-model-len 8192
  floodmark estimate llama-3.1-8b --config ds_config.json --context 4096 --micro-batch 1 --data-parallel 8
  floodmark estimate -- tune run --nproc_per_node 2 full_finetune_distributed --config 8B_full.yaml
  floodmark estimate llama-3.1-8b --context 8192 --generated 1024 --sequences 4 --card all
  floodmark estimate llama-3.1-8b --context 8192 --generated 1024 --sequences 4 --here
  floodmark estimate a.yaml b.yaml --share cuda:0
  floodmark estimate --parameters 7000000000 --bits 16 --reserve-gib 4`,
		Args: takesCommand(0, maxShared, "models or workload files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(o.page); err != nil {
				return err
			}
			document, err := s.estimate(cmd, &o, args)
			if err != nil {
				return err
			}
			if err := s.answer(document, s.page(o.page, aboutModel(document), document, nil)); err != nil {
				return err
			}
			if len(document.Cards) > 0 {
				return cardsExit(document.Cards)
			}
			if document.Verdict == nil && document.Host != nil {
				return verdictExit(document.Host.Verdict)
			}
			return verdictExit(document.Verdict)
		},
	}
	o.addFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&o.byModule, "by-module", false, "list the weights by module")
	f.BoolVar(&o.byLayer, "by-layer", false, "list the weights by layer")
	f.BoolVar(&s.everyRank, "every-rank", false, "list the terms of every kind of rank, not of the one that limits alone")
	textsFlag(f, &o.whatIf, "what-if", "change one `thing` (weights=int8, sequences=8, tensor_parallel=4), or several joined by +, and show which terms move; may be given several times")
	o.bits, o.reserveGiB = "16", "0"
	newFileFlag(f, &o.page, "html", "", "also write a page to this new `file`, which opens offline")
	textFlag(f, &o.calibrate, "calibrate", "a measurement (`file`) of this very workload on this card: what it held outside of its allocator takes the place of intervals that were measured elsewhere")
	textFlag(f, &o.share, "share", "several workloads, each a process of its own, on one `device` (cuda:0)")
	textFlag(f, &o.parameters, "parameters", "no model: a `count` of parameters in one uniform format")
	textFlag(f, &o.bits, "bits", "with --parameters: `bits` of one parameter")
	textFlag(f, &o.reserveGiB, "reserve-gib", "with --parameters: a reserve that you assume, in `GiB`")
	return cmd
}

// aboutModel is the model of an estimate in a word.
func aboutModel(document *record.Estimate) string {
	if document.Model.Name == nil {
		return "estimate"
	}
	return *document.Model.Name
}

func (s *session) estimate(cmd *cobra.Command, o *estimateOptions, args []string) (*record.Estimate, error) {
	if err := o.chosenCard(); err != nil {
		return nil, err
	}
	if o.parameters != "" {
		p, err := o.prepare(args)
		if err != nil {
			return nil, err
		}
		return p.Record(s.tool).(*record.Estimate), nil
	}
	if f := cmd.Flags(); f.Changed("bits") || f.Changed("reserve-gib") {
		return nil, &usageError{err: errors.New("--bits and --reserve-gib go with --parameters")}
	}
	args, words, launched := behindDash(cmd, args)
	trains := launched && recipe.Starts(words)
	if launched && (len(o.share) > 0 || len(args) > 0 && !trains) {
		if _, err := askedBy(launch.Parse(words)); err != nil && o.share == "" {
			return nil, err
		}
		return nil, &usageError{err: errors.New("the command of a server behind -- is the whole of what is estimated: it goes with no model and no --share")}
	}
	if len(args) == 0 && (launched || len(o.configs) > 0) {
		args = []string{""}
	}
	if len(args) == 0 {
		return nil, &usageError{err: errNoModel, hint: "name a model or a workload file, or give --parameters and --bits"}
	}
	if o.share != "" && o.calibrate != "" {
		return nil, &usageError{err: errors.New("--calibrate is of one workload, and --share of several")}
	}
	if o.share != "" {
		return s.share(cmd, o, args)
	}
	if len(args) > 1 {
		return nil, &usageError{err: fmt.Errorf("%d workloads were named, and an estimate is of one", len(args)), hint: "--share cuda:0 puts them on one device"}
	}
	request, err := s.request(cmd, &o.workOptions, args[0])
	if err != nil {
		return nil, err
	}
	if o.calibrate != "" {
		if request, err = s.calibrated(cmd, request, o.calibrate); err != nil {
			return nil, err
		}
	}
	return s.estimateOne(cmd, o, request)
}

// calibrated is a request with what a measurement observed.
func (s *session) calibrated(cmd *cobra.Command, request floodmark.Request, path string) (floodmark.Request, error) {
	evidence, err := s.open(cmd, path)
	if err != nil {
		return request, err
	}
	request, err = request.Calibrated(evidence, path)
	if err != nil {
		return request, ofFlag("--calibrate", err)
	}
	return request, nil
}

// estimateOne is the estimate of one workload, with all that was asked beside
// it.
func (s *session) estimateOne(cmd *cobra.Command, o *estimateOptions, request floodmark.Request) (*record.Estimate, error) {
	if o.card == everyCard {
		request.Card, request.Free = nil, nil
	}
	p, err := floodmark.Estimate(cmd.Context(), request)
	if err != nil {
		return nil, err
	}
	document := p.Record(s.tool).(*record.Estimate)
	if o.card == everyCard {
		if document.Cards, err = floodmark.OnEveryCard(cmd.Context(), p); err != nil {
			return nil, err
		}
	}
	if document.Advice, err = floodmark.Advise(cmd.Context(), p); err != nil {
		return nil, err
	}
	if o.byModule {
		document.Parts = append(document.Parts, floodmark.PartsOf(p.HeldModel().ByModule())...)
	}
	if o.byLayer {
		document.Parts = append(document.Parts, floodmark.PartsOf(p.HeldModel().ByLayer())...)
	}
	for _, setting := range o.whatIf {
		c, err := floodmark.WhatIf(cmd.Context(), p, setting)
		if err != nil {
			return nil, err
		}
		document.WhatIf = append(document.WhatIf, c)
	}
	return document, nil
}

func (o *estimateOptions) prepare(args []string) (*floodmark.Preparation, error) {
	if len(args) > 0 || o.context+o.generated+o.sequences != "" || o.byModule || o.byLayer || len(o.whatIf) > 0 {
		return nil, &usageError{err: errors.New("--parameters stands for a model of which only the size is known: it takes no model, no lengths and no parts")}
	}
	if o.card == everyCard || o.here || o.share != "" || len(o.free) > 0 {
		return nil, &usageError{err: errors.New("--parameters decides on one card as a whole: --card all, --here, --share and --free go with a model")}
	}
	var request floodmark.Request
	file := workload.File{GPU: o.gpu, Platform: o.platform, Capacity: o.capacity}
	if err := o.settle(&file, &request); err != nil {
		return nil, err
	}
	parameters, err := count("--parameters", o.parameters)
	if err != nil {
		return nil, err
	}
	bits, err := count("--bits", o.bits)
	if err != nil {
		return nil, err
	}
	reserve, err := gib("--reserve-gib", o.reserveGiB)
	if err != nil {
		return nil, err
	}
	if o.training.precision != "" {
		p, err := floodmark.PrepareTraining(parameters, o.training.precision, reserve, request.Card, request.Platform)
		if err != nil {
			return nil, &usageError{err: err}
		}
		return p, nil
	}
	// More than 64 bits are refused there, with the reason.
	p, err := floodmark.Prepare(parameters, int(min(bits, math.MaxInt32)), reserve, request.Card, request.Platform)
	if err != nil {
		return nil, &usageError{err: err}
	}
	return p, nil
}
