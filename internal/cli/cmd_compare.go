package cli

import (
	"github.com/spf13/cobra"

	"floodmark"
	"floodmark/record"
)

func newCompare(s *session) *cobra.Command {
	var o floodmark.CompareOptions
	var most string
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "What changed between two runs, and which terms moved",
		Long: `Sets two measurements side by side, phase by phase and scope by scope, or two
PyTorch memory snapshots.

Of measurements exactly one thing may differ. More than one changed variable,
another policy, other contents of the inputs or tokens that were cut off make the
two not comparable, which is refused; --force shows them all the same, and says
so. With --fail-over the exit code is 5 where a peak of B is greater than that of
A by more than so many bytes: a gate for CI, over a baseline of the same machine.

Of snapshots it lists for each device the stacks whose allocations explain the
difference of the peaks of requested bytes, largest first; the rows and the rest
sum to the difference.`,
		Example: `  floodmark compare before.pickle after.pickle
  floodmark compare baseline.json run.json --fail-over 256MiB`,
		Args: takes(2, 2, "two measurements or snapshots"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.ready(); err != nil {
				return err
			}
			document, err := s.compare(cmd, args, o)
			if err != nil {
				return err
			}
			limit := int64(-1)
			if most != "" {
				if limit, err = tolerance(most); err != nil {
					return ofFlag("--fail-over", err)
				}
			}
			if err := s.answer(document); err != nil {
				return err
			}
			return overLimit(document, limit)
		},
	}
	cmd.Flags().BoolVar(&o.Force, "force", false, "compare what is not comparable, and say so")
	textFlag(cmd.Flags(), &most, "fail-over", "`bytes` by which a peak may grow (0B, 256MiB); beyond, the exit code is 5")
	return cmd
}

func (s *session) compare(cmd *cobra.Command, args []string, o floodmark.CompareOptions) (*record.Comparison, error) {
	a, err := s.open(cmd, args[0])
	if err != nil {
		return nil, err
	}
	b, err := s.open(cmd, args[1])
	if err != nil {
		return nil, err
	}
	return floodmark.Compare(a, b, [2]string{args[0], args[1]}, o, s.tool)
}

// tolerance is an amount of bytes that may be none.
func tolerance(text string) (int64, error) {
	if text == "0" || text == "0B" {
		return 0, nil
	}
	return memorySize(text)
}

// overLimit is exit code 5 where a peak grew by more than the limit; −1 is none.
// A peak that one side does not have cannot be told.
func overLimit(d *record.Comparison, limit int64) error {
	if limit < 0 {
		return nil
	}
	for _, total := range d.Totals {
		if total.DifferenceBytes != nil && *total.DifferenceBytes > limit {
			return &verdictError{exitDiffers}
		}
	}
	for _, total := range d.Totals {
		if total.DifferenceBytes == nil && total.Term == "peak" {
			return &verdictError{exitCannotTell}
		}
	}
	if len(d.Totals) == 0 {
		return &verdictError{exitCannotTell}
	}
	return nil
}
