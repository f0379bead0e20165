package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/bytesize"
	"floodmark/record"
	"floodmark/workload"
)

func newSolve(s *session) *cobra.Command {
	var o workOptions
	var room string
	cmd := &cobra.Command{
		Use:   "solve FIELD MODEL",
		Short: "The largest context, generated or sequences that still fits",
		Long: `Finds the largest value of one dimension that fits on every rank in every phase,
over the same exact estimate that the estimate command makes, and says what limits
it. FIELD is context, generated or sequences; the others are given as flags or in
a workload file.

With --cache-room it counts how many whole payloads of one sequence a room on the
limiting rank holds, and what is left of it.`,
		Example: `  floodmark solve context ./Llama-3.1-70B --generated 1024 --sequences 32 --tensor-parallel 8 --gpu h100
  floodmark solve sequences ./Llama-3.1-70B --context 8192 --generated 0 --tensor-parallel 8 --cache-room 38GiB`,
		Args: exactly(cobra.ExactArgs(2)),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return []string{"context", "generated", "sequences"}, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			request, err := s.request(cmd, &o, args[1])
			if err != nil {
				return err
			}
			ask := floodmark.SolveRequest{Request: request, Field: workload.Dimension(args[0])}
			if room != "" {
				if ask.CacheRoom, err = bytesize.Parse(room); err == nil && ask.CacheRoom < 1 {
					err = fmt.Errorf("%q is no room", room)
				}
				if err != nil {
					return &usageError{err: fmt.Errorf("--cache-room: %w", err)}
				}
			}
			solved, err := floodmark.Solve(cmd.Context(), ask)
			if err != nil {
				return err
			}
			document := solved.Record(s.tool).(*record.Solve)
			if err := s.answer(document); err != nil {
				return err
			}
			return solveExit(document.Solution)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&room, "cache-room", "", "`bytes` for the cache on the limiting rank, after everything else (38GiB)")
	return cmd
}

// solveExit is 3 when no value fits, and 4 when none is known to.
func solveExit(s record.Solution) error {
	switch {
	case s.Value != nil:
		return nil
	case s.OpenValue != nil:
		return &verdictError{exitCannotTell}
	}
	return &verdictError{exitDoesNotFit}
}
