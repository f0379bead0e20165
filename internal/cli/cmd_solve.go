package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/bytesize"
	"floodmark/record"
	"floodmark/workload"
)

func newSolve(s *session) *cobra.Command {
	var o workOptions
	var room, grid string
	var parts partitionOptions
	cmd := &cobra.Command{
		Use:   "solve [FIELD] MODEL",
		Short: "The largest context, sequences or micro_batch that still fits, or the fewest cards",
		Long: `Finds the largest value of one dimension that fits on every rank in every phase,
over the same exact estimate that the estimate command makes, and says what limits
it. FIELD is context, generated or sequences, of a training context or micro_batch,
of an evaluation context or batch; the others are given as flags or in a workload file. Where FIELD is tensor_parallel, pipeline_parallel or gpus, it is the
fewest ranks that fit.

With --cache-room it counts how many whole payloads of one sequence a room on the
limiting rank holds, and what is left of it.

Where FIELD is partitions, it is the fewest even parts of what training keeps of each
parameter (--layout) that are within --state-budget: a bound of capacity alone.

With --card all it answers for every card of the catalogue.

With --matrix and no FIELD it answers for every combination of two of them, in
doubling steps.`,
		Example: `  floodmark solve context ./Llama-3.1-70B --generated 1024 --sequences 32 --tensor-parallel 8 --gpu h100
  floodmark solve sequences ./Llama-3.1-70B --context 8192 --generated 0 --tensor-parallel 8 --cache-room 38GiB
  floodmark solve sequences llama-3.1-8b --context 8192 --generated 1024 --card all
  floodmark solve micro_batch ./Llama-3.2-1B --train --optimizer adamw --precision bf16-params --context 2048 --gpu rtx-4090
  floodmark solve partitions --parameters 70600000000 --layout 2+2+4+4+4 --state-budget 64GB
  floodmark solve gpus ./Llama-3.1-70B --context 8192 --generated 1024 --sequences 32 --gpu h100
  floodmark solve ./Llama-3.1-70B --generated 1024 --matrix context=8Ki..128Ki,sequences=1..64 --tensor-parallel 8 --gpu h100`,
		Args: takesCommand(1, 2, "a field and a model"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return []string{"context", "generated", "sequences", "micro_batch", "batch", "tensor_parallel", "pipeline_parallel", "gpus", partitionsField}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			if args[0] == partitionsField {
				document, err := s.partitions(cmd, &parts, args[1:])
				if err != nil {
					return err
				}
				return s.answer(document)
			}
			if parts != (partitionOptions{}) {
				return &usageError{err: errors.New("--layout, --state-budget and --parameters go with solve partitions")}
			}
			solved, err := s.solve(cmd, &o, room, grid, args)
			if err != nil {
				return err
			}
			document := solved.Record(s.tool).(*record.Solve)
			if err := s.answer(document); err != nil {
				return err
			}
			return solveExit(document)
		},
	}
	o.addFlags(cmd)
	parts.addFlags(cmd.Flags())
	textFlag(cmd.Flags(), &room, "cache-room", "`bytes` for the cache on the limiting rank, after everything else (38GiB)")
	textFlag(cmd.Flags(), &grid, "matrix", "every combination of two `dimensions` (context=8Ki..128Ki,sequences=1..64)")
	return cmd
}

func (s *session) solve(cmd *cobra.Command, o *workOptions, room, grid string, args []string) (*floodmark.Solved, error) {
	if before, _, launched := behindDash(cmd, args); launched {
		args = append(slices.Clone(before), "") // the command stands for the model
	}
	if (grid != "") != (len(args) == 1) {
		return nil, &usageError{err: errors.New("solve takes a FIELD and a MODEL, or a MODEL and --matrix"), hint: "see: floodmark solve --help"}
	}
	if err := o.chosenCard(); err != nil {
		return nil, err
	}
	request, err := s.request(cmd, o, args[len(args)-1])
	if err != nil {
		return nil, err
	}
	if o.card == everyCard && grid != "" {
		return nil, &usageError{err: errors.New("a matrix is of one card, and --card all asks for every card")}
	}
	if grid != "" {
		rows, columns, err := axes(grid)
		if err != nil {
			return nil, err
		}
		return floodmark.SolveMatrix(cmd.Context(), request, rows, columns)
	}
	ask := floodmark.SolveRequest{Request: request, Field: field(args[0])}
	if room != "" {
		if ask.CacheRoom, err = bytesize.Parse(room); err == nil && ask.CacheRoom < 1 {
			err = fmt.Errorf("%q is no room", room)
		}
		if err != nil {
			return nil, &usageError{err: fmt.Errorf("--cache-room: %w", err)}
		}
	}
	if o.card == everyCard {
		return floodmark.SolveOnEveryCard(cmd.Context(), ask)
	}
	return floodmark.Solve(cmd.Context(), ask)
}

// solveExit is 3 when no value fits, and 4 when none is known to.
func solveExit(d *record.Solve) error {
	s := d.Solution
	switch {
	case len(d.ByCard) > 0:
		return everySolutionExit(d.ByCard)
	case len(s.Matrix) > 0:
		return matrixExit(s.Matrix)
	case s.Value != nil:
		return nil
	case s.Window != nil && s.Window.Low <= s.Window.High:
		return nil
	case s.Window != nil && s.Window.PossibleLow <= s.Window.PossibleHigh, s.OpenValue != nil:
		return &verdictError{exitCannotTell}
	}
	return &verdictError{exitDoesNotFit}
}

// matrixExit is 3 when no combination fits, and 4 when none is known to.
func matrixExit(points []record.Point) error {
	exit := exitDoesNotFit
	for _, p := range points {
		switch p.Verdict {
		case "fits":
			return nil
		case "cannot_tell":
			exit = exitCannotTell
		}
	}
	return &verdictError{exit}
}

// everySolutionExit is 3 when a value fits on no card, and 4 when none is known
// to.
func everySolutionExit(cards []record.CardSolution) error {
	exit := exitDoesNotFit
	for _, c := range cards {
		switch {
		case c.Value != nil:
			return nil
		case c.OpenValue != nil:
			exit = exitCannotTell
		}
	}
	return &verdictError{exit}
}

// field is a dimension by its name, or by the engine's own for it.
func field(name string) workload.Dimension {
	switch name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"); name {
	case "gpu_memory_utilization":
		return floodmark.Utilization
	case "max_model_len":
		return workload.Context
	case "max_num_seqs":
		return workload.Sequences
	case "tensor_parallel_size":
		return "tensor_parallel"
	}
	return workload.Dimension(name)
}
